// A translator's own controls: from which language to which, over all models; the other way round; a whole file.

import { labelled, make, select } from "./element.js";
import { t } from "./strings.js";

/** Two menus and a button between them. `last()` is what was translated last; `choose` takes changes of the state. */
export function languageMenus({ models, model, choose, last }) {
  const pairs = models.filter((one) => one.verbs?.includes("translate"));
  const [from, to] = ["source", "target"].map((side) => new Map(pairs.map((one) => [one[side], nameOf(one, side)])));
  const reachable = new Set(pairs.filter((one) => one.source === model.source).map((one) => one.target));
  const find = (source, target) => pairs.find((one) => one.source === source && one.target === target);
  const back = find(model.target, model.source);
  const begin = (source) =>
    choose({ model: (find(source, model.target) ?? pairs.find((one) => one.source === source)).name });
  const swap = () => choose({ model: back.name, ...(last()?.translation ? { q: last().translation } : {}) });
  return make("div", { class: "controls languages" },
    labelled(t("from"), select([...from], model.source, begin)),
    make("button", { type: "button", id: "swap", "aria-label": t("swap"), title: t("swap"), disabled: !back,
                     onclick: swap }, "⇄"),
    labelled(t("to"), select([...to].filter(([code]) => reachable.has(code)), model.target,
      (target) => choose({ model: find(model.source, target).name }))));
}

/** A language in the language of the page, where the browser knows it; else as the server calls it. */
function nameOf(model, side) {
  const code = model[side];
  try {
    const known = new Intl.DisplayNames([document.documentElement.lang], { type: "language" }).of(code);
    return known === code ? model[`${side}_name`] : known;
  } catch { // no code that a browser would take for one
    return model[`${side}_name`];
  }
}

/** A button that asks for a file, and gives it to `send`. */
export function fileButton(send) {
  const given = (event) => {
    const [file] = event.target.files;
    event.target.value = ""; // so that the same file can be given again
    if (file) send(file);
  };
  const input = make("input", { type: "file", id: "file", class: "hidden", tabindex: -1, "aria-label": t("file"),
                                onchange: given });
  const press = () => input.click();
  return make("span", {}, make("button", { type: "button", onclick: press, title: t("fileAbout") }, t("file")), input);
}

/** A file that has been translated. */
export function fileNodes({ name, href }) {
  return [make("p", { class: "translated" }, make("a", { href, download: name, id: "download" }, name)),
          make("p", { class: "faint" }, t("fileDone"))];
}
