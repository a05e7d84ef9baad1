// All heads at a glance: a small heat map for each layer and head; a click enlarges it.

import { ramp } from "./colours.js";
import { t } from "./strings.js";

const [LEFT, TOP, GAP] = [64, 24, 10];
const [SMALLEST, LARGEST] = [44, 150];

/** `maps` are the layers of one kind of attention, each with its heads' weights. */
export function headsView({ maps, ...rest }) {
  const most = Math.max(...maps.map((map) => map.heads));
  return {
    ...rest,
    grid: () => [maps.length, most],
    layout: (width) => {
      const side = Math.min(LARGEST, Math.max(SMALLEST, (width - LEFT) / most - GAP));
      const step = side + GAP;
      return { width: LEFT + most * step, height: TOP + maps.length * step, side, step };
    },
    hit: (at, x, y) => {
      const [layer, head] = [Math.floor((y - TOP) / at.step), Math.floor((x - LEFT) / at.step)];
      return layer >= 0 && layer < maps.length && head >= 0 && head < maps[layer].heads ? [layer, head] : null;
    },
    draw: (paper, at, colours) => {
      const small = { size: 11, fill: colours.faint };
      for (let head = 0; head < most; head += 1) {
        const x = LEFT + head * at.step + at.side / 2;
        paper.text(x, 10, t(at.side < 60 ? "number" : "headN", { n: head + 1 }), { ...small, anchor: "middle" });
      }
      maps.forEach((map, layer) => {
        const y = TOP + layer * at.step;
        paper.text(LEFT - 10, y + at.side / 2, t("layerN", { n: layer + 1 }), { ...small, anchor: "end" });
        map.weights.forEach((weights, head) => {
          const cells = shrink(weights, Math.ceil(at.side));
          paper.cells(LEFT + head * at.step, y, at.side, at.side, cells, ramp(colours, highest(cells)));
          paper.rectangle(LEFT + head * at.step, y, at.side, at.side, { stroke: colours.line });
        });
      });
    },
    mark: (paper, at, colours, [layer, head]) => {
      const [x, y] = [LEFT + head * at.step - 2, TOP + layer * at.step - 2];
      paper.rectangle(x, y, at.side + 4, at.side + 4, { stroke: colours.accent, line: 2.5, radius: 3 });
    },
  };
}

function highest(cells) {
  return Math.max(...cells.map((row) => Math.max(...row)));
}

/** A table of at most `most` by `most` cells: where several fall together, the largest is seen. */
function shrink(values, most) {
  const [down, across] = [values.length, values[0].length].map((length) => Math.ceil(length / most));
  if (down === 1 && across === 1) return values;
  const small = [];
  for (let i = 0; i < values.length; i += down) {
    const row = [];
    for (let j = 0; j < values[0].length; j += across) {
      row.push(Math.max(...values.slice(i, i + down).map((line) => Math.max(...line.slice(j, j + across)))));
    }
    small.push(row);
  }
  return small;
}
