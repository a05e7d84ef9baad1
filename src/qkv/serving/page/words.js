// The words of a sentence and its translation, with what is aligned with what.

import { make, number } from "./element.js";
import { t } from "./strings.js";

/** Two lines of words; the word that is pointed at or focused is shown with those it is aligned with. */
export function alignedWords(view) {
  const told = make("output", { class: "readout", "aria-live": "polite" }, t("wordHint"));
  const sides = [view.source_words, view.target_words];
  const buttons = sides.map((words, side) => words.map((word, i) =>
    make("button", { type: "button", class: "word", tabindex: i ? -1 : 0, "data-side": side, "data-word": i },
      word.text)));
  const partners = (side, i) => (view.alignment ?? []).filter((pair) => pair[side] === i).map((pair) => pair[1 - side]);

  const show = (side, i) => {
    buttons.flat().forEach((button) => button.classList.remove("here", "there"));
    if (side === null) {
      told.textContent = t("wordHint");
      return;
    }
    const found = partners(side, i);
    buttons[side][i].classList.add("here");
    found.forEach((other) => buttons[1 - side][other]?.classList.add("there"));
    const others = found.map((other) => sides[1 - side][other]?.text).join(" ");
    told.textContent = t(found.length ? "aligned" : "alignedNone", { word: sides[side][i].text, others });
  };
  const lines = ["sourceWords", "targetWords"].map((name, side) => wordLine(t(name), buttons[side], side, show));
  return make("div", { class: "words" }, ...lines, told);
}

/** One line: a single stop of the Tab key, inside which the arrow keys move. */
function wordLine(label, buttons, side, show) {
  const line = make("div", { class: "word-line", role: "group", "aria-label": label });
  buttons.forEach((button, i) => {
    if (i) line.append(" ");
    line.append(button);
  });
  const over = (event) => event.target.closest?.(".word");
  const show1 = (event) => over(event) && show(side, Number(over(event).dataset.word));
  line.addEventListener("pointerover", show1);
  line.addEventListener("focusin", show1);
  line.addEventListener("pointerleave", () => show(null));
  line.addEventListener("focusout", () => show(null));
  line.addEventListener("keydown", (event) => {
    const at = Number(over(event)?.dataset.word);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next === undefined || !buttons[next]) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
  });
  return line;
}

/** The other translations that the search found, with their scores as bars. */
export function alternatives(view) {
  const others = (view.alternatives ?? []).filter((other) => other.text !== view.translation);
  if (!others.length) return null;
  const scored = (score) => (score === undefined ? null : make("span", { class: "score" }, number(score, 3)));
  const items = others.map(({ text, score }) => make("li", {}, make("span", {}, text), scored(score)));
  const title = make("summary", {}, t("alternatives"));
  return make("details", { class: "alternatives" }, title, make("ol", { start: 2 }, ...items));
}
