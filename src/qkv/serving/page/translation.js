// A translation as the page tells it: the text, its score, what is aligned with what, other translations.

import { alternatives, alignedWords } from "./words.js";
import { embedded } from "./api.js";
import { make, number } from "./element.js";
import { t } from "./strings.js";

/** The nodes of a view; `line` is the one of its title. */
export function translationNodes(view, line) {
  const whole = view.whole ?? view; // a text of several sentences, one of which is looked at
  const known = whole.score === undefined ? null : t("score", { score: number(whole.score, 3) });
  const score = known && make("span", { class: "faint", title: t("scoreAbout") }, known);
  line.append(...[score, copyButton(whole.translation), linkButton()].filter(Boolean));
  const said = [...(whole.remarks ?? []), ...(view.noLook ? [t("noLook", { reason: view.noLook })] : [])];
  const remarks = said.map((remark) => make("p", { class: "remark" }, remark));
  return [
    embedded ? make("p", { class: "translated", lang: view.model?.source || null }, view.text) : null, line,
    make("p", { class: "translated", "aria-live": "polite", lang: view.model?.target || null }, whole.translation),
    ...remarks, view.source_words ? alignedWords(view) : null, alternatives(whole),
  ].filter(Boolean);
}

/** Puts the translation where it can be pasted from. */
function copyButton(text) {
  const copy = async (event) => {
    const button = event.currentTarget;
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else { // a browser gives it to safe addresses only
      getSelection().selectAllChildren(document.querySelector("#result .translated:last-of-type"));
      document.execCommand("copy");
    }
    button.textContent = t("copiedText");
  };
  return make("button", { type: "button", class: "quiet", onclick: copy }, t("copy"));
}

export function linkButton() {
  const copy = async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard?.writeText(location.href);
    button.textContent = t("copied");
  };
  return embedded ? null : make("button", { type: "button", class: "quiet", onclick: copy }, t("copyLink"));
}
