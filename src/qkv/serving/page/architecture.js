// The model as boxes, drawn from its live settings, in the manner of Figure 1 of Vaswani et al. 2017.

import { drawn } from "./picture.js";
import { fetchPart } from "./api.js";
import { make } from "./element.js";
import { linesOf, shorten } from "./paper.js";
import { said, saidOf } from "./said.js";
import { t } from "./strings.js";

const [WIDE, HIGH, GAP, BETWEEN, SIDE, TOP] = [300, 46, 14, 90, 64, 14];
const [NARROWEST, TALL, FRAME, LANE] = [240, 60, 24, 34]; // on a phone: TALL boxes, room left and right

export function architecturePanel({ model, later }) {
  const place = make("div", {});
  later(fetchPart("architecture", model), place, (architecture) => {
    const boxes = architecture?.boxes ?? [];
    const nothing = [make("p", { class: "about" }, t("noArchitecture"))];
    place.replaceChildren(...(boxes.length ? shownBoxes(boxes, model) : nothing));
  });
  return place;
}

function shownBoxes(boxes, model) {
  const count = model.parameters && t("parameters", { n: model.parameters.toLocaleString("en") });
  const facts = [model.name, model.architecture, count];
  return [make("p", { class: "about" }, facts.filter(Boolean).join(" · ")), drawn(boxPicture(boxes, model))];
}

/** Where the boxes are: two columns side by side, each from the bottom to the top; where there is no room for that, as
on a phone, the decoder above the encoder, in taller boxes. */
function layOut(columns, width) {
  const counts = columns.map((column) => column.length);
  const across = 2 * SIDE + columns.length * WIDE + (columns.length - 1) * BETWEEN;
  if (width >= across) {
    const height = TOP + Math.max(...counts) * (HIGH + GAP) + GAP;
    const place = (column, i) => [SIDE + column * (WIDE + BETWEEN), height - (i + 1) * (HIGH + GAP)];
    return { width: across, height, wide: WIDE, high: HIGH, place, isNarrow: false };
  }
  const wide = Math.min(WIDE, Math.max(width, NARROWEST) - LANE - FRAME);
  const below = counts.map((_, c) => counts.slice(0, c).reduce((sum, n) => sum + n * (TALL + GAP) + 2 * GAP, 0));
  const height = TOP + below.at(-1) + counts.at(-1) * (TALL + GAP) + GAP;
  const place = (column, i) => [FRAME, height - below[column] - (i + 1) * (TALL + GAP)];
  return { width: wide + LANE + FRAME, height, wide, high: TALL, place, isNarrow: true };
}

/** What makes the output stands on the decoder. */
function boxPicture(boxes, model) {
  const columns = [boxes.filter((box) => box.stack === "encoder"), boxes.filter((box) => box.stack !== "encoder")]
    .filter((column) => column.length);
  const most = Math.max(...columns.map((column) => column.length));
  // The cursor counts from the top, the boxes from the bottom.
  const index = ([row, column]) => Math.min(most - 1 - row, columns[column].length - 1);
  return {
    name: "architecture", label: t("architectureLabel", { name: model.name ?? "" }),
    layout: (width) => layOut(columns, width), grid: () => [most, columns.length],
    hit: (at, x, y) => {
      for (const [c, column] of columns.entries()) {
        const i = column.findIndex((_, j) => {
          const [left, top] = at.place(c, j);
          return x >= left && x < left + at.wide && y >= top && y < top + at.high;
        });
        if (i >= 0) return [most - 1 - i, c];
      }
      return null;
    },
    tell: (cursor) => tellBox(columns[cursor[1]][index(cursor)]),
    draw: (paper, at, colours) => {
      columns.forEach((column, c) => drawColumn(paper, colours, column, at, c));
      if (columns.length === 2) drawMemory(paper, colours, columns, at);
    },
    mark: (paper, at, colours, cursor) => {
      const [x, y] = at.place(cursor[1], index(cursor));
      paper.rectangle(x - 2, y - 2, at.wide + 4, at.high + 4, { stroke: colours.accent, line: 2.5, radius: 10 });
    },
  };
}

