// A heat map: a table of numbers as colours, with labels, a bar that explains the colours, and a cursor.

import { diverging, inkOn, ramp } from "./colours.js";
import { shorten, widthOf } from "./paper.js";
import { number } from "./element.js";

const LABEL = 12; // pixels of letters
const WIDEST_LABEL = 130;
const LINE = 15; // pixels that a label needs for itself
const BAR = 64; // room for the bar of colours, at the right of a table of several rows
const NUMBER = 40; // a cell so wide can hold its number

const widest = (labels) => Math.min(WIDEST_LABEL, Math.max(0, ...labels.map((label) => widthOf(label, LABEL))));
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** The largest number without its sign; a masked cell (null) counts for nothing. */
function largest(values) {
  let most = 0;
  for (const row of values) for (const value of row) most = Math.max(most, Math.abs(value ?? 0));
  return most;
}

/** `rows` and `columns` are labels; `signed` tables have two colours. What else a Picture needs is in `rest`. */
export function heatMap({ rows, columns, values, signed = false, height = 900, ...rest }) {
  const most = largest(values);
  const colourOf = (colours) => (signed ? diverging : ramp)(colours, most);
  return {
    ...rest,
    grid: () => [rows.length, columns.length],
    layout: (width) => measure(rows, columns, width, height),
    hit: (at, x, y) => {
      const [row, column] = [Math.floor((y - at.top) / at.high), Math.floor((x - at.left) / at.wide)];
      return row >= 0 && row < rows.length && column >= 0 && column < columns.length ? [row, column] : null;
    },
    draw: (paper, at, colours) => {
      const colour = colourOf(colours);
      paper.cells(at.left, at.top, at.wide * columns.length, at.high * rows.length, values, colour);
      drawGrid(paper, at, colours, rows, columns);
      drawLabels(paper, at, colours, rows, columns);
      if (at.wide >= NUMBER && at.high >= LINE) drawNumbers(paper, at, values, colour);
      if (rows.length > 1) drawBar(paper, at, colours, colour, rows.length, most, signed);
    },
    mark: (paper, at, colours, cursor) => drawCursor(paper, at, colours, rows, columns, cursor),
  };
}

function measure(rows, columns, width, height) {
  const left = widest(rows) + 12;
  const bar = rows.length > 1 ? BAR : 12;
  const wide = clamp((width - left - bar) / columns.length, 2, 80);
  const upright = widest(columns) + 6 <= wide;
  const top = upright ? LINE + 9 : widest(columns) + 12;
  const high = clamp(height / rows.length, 2, upright || wide >= NUMBER ? 34 : clamp(wide, 16, 34));
  const size = { left, top, wide, high, upright };
  const tall = rows.length > 1 ? Math.max(high * rows.length, 70) : high;
  return { ...size, width: left + wide * columns.length + bar, height: top + tall + 8 };
}

function drawGrid(paper, at, colours, rows, columns) {
  const [right, bottom] = [at.left + at.wide * columns.length, at.top + at.high * rows.length];
  const line = { stroke: colours.panel };
  const inner = (count, size) => (size >= 10 ? Array.from({ length: count - 1 }, (_, i) => (i + 1) * size) : []);
  for (const x of inner(columns.length, at.wide)) paper.path([[at.left + x, at.top], [at.left + x, bottom]], line);
  for (const y of inner(rows.length, at.high)) paper.path([[at.left, at.top + y], [right, at.top + y]], line);
  paper.rectangle(at.left, at.top, right - at.left, bottom - at.top, { stroke: colours.line });
}

function drawLabels(paper, at, colours, rows, columns) {
  const [down, across] = [Math.ceil(LINE / at.high), at.upright ? 1 : Math.ceil(LINE / at.wide)];
  rows.forEach((_, i) => i % down || rowLabel(paper, at, rows, i, { fill: colours.ink }));
  columns.forEach((_, i) => i % across || columnLabel(paper, at, columns, i, { fill: colours.ink }));
}

function rowLabel(paper, at, rows, i, how) {
  const text = shorten(rows[i], WIDEST_LABEL, LABEL);
  paper.text(at.left - 8, at.top + (i + 0.5) * at.high, text, { size: LABEL, anchor: "end", ...how });
}

function columnLabel(paper, at, columns, i, how) {
  const [x, text] = [at.left + (i + 0.5) * at.wide, shorten(columns[i], WIDEST_LABEL, LABEL)];
  if (at.upright) paper.text(x, at.top - LINE / 2 - 2, text, { size: LABEL, anchor: "middle", ...how });
  else paper.text(x, at.top - 8, text, { size: LABEL, anchor: "start", turn: -90, ...how });
}

function drawNumbers(paper, at, values, colour) {
  const size = at.wide >= 52 ? 11 : 10;
  values.forEach((row, i) => row.forEach((value, j) => {
    const digits = Math.abs(value ?? 0) >= 100 ? 1 : at.wide >= 48 ? 3 : 2;
    const how = { size, anchor: "middle", fill: inkOn(colour(value)) };
    paper.text(at.left + (j + 0.5) * at.wide, at.top + (i + 0.5) * at.high, number(value, digits), how);
  }));
}

function drawBar(paper, at, colours, colour, rows, most, signed) {
  const [x, height] = [at.width - BAR + 16, clamp(at.high * rows, 60, 180)];
  const low = signed ? -most : 0;
  const shades = Array.from({ length: 48 }, (_, i) => [most - ((most - low) * i) / 47]);
  paper.cells(x, at.top, 8, height, shades, colour);
  paper.rectangle(x, at.top, 8, height, { stroke: colours.line });
  const digits = most >= 100 ? 0 : most >= 10 ? 1 : 2;
  const how = { size: 10, fill: colours.faint };
  paper.text(x + 12, at.top + 5, number(most, digits), how);
  paper.text(x + 12, at.top + height - 5, signed ? number(low, digits) : "0", how);
}

function drawCursor(paper, at, colours, rows, columns, [row, column]) {
  const [x, y] = [at.left + column * at.wide, at.top + row * at.high];
  const [right, bottom] = [at.left + at.wide * columns.length, at.top + at.high * rows.length];
  const thin = { stroke: colours.ink, opacity: 0.45 };
  paper.rectangle(at.left, y, right - at.left, at.high, thin);
  paper.rectangle(x, at.top, at.wide, bottom - at.top, thin);
  paper.rectangle(x - 1, y - 1, at.wide + 2, at.high + 2, { stroke: colours.ink, line: 2 });
  const how = { fill: colours.accent, weight: 700 };
  paper.rectangle(0, Math.max(at.top - 8, y + at.high / 2 - LINE / 2), at.left - 4, LINE, { fill: colours.panel });
  rowLabel(paper, at, rows, row, how);
  const letters = widthOf(shorten(columns[column], WIDEST_LABEL, LABEL), LABEL, 700);
  const half = (at.upright ? Math.max(at.wide, letters) : LINE) / 2;
  paper.rectangle(x + at.wide / 2 - half, 0, 2 * half, at.top - 3, { fill: colours.panel });
  columnLabel(paper, at, columns, column, how);
}
