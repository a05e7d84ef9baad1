// Attention as lines: queries at the left, keys at the right, a line for each weight, a colour for each head.

import { headColour } from "./colours.js";
import { number } from "./element.js";
import { shorten, widthOf } from "./paper.js";
import { t } from "./strings.js";

const WIDEST_LABEL = 150;
const MOST_LINES = 3000; // drawn when no token is chosen: the strongest
const FAINTEST = 0.02; // weights below this are not drawn
const TOP = 26;
const HEAD_BOX = 7; // pixels of a head's box beside a token

/** `weights[i]` (rows by columns) belongs to the head `heads[i]` of `count`; the cursor is [token, side]. */
export function lineView({ rows, columns, weights, heads, count, ...rest }) {
  const sides = [rows, columns];
  const labels = [...sides.flat(), t("queries"), t("keys")];
  const room = Math.min(WIDEST_LABEL, Math.max(...labels.map((label) => widthOf(label, 12))));
  const links = strongest(weights);
  return {
    ...rest,
    grid: () => [Math.max(rows.length, columns.length), 2],
    layout: (width) => {
      const high = Math.min(26, Math.max(2.2, 1100 / Math.max(rows.length, columns.length)));
      const wide = Math.min(width, 760);
      const edge = room + 16 + HEAD_BOX * heads.length;
      const height = TOP + high * Math.max(rows.length, columns.length) + 10;
      return { width: wide, height, high, x: [edge, wide - edge], label: [room + 8, wide - room - 8] };
    },
    hit: (at, x, y) => {
      const side = x < at.x[0] ? 0 : x > at.x[1] ? 1 : null;
      const token = Math.floor((y - TOP) / at.high);
      return side !== null && token >= 0 && token < sides[side].length ? [token, side] : null;
    },
    tell: ([token, side]) => tellToken(sides, weights, Math.min(token, sides[side].length - 1), side),
    draw: (paper, at, colours, cursor) => {
      const chosen = cursor && [Math.min(cursor[0], sides[cursor[1]].length - 1), cursor[1]];
      const colour = heads.map((head) => headColour(head, count, colours.dark));
      drawLinks(paper, at, chosen ? linksOf(weights, chosen) : links, colour);
      if (chosen) drawBoxes(paper, at, weights, chosen, colour);
      sides.forEach((labels, side) => drawSide(paper, at, colours, labels, side, chosen));
    },
  };
}

function strongest(weights) {
  const found = [];
  weights.forEach((head, h) => head.forEach((row, i) => row.forEach((weight, j) => {
    if (weight >= FAINTEST) found.push([h, i, j, weight]);
  })));
  if (found.length > MOST_LINES) found.sort((a, b) => b[3] - a[3]).length = MOST_LINES;
  return found;
}

/** How much a token of one side has to do with each of the other, in each head. */
const others = (head, [token, side]) => (side === 0 ? head[token] : head.map((row) => row[token]));

function linksOf(weights, chosen) {
  const [token, side] = chosen;
  const found = [];
  weights.forEach((head, h) => others(head, chosen).forEach((weight, other) => {
    if (weight >= FAINTEST / 4) found.push(side === 0 ? [h, token, other, weight] : [h, other, token, weight]);
  }));
  return found;
}

const middle = (at, token) => TOP + (token + 0.5) * at.high;

function drawLinks(paper, at, links, colour) {
  for (const [h, i, j, weight] of links) {
    const how = { stroke: colour[h], line: 0.6 + 2 * weight, opacity: Math.min(1, 0.06 + 0.9 * weight) };
    paper.curve(at.x[0], middle(at, i), at.x[1], middle(at, j), how);
  }
}

function drawBoxes(paper, at, weights, chosen, colour) {
  const other = 1 - chosen[1];
  const left = other === 0 ? at.label[0] + 4 : at.x[1] + 4;
  weights.forEach((head, h) => others(head, chosen).forEach((weight, token) => {
    const how = { fill: colour[h], opacity: Math.min(1, weight) };
    if (weight >= FAINTEST / 4) {
      paper.rectangle(left + h * HEAD_BOX, TOP + token * at.high + 1, HEAD_BOX, Math.max(1, at.high - 2), how);
    }
  }));
}

function drawSide(paper, at, colours, labels, side, chosen) {
  const anchor = side === 0 ? "end" : "start";
  paper.text(at.label[side], 10, t(side === 0 ? "queries" : "keys"), { size: 11, anchor, fill: colours.faint });
  const every = Math.ceil(15 / at.high);
  labels.forEach((label, token) => {
    const isChosen = chosen && chosen[1] === side && chosen[0] === token;
    if (token % every && !isChosen) return;
    const how = isChosen ? { fill: colours.accent, weight: 700 } : { fill: colours.ink };
    paper.text(at.label[side], middle(at, token), shorten(label, WIDEST_LABEL), { anchor, ...how });
  });
}

/** The three tokens of the other side that have most to do with this one, by the mean over the heads shown. */
function tellToken(sides, weights, token, side) {
  const rows = weights.map((head) => others(head, [token, side]));
  const means = rows[0].map((_, other) => rows.reduce((sum, row) => sum + row[other], 0) / rows.length);
  const best = means.map((mean, other) => [mean, other]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  const list = best.map(([mean, other]) => `${sides[1 - side][other]} ${number(mean)}`).join(", ");
  return t(side === 0 ? "looksAt" : "isSeenBy", { token: sides[side][token], list });
}