function tellBox(box) {
  const times = box.times > 1 ? ` × ${box.times}` : "";
  const count = box.parameters ? ` · ${t("parameters", { n: box.parameters.toLocaleString("en") })}${times}` : "";
  return `${said(box.label)}: ${saidOf(box.about)}${count}`;
}

function drawColumn(paper, colours, column, at, c) {
  drawRepeats(paper, colours, column, at, c);
  column.forEach((box, i) => {
    const [x, y] = at.place(c, i);
    const middle = x + at.wide / 2;
    if (i) drawArrow(paper, colours.faint, [[middle, y + at.high + GAP], [middle, y + at.high + 1]]);
    if (box.around) drawAround(paper, colours, at, x, y, box.around);
    const isAttention = /attention/i.test(box.label);
    const pen = isAttention ? { stroke: colours.accent, line: 1.6 } : { stroke: colours.line };
    paper.rectangle(x, y, at.wide, at.high, { fill: colours.paper, radius: 9, ...pen });
    const [title, small] = [{ size: 13, weight: 600, fill: colours.ink }, { size: 11, fill: colours.faint }];
    paper.text(middle, y + 16, shorten(said(box.label), at.wide - 16, 13), { anchor: "middle", ...title });
    linesOf(saidOf(box.about), at.wide - 16, 11, at.isNarrow ? 2 : 1).forEach((line, n) =>
      paper.text(middle, y + 33 + 14 * n, line, { anchor: "middle", ...small }));
  });
}

/** A frame around boxes that repeat together, with how often they do. */
function drawRepeats(paper, colours, column, at, c) {
  const repeated = column.map((box, i) => [box.times, i]).filter(([times]) => times > 1);
  if (!repeated.length) return;
  const [x, bottom] = at.place(c, repeated[0][1]);
  const [, top] = at.place(c, repeated.at(-1)[1]);
  const frame = { fill: colours.panel, stroke: colours.line, radius: 14 };
  paper.rectangle(x - 22, top - 8, at.wide + 32, bottom - top + at.high + 18, frame);
  const middle = (top + bottom + at.high) / 2;
  const how = { weight: 600, fill: colours.accent };
  const [left, anchor] = c ? [x + at.wide + 18, "start"] : [x - 30, "end"];
  if (at.isNarrow) paper.text(x - 22, top - 16, `${repeated[0][0]}×`, { size: 11, anchor: "start", ...how });
  else paper.text(left, middle, `${repeated[0][0]} ×`, { size: 15, anchor, ...how });
}

/** The residual: what enters the boxes below goes around them. */
function drawAround(paper, colours, at, x, y, count) {
  const [low, side, level] = [y + at.high + count * (at.high + GAP) + GAP / 2, x - 12, y + at.high / 2];
  drawArrow(paper, colours.faint, [[x + at.wide / 2, low], [side, low], [side, level], [x - 1, level]]);
}

/** From the top of the encoder to the decoder's attention over it. */
function drawMemory(paper, colours, [encoder, decoder], at) {
  const target = decoder.findIndex((box) => box.from_encoder);
  if (target < 0) return;
  const [x, top] = at.place(0, encoder.length - 1);
  const [to, y] = at.place(1, target);
  const [from, high, level] = [x + at.wide / 2, top - GAP, y + at.high / 2];
  const turn = at.isNarrow ? to + at.wide + LANE - 14 : to - BETWEEN / 2 - 12;
  const end = at.isNarrow ? to + at.wide + 1 : to - 1;
  drawArrow(paper, colours.accent, [[from, top], [from, high], [turn, high], [turn, level], [end, level]], 1.8);
}

function drawArrow(paper, stroke, points, line = 1.2) {
  paper.path(points, { stroke, line });
  const [[x1, y1], [x2, y2]] = points.slice(-2);
  const [dx, dy] = [Math.sign(x2 - x1) * 5, Math.sign(y2 - y1) * 5];
  const [left, right] = [-0.7, 0.7].map((side) => [x2 - dx + side * dy, y2 - dy + side * dx]);
  paper.path([left, [x2, y2], right], { stroke, line });
}
