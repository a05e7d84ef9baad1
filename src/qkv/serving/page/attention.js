// The view of attention: which one, which layer, which heads, and as what kind of picture.

import { choices, make, number, readable, select, labelled, keepFocus } from "./element.js";
import { change, chosenHeads, counted, cursor, state } from "./state.js";
import { drawn } from "./picture.js";
import { fetchHeads } from "./api.js";
import { headColour, palette } from "./colours.js";
import { headsView } from "./heads.js";
import { heatMap } from "./heatmap.js";
import { lineView } from "./lines.js";
import { t } from "./strings.js";

const KINDS = ["encoder", "decoder", "memory"];
const ABOUT = { encoder: "kindAboutEncoder", decoder: "kindAboutDecoder", memory: "kindAboutMemory" };
const READS = { encoder: "readsBothWays", decoder: "readsOnward" }; // of a model that only reads

export function attentionPanel({ view, model, render, later }) {
  const kinds = KINDS.filter((kind) => view.attention.some((map) => map.kind === kind));
  const kind = kinds.includes(state.kind) ? state.kind : kinds.at(-1);
  const maps = view.attention.filter((map) => map.kind === kind);
  const layer = counted("layer", maps.length, maps.length);
  const map = maps[layer - 1];
  const set = (changes) => {
    change({ at: "", ...changes });
    render();
  };
  const modes = ["heat", "lines", "glance"];
  const mode = modes.includes(state.mode) ? state.mode : view.tokens ? "glance" : "heat";
  const controls = make("div", { class: "controls" },
    kinds.length < 2 ? null
      : group(t("kind"), choices(t("kind"), kinds.map((name) => [name, t(name)]), kind, (name) => set({ kind: name }))),
    group(t("mode"), choices(t("mode"), modes.map((name) => [name, t(name)]), mode, (name) => set({ mode: name }))),
    mode === "glance" ? null : layerField(maps.length, layer, set),
    mode === "glance" ? null : group(t("heads"), headChips(map.heads, set)));
  const hint = mode === "glance" ? t("glanceHint") : t("headsHint");
  const place = make("div", {});
  const shown = mode === "glance" ? maps : [map];
  const coming = fetchHeads(view, model, shown);
  if (coming) later(coming, place, () => place.isConnected && render());
  else place.replaceChildren(drawn(PICTURES[mode]({ kind, maps, map, layer, set })), ...remarks(shown));
  const about = t(view.tokens ? READS[kind] : ABOUT[kind]);
  return make("div", {}, controls, make("p", { class: "about" }, about, " ", hint), place);
}

function remarks(maps) {
  const said = [...new Set(maps.map((map) => map.remark).filter(Boolean))];
  return said.map((remark) => make("p", { class: "remark" }, remark));
}

function group(text, control) {
  return make("div", { class: "field" }, make("span", { "aria-hidden": "true" }, text), control);
}

function layerField(count, layer, set) {
  const options = Array.from({ length: count }, (_, i) => [i + 1, i + 1]);
  const keep = (value) => {
    keepFocus("select", t("layer"));
    set({ layer: value });
  };
  const field = labelled(t("layer"), select(options, layer, keep));
  field.setAttribute("aria-label", t("layer"));
  return field;
}

/** A coloured button for each head; a click chooses one, with Shift it is added or taken away. */
function headChips(heads, set) {
  const chosen = chosenHeads(heads);
  const { dark } = palette();
  const isAll = chosen.length === heads;
  const press = (name, list) => {
    keepFocus(`[data-head="${name}"]`, t("heads"));
    set({ heads: list.length === heads ? "" : list.map((head) => head + 1).join(",") });
  };
  const chips = Array.from({ length: heads }, (_, head) =>
    make("button", {
      type: "button", class: "chip", "data-head": head, "aria-pressed": chosen.includes(head),
      "aria-label": t("headN", { n: head + 1 }), "--head": headColour(head, heads, dark),
      onclick: (event) => {
        const without = chosen.filter((other) => other !== head);
        const more = without.length < chosen.length ? without : [...chosen, head].sort((a, b) => a - b);
        press(head, event.shiftKey || event.ctrlKey || event.metaKey ? more : [head]);
      },
    }, String(head + 1)));
  const every = make("button", { type: "button", class: "chip all", "data-head": "all", "aria-pressed": isAll,
                                 onclick: () => press("all", Array.from({ length: heads }, (_, i) => i)) }, t("all"));
  return make("div", { class: "chips", role: "group", "aria-label": t("heads") }, every, ...chips);
}

const pinning = { pin: (at) => change({ at: at ? at.join(",") : "" }) };

/** The mean of some heads' weights; of one head, its own. */
function meanOf(heads) {
  if (heads.length === 1) return heads[0];
  return heads[0].map((row, i) => row.map((_, j) => heads.reduce((sum, head) => sum + head[i][j], 0) / heads.length));
}

const PICTURES = {
  heat: ({ kind, map, layer }) => {
    const heads = chosenHeads(map.heads);
    const values = meanOf(heads.map((head) => map.weights[head]));
    const [rows, columns] = [map.rows.map(readable), map.columns.map(readable)];
    const which = heads.length === 1 ? t("oneHead", { n: heads[0] + 1 }) : t("meanOfHeads", { n: heads.length });
    return heatMap({
      ...pinning, rows, columns, values, name: `attention-${kind}-${layer}`, pinned: cursor(),
      label: t("heatLabel", { kind: t(kind), layer }),
      tell: ([i, j]) => t("weightOf", { row: rows[i], column: columns[j], weight: number(values[i][j]), heads: which }),
    });
  },
  lines: ({ kind, map, layer }) => {
    const heads = chosenHeads(map.heads);
    return lineView({
      ...pinning, rows: map.rows.map(readable), columns: map.columns.map(readable), heads, count: map.heads,
      weights: heads.map((head) => map.weights[head]), name: `attention-lines-${kind}-${layer}`, pinned: cursor(),
      label: t("linesLabel", { kind: t(kind), layer }),
    });
  },
  glance: ({ kind, maps, set }) => headsView({
    ...pinning, maps, name: `attention-heads-${kind}`, label: t("glanceLabel", { kind: t(kind) }), pinned: cursor(),
    tell: ([layer, head]) => t("layerHead", { layer: layer + 1, head: head + 1 }),
    choose: ([layer, head]) => set({ layer: layer + 1, heads: head + 1, mode: "heat" }),
  }),
};
