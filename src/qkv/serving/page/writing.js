// A language model writes: how it should, a button that begins and stops it, and the text as it comes.

import { change, state } from "./state.js";
import { fetchText } from "./api.js";
import { labelled, make, select } from "./element.js";
import { t } from "./strings.js";

const TOKENS = [20, 60, 200, 500];
const TEMPERATURES = [0, 0.5, 0.8, 1, 1.2];

/** How to write, as it stands in the link; whatever else a link may say is the default. */
function wished() {
  const known = (list, value, otherwise) => (list.includes(Number(value)) ? Number(value) : otherwise);
  return { tokens: known(TOKENS, state.tokens, 60), temperature: known(TEMPERATURES, state.temperature, 0.8) };
}

/** `toggle` begins or stops. */
export function writingControls(toggle) {
  const { tokens, temperature } = wished();
  const named = TEMPERATURES.map((value) => [value, value ? value : t("greedy")]);
  return [
    labelled(t("tokensToWrite"), select(TOKENS.map((count) => [count, count]), tokens,
      (value) => change({ tokens: value }))),
    labelled(t("temperature"), select(named, temperature, (value) => change({ temperature: value }))),
    make("button", { type: "button", id: "write", onclick: toggle }, t("write")),
  ];
}

/** Write after a prompt; `tell` is called with all that is written so far, again and again. */
export async function write(prompt, model, tell) {
  const { tokens, temperature } = wished();
  const drawn = temperature ? { temperature, seed: Math.floor(Math.random() * 2 ** 31) } : {};
  const written = { prompt, text: "", remarks: [] };
  tell(written);
  await fetchText({ q: prompt, model: model.name, tokens, ...drawn }, ({ piece, generated }) => {
    written.text += piece;
    written.remarks = generated?.remarks ?? [];
    tell(written);
  });
}

/** The prompt, and what follows it. */
export function writtenNodes({ prompt, text, remarks }) {
  return [make("p", { class: "translated written" }, make("span", { class: "faint" }, prompt), text),
          ...remarks.map((remark) => make("p", { class: "remark" }, remark))];
}
