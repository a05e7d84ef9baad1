// The curves of the training run: the loss of training and validation, and BLEU where it was measured.

import { drawn } from "./picture.js";
import { fetchPart } from "./api.js";
import { make, number } from "./element.js";
import { t } from "./strings.js";

const [LEFT, RIGHT, GAP, BOTTOM, TOP] = [52, 16, 64, 34, 26];
const HEIGHTS = [240, 150];

export function curvesPanel({ model, later }) {
  const place = make("div", {});
  later(fetchPart("curves", model), place, (curves) => {
    const series = curves ? seriesOf(curves) : [];
    const shown = series.length ? drawn(curvePicture(series)) : make("p", { class: "about" }, t("noCurves"));
    place.replaceChildren(shown);
  });
  return place;
}

/** [panel, name, points] of each curve that has any point. */
function seriesOf({ train = [], valid = [] }) {
  const real = (points) => points.filter(([, value]) => Number.isFinite(value));
  return [
    { panel: 0, name: t("trainLoss"), colour: "faint", points: real(train) },
    { panel: 0, name: t("validLoss"), colour: "accent", points: real(valid.map(([step, loss]) => [step, loss])) },
    { panel: 1, name: t("bleu"), colour: "accent", points: real(valid.map(([step, , bleu]) => [step, bleu])) },
  ].filter(({ points }) => points.length);
}

/** Round numbers from about `low` to about `high`. */
function ticks(low, high, count = 5) {
  const rough = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
}

function curvePicture(series) {
  const panels = [...new Set(series.map(({ panel }) => panel))];
  const longest = Math.max(...series.map(({ points }) => points.length));
  const last = Math.max(...series.flatMap(({ points }) => points.map(([step]) => step)));
  const layout = (width) => {
    let y = TOP;
    const boxes = panels.map((panel) => {
      const own = series.filter((one) => one.panel === panel);
      const values = own.flatMap(({ points }) => points.map(([, value]) => value));
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const box = { panel, top: y, height: HEIGHTS[panel], low: Math.min(low, high - 1e-6), high };
      y += box.height + GAP;
      return box;
    });
    const wide = Math.max(240, width);
    return { width: wide, height: y - GAP + BOTTOM, boxes, across: wide - LEFT - RIGHT };
  };
  const place = (at, box, [step, value]) =>
    [LEFT + (at.across * step) / (last || 1), box.top + (box.height * (box.high - value)) / (box.high - box.low)];
  const boxOf = (at, one) => at.boxes.find(({ panel }) => panel === one.panel);
  const point = ([i, j]) => [series[j], series[j].points[Math.min(i, series[j].points.length - 1)]];
  return {
    name: "curves", label: t("curvesLabel"), layout, grid: () => [longest, series.length],
    hit: (at, x, y) => nearestPoint(series, at, boxOf, place, x, y),
    tell: (cursor) => {
      const [one, [step, value]] = point(cursor);
      return t("curveTold", { step: step.toLocaleString("en"), name: one.name, value: number(value, 3) });
    },
    draw: (paper, at, colours) => {
      at.boxes.forEach((box) => drawAxes(paper, at, colours, box, last));
      series.forEach((one) => {
        const isStrong = one.colour === "accent";
        const line = { stroke: colours[one.colour], line: isStrong ? 2 : 1, opacity: isStrong ? 1 : 0.55 };
        const points = one.points.map((value) => place(at, boxOf(at, one), value));
        paper.path(points, line);
        if (points.length <= 40) points.forEach(([x, y]) => paper.dot(x, y, 2.5, colours[one.colour]));
      });
      drawLegend(paper, at, colours, series, boxOf);
    },
    mark: (paper, at, colours, cursor) => {
      const [one, value] = point(cursor);
      const [x, y] = place(at, boxOf(at, one), value);
      paper.dot(x, y, 6, colours.panel);
      paper.dot(x, y, 4.5, colours[one.colour]);
    },
  };
}

function nearestPoint(series, at, boxOf, place, x, y) {
  let best = [Infinity, null];
  series.forEach((one, j) => one.points.forEach((point, i) => {
    const [left, top] = place(at, boxOf(at, one), point);
    const far = (left - x) ** 2 + (top - y) ** 2;
    if (far < best[0]) best = [far, [i, j]];
  }));
  return best[0] < 60 ** 2 ? best[1] : null;
}

function drawAxes(paper, at, colours, box, last) {
  const [right, bottom] = [LEFT + at.across, box.top + box.height];
  const text = { size: 11, fill: colours.faint };
  for (const value of ticks(box.low, box.high)) {
    const y = box.top + (box.height * (box.high - value)) / (box.high - box.low);
    paper.path([[LEFT, y], [right, y]], { stroke: colours.line });
    paper.text(LEFT - 8, y, String(Number(value.toPrecision(6))), { ...text, anchor: "end" });
  }
  for (const step of ticks(0, last, Math.max(2, Math.floor(at.across / 110)))) {
    const x = LEFT + (at.across * step) / (last || 1);
    paper.path([[x, bottom], [x, bottom + 4]], { stroke: colours.faint });
    paper.text(x, bottom + 14, step.toLocaleString("en"), { ...text, anchor: "middle" });
  }
}

function drawLegend(paper, at, colours, series, boxOf) {
  const used = new Map();
  for (const one of series) {
    const box = boxOf(at, one);
    const x = used.get(box) ?? LEFT;
    paper.rectangle(x, box.top - 16, 14, 4, { fill: colours[one.colour], radius: 2 });
    paper.text(x + 20, box.top - 14, one.name, { size: 12, fill: colours.ink });
    used.set(box, x + 140);
  }
}
