// The model as boxes, drawn from its live settings, in the manner of Figure 1 of Vaswani et al. 2017.

import { drawn } from "./picture.js";
import { fetchPart } from "./api.js";
import { make } from "./element.js";
import { said, t } from "./strings.js";
import { shorten } from "./paper.js";

const [WIDE, HIGH, GAP, BETWEEN, SIDE, TOP] = [300, 46, 14, 90, 64, 14];

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

/** Two columns, each from the bottom to the top; what makes the output stands on the decoder. */
function boxPicture(boxes, model) {
  const columns = [boxes.filter((box) => box.stack === "encoder"), boxes.filter((box) => box.stack !== "encoder")]
    .filter((column) => column.length);
  const most = Math.max(...columns.map((column) => column.length));
  const width = 2 * SIDE + columns.length * WIDE + (columns.length - 1) * BETWEEN;
  const size = { width, height: TOP + most * (HIGH + GAP) + GAP };
  const place = (column, i) => [SIDE + column * (WIDE + BETWEEN), size.height - GAP - (i + 1) * (HIGH + GAP) + GAP];
  // The cursor counts from the top, the boxes from the bottom.
  const index = ([row, column]) => Math.min(most - 1 - row, columns[column].length - 1);
  return {
    name: "architecture", label: t("architectureLabel", { name: model.name ?? "" }), layout: () => size,
    grid: () => [most, columns.length],
    hit: (_, x, y) => {
      for (const [c, column] of columns.entries()) {
        const i = column.findIndex((__, j) => {
          const [left, top] = place(c, j);
          return x >= left && x < left + WIDE && y >= top && y < top + HIGH;
        });
        if (i >= 0) return [most - 1 - i, c];
      }
      return null;
    },
    tell: (cursor) => tellBox(columns[cursor[1]][index(cursor)]),
    draw: (paper, _, colours) => {
      columns.forEach((column, c) => drawColumn(paper, colours, column, (i) => place(c, i), c > 0));
      if (columns.length === 2) drawMemory(paper, colours, columns, place);
    },
    mark: (paper, _, colours, cursor) => {
      const [x, y] = place(cursor[1], index(cursor));
      paper.rectangle(x - 2, y - 2, WIDE + 4, HIGH + 4, { stroke: colours.accent, line: 2.5, radius: 10 });
    },
  };
}

function tellBox(box) {
  const times = box.times > 1 ? ` × ${box.times}` : "";
  const count = box.parameters ? ` · ${t("parameters", { n: box.parameters.toLocaleString("en") })}${times}` : "";
  return `${said(box.label)}: ${box.about}${count}`;
}

function drawColumn(paper, colours, column, place, isRight) {
  drawRepeats(paper, colours, column, place, isRight);
  column.forEach((box, i) => {
    const [x, y] = place(i);
    const middle = x + WIDE / 2;
    if (i) drawArrow(paper, colours.faint, [[middle, y + HIGH + GAP], [middle, y + HIGH + 1]]);
    if (box.around) drawAround(paper, colours, x, y, box.around);
    const isAttention = /attention/i.test(box.label);
    const pen = isAttention ? { stroke: colours.accent, line: 1.6 } : { stroke: colours.line };
    paper.rectangle(x, y, WIDE, HIGH, { fill: colours.paper, radius: 9, ...pen });
    const [title, small] = [{ size: 13, weight: 600, fill: colours.ink }, { size: 11, fill: colours.faint }];
    paper.text(middle, y + 16, shorten(said(box.label), WIDE - 16, 13), { anchor: "middle", ...title });
    paper.text(middle, y + 33, shorten(box.about, WIDE - 16, 11), { anchor: "middle", ...small });
  });
}

/** A frame around boxes that repeat together, with how often they do. */
function drawRepeats(paper, colours, column, place, isRight) {
  const repeated = column.map((box, i) => [box.times, i]).filter(([times]) => times > 1);
  if (!repeated.length) return;
  const [x, bottom] = place(repeated[0][1]);
  const [, top] = place(repeated.at(-1)[1]);
  const frame = { fill: colours.panel, stroke: colours.line, radius: 14 };
  paper.rectangle(x - 22, top - 8, WIDE + 32, bottom - top + HIGH + 18, frame);
  const [at, anchor] = isRight ? [x + WIDE + 18, "start"] : [x - 30, "end"];
  const how = { size: 15, weight: 600, anchor, fill: colours.accent };
  paper.text(at, (top + bottom + HIGH) / 2, `${repeated[0][0]} ×`, how);
}

/** The residual: what enters the boxes below goes around them. */
function drawAround(paper, colours, x, y, count) {
  const [low, side] = [y + HIGH + count * (HIGH + GAP) + GAP / 2, x - 12];
  drawArrow(paper, colours.faint, [[x + WIDE / 2, low], [side, low], [side, y + HIGH / 2], [x - 1, y + HIGH / 2]]);
}

/** From the top of the encoder to the decoder's attention over it. */
function drawMemory(paper, colours, [encoder, decoder], place) {
  const target = decoder.findIndex((box) => box.from_encoder);
  if (target < 0) return;
  const [x, top] = place(0, encoder.length - 1);
  const [to, y] = place(1, target);
  const [from, high, turn, level] = [x + WIDE / 2, top - GAP, to - BETWEEN / 2 - 12, y + HIGH / 2];
  drawArrow(paper, colours.accent, [[from, top], [from, high], [turn, high], [turn, level], [to - 1, level]], 1.8);
}

function drawArrow(paper, stroke, points, line = 1.2) {
  paper.path(points, { stroke, line });
  const [[x1, y1], [x2, y2]] = points.slice(-2);
  const [dx, dy] = [Math.sign(x2 - x1) * 5, Math.sign(y2 - y1) * 5];
  const [left, right] = [-0.7, 0.7].map((side) => [x2 - dx + side * dy, y2 - dy + side * dx]);
  paper.path([left, [x2, y2], right], { stroke, line });
}
