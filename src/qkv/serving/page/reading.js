// What a model that reads looks at: asked for when somebody opens the view, and kept until another text is typed.

import { attentionPanel } from "./attention.js";
import { fetchLook } from "./api.js";
import { given } from "./desk.js";
import { make } from "./element.js";
import { t } from "./strings.js";

let asked = { key: "", coming: null, view: null }; // what was asked for last

/** The panel of attention of the text that is typed, or of both; of texts on lines of their own, of the first. */
export function readingPanel({ model, render, later, nothing }) {
  const item = given(model);
  if (!item) return make("p", { class: "faint" }, nothing);
  const [q, second] = typeof item === "string" ? [item.split("\n")[0], ""] : Object.values(item).flat();
  const key = JSON.stringify([q, second, model.name]);
  if (asked.key !== key) {
    const mine = { key, coming: fetchLook({ q, second, model: model.name }), view: null };
    mine.coming.then((view) => Object.assign(mine, { view }), () => Object.assign(mine, { key: "" }));
    asked = mine;
  }
  if (asked.view) return attentionPanel({ view: asked.view, model, render, later });
  const place = make("div", {});
  later(asked.coming, place, () => place.isConnected && render());
  return place;
}

/** What a page in one file says of the texts that were read. */
export function readNodes(view, line) {
  const texts = [view.text, view.second].filter(Boolean);
  const tokens = make("p", { class: "about" }, t("readTokens", { n: view.tokens.length }));
  return [line, ...texts.map((text) => make("p", { class: "translated" }, text)), tokens];
}
