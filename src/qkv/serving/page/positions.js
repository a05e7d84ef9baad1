// The position encoding: what is added at each position, and how alike two positions are.

import { drawn } from "./picture.js";
import { fetchPart } from "./api.js";
import { heatMap } from "./heatmap.js";
import { make, number } from "./element.js";
import { t } from "./strings.js";

export function positionsPanel({ model, later }) {
  const place = make("div", { class: "side-by-side" });
  later(fetchPart("positions", model), place, (positions) => {
    if (!positions?.table?.length) {
      place.replaceChildren(make("p", { class: "about" }, t("noPositions")));
      return;
    }
    const pictures = [["positionsTable", "positionCell", positions.table, "positions"],
                      ["positionsGram", "gramCell", positions.gram, "positions-products"]];
    place.replaceChildren(...pictures.filter(([, , values]) => values?.length).map(positionPicture));
  });
  return place;
}

function positionPicture([title, cell, values, name]) {
  const counts = (length) => Array.from({ length }, (_, i) => String(i));
  const tell = ([row, column]) => t(cell, { row, column, value: number(values[row][column]) });
  const picture = heatMap({ rows: counts(values.length), columns: counts(values[0].length), values, signed: true, name,
                            label: t(title), tell, height: 460 });
  return make("section", {}, make("h3", {}, t(title)), drawn(picture));
}
