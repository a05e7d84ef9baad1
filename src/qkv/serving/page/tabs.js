// The laboratory: which sentence is looked at, the tabs of its views, and the view that is open.

import { architecturePanel } from "./architecture.js";
import { attentionPanel } from "./attention.js";
import { change, state } from "./state.js";
import { curvesPanel } from "./curves.js";
import { decodingPanel } from "./decoding.js";
import { embedded } from "./api.js";
import { explainPanel } from "./explain.js";
import { hasView } from "./desk.js";
import { labelled, make, select } from "./element.js";
import { positionsPanel } from "./positions.js";
import { readingPanel } from "./reading.js";
import { t } from "./strings.js";

const PANELS = { attention: attentionPanel, decoding: decodingPanel, explain: explainPanel, positions: positionsPanel,
                 architecture: architecturePanel, curves: curvesPanel };
const NEEDS_TEXT = ["attention", "decoding", "explain"];
const SHOWN = 60; // characters of a sentence in the menu of them

/** Whether a view is of the text, so that another text needs it drawn anew. */
export function needsText(tab) {
  return NEEDS_TEXT.includes(tab);
}

/** `show` draws the views anew; `again` asks for the text anew. */
export function viewNodes({ view, model, isReady, nothing, show, later, again }) {
  const inView = { attention: view?.attention?.length, decoding: view?.steps?.length };
  const has = (name) => (embedded ? name in embedded || inView[name] : hasView(model, name));
  const names = Object.keys(PANELS).filter(has);
  const tab = names.includes(state.tab) ? state.tab : names[0];
  const open = (name) => {
    change({ tab: name });
    show();
    document.querySelector(`#tab-${name}`).focus();
  };
  const buttons = names.map((name, i) => make("button", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-selected": name === tab, "aria-controls": "panel",
    tabindex: name === tab ? 0 : -1, onclick: () => open(name),
    onkeydown: (event) => {
      const next = { ArrowRight: i + 1, ArrowLeft: i - 1 + names.length, Home: 0, End: names.length - 1 }[event.key];
      if (next !== undefined) open(names[next % names.length]);
    },
  }, t(name)));
  const inside = () => content({ tab, view, model, isReady, nothing, show, later });
  return [laboratory(view, again), make("div", { role: "tablist", "aria-label": t("views") }, ...buttons),
          make("div", { id: "panel", class: "card", role: "tabpanel", "aria-labelledby": `tab-${tab}` }, inside())];
}

/** The title, and of a text of several sentences which one is looked at. */
export function laboratory(view, again) {
  const sentences = view?.sentences ?? [];
  const named = sentences.map((text, i) => {
    const letters = [...text];
    return [i + 1, `${i + 1}. ${letters.length > SHOWN ? `${letters.slice(0, SHOWN).join("")}…` : text}`];
  });
  const go = (sentence) => {
    change({ sentence, at: "", step: "" });
    again();
  };
  const which = named.length > 1 ? labelled(t("sentence"), select(named, view.sentence, go)) : null;
  return make("div", { class: "laboratory" }, make("h2", { class: "title" }, t("laboratory")), which);
}

function content({ tab, view, model, isReady, nothing, show, later }) {
  const tell = (text) => make("p", { class: "faint" }, text);
  if (!isReady) return tell(nothing);
  if (tab === "attention" && model.looks && !embedded) return readingPanel({ model, render: show, later, nothing });
  if (NEEDS_TEXT.includes(tab) && !view?.attention) {
    return tell(view?.noLook ? t("noLook", { reason: view.noLook }) : nothing);
  }
  return PANELS[tab]({ view, model, render: show, later });
}
