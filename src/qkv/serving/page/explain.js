// The step-by-step view of queries, keys and values: each step of a block as a table of numbers.

import { change, counted, state } from "./state.js";
import { choices, labelled, make, number, readable, select } from "./element.js";
import { drawn } from "./picture.js";
import { embedded, fetchSteps } from "./api.js";
import { heatMap } from "./heatmap.js";
import { said, saidOf } from "./said.js";
import { t } from "./strings.js";

export function explainPanel({ view, model, render, later }) {
  const list = make("ol", { class: "steps" });
  later(fetchSteps(view.text, model), list, (steps) => list.replaceChildren(...steps.map(stepCard)));
  const about = make("p", { class: "about" }, t("explainAbout"));
  return make("div", {}, embedded ? null : explainControls(model, render), about, list);
}

function explainControls(model, render) {
  const set = (changes) => {
    change(changes);
    render();
  };
  const config = model.config ?? {};
  const stack = state.stack === "decoder" ? "decoder" : "encoder";
  const numbers = (count) => Array.from({ length: count }, (_, i) => [i + 1, i + 1]);
  const [layers, heads] = [config[`${stack}_layers`] ?? 1, config.n_heads ?? 1];
  const stacks = ["encoder", "decoder"].map((name) => [name, t(name)]);
  return make("div", { class: "controls" },
    make("div", { class: "field" }, make("span", { "aria-hidden": "true" }, t("stack")),
      choices(t("stack"), stacks, stack, (name) => set({ stack: name, block: 1 }))),
    labelled(t("layer"), select(numbers(layers), counted("block", layers, 1), (block) => set({ block }))),
    labelled(t("head"), select(numbers(heads), counted("head", heads, 1), (head) => set({ head }))));
}

function stepCard(step, i) {
  const [rows, columns] = [step.rows.map(readable), step.columns.map(readable)];
  const picture = heatMap({
    rows, columns, values: step.values, signed: true, name: `step-${i + 1}`, height: 420,
    label: t("tableLabel", { title: said(step.title), rows: rows.length, columns: columns.length }),
    tell: ([row, j]) => t("cell", { row: rows[row], column: columns[j], value: number(step.values[row][j]) }),
  });
  const title = make("h3", {}, said(step.title), " ", make("code", {}, step.equation));
  return make("li", {}, title, make("p", { class: "about" }, saidOf(step.about)), drawn(picture));
}
