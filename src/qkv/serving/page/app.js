// The page: its frame, its tabs, and what happens when something changes.

import { LANGUAGES, speak, t } from "./strings.js";
import { alternatives, alignedWords } from "./words.js";
import { architecturePanel } from "./architecture.js";
import { attentionPanel } from "./attention.js";
import { change, readLink, state } from "./state.js";
import { choices, labelled, make, number, restoreFocus, select } from "./element.js";
import { curvesPanel } from "./curves.js";
import { decodingPanel } from "./decoding.js";
import { embedded, fetchModels, fetchView, giveUp, keepKeyOfAddress, Refused, useKey } from "./api.js";
import { explainPanel } from "./explain.js";
import { positionsPanel } from "./positions.js";

const PANELS = { attention: attentionPanel, decoding: decodingPanel, explain: explainPanel, positions: positionsPanel,
                 architecture: architecturePanel, curves: curvesPanel };
const NEEDS_TEXT = ["attention", "decoding", "explain"];
const PAUSE = 350; // milliseconds without a key before a text is translated
const EXAMPLES = { en: ["Two dogs play in the snow.", "A man in a blue shirt is standing on a ladder."],
                   de: ["Zwei Hunde spielen im Schnee.", "Ein Mann steht auf einer Leiter."],
                   zh: ["两只狗在雪地里玩耍。"] };

const page = document.getElementById("page");
let models = [];
let view = embedded?.view ?? null;
let trouble = null; // what went wrong last
let isWorking = false;
let waiting = null;
let field = null; // where the text is typed: one for the life of the page, so that no key is lost when it is drawn anew
let typedKey = ""; // what stands where the API key is typed: a field may come anew while somebody types

const model = () => models.find(({ name }) => name === state.model) ?? models[0] ?? {};

// -- asking ---------------------------------------------------------------------------------------------------------

async function translate() {
  clearTimeout(waiting); // what was typed while the page began is asked for once
  const text = state.q.trim();
  if (!text || embedded || !models.length) {
    giveUp();
    [view, isWorking] = [embedded?.view ?? null, false];
    showText();
    return;
  }
  isWorking = true;
  status();
  try {
    view = await fetchView(text, model());
    trouble = null;
  } catch (error) {
    if (error.name === "AbortError") return; // a newer text is on its way
    [view, trouble] = [null, wrong(error)];
  }
  isWorking = false;
  showText();
}

function typed(event) {
  change({ q: event.target.value, at: "", step: "" });
  clearTimeout(waiting);
  waiting = setTimeout(translate, PAUSE);
}

/** Fill `place` when `answer` comes; what goes wrong is told there. */
function later(answer, place, fill) {
  place.replaceChildren(make("p", { class: "faint" }, t("loading")));
  answer.then(fill).catch((error) => place.replaceChildren(troubleNode(wrong(error))));
}

/** What the server refused, to be told; a mistake of the page itself goes to the console. */
function wrong(error) {
  if (error instanceof Refused) return error;
  throw error;
}

function troubleNode(error) {
  const needsKey = [401, 403].includes(error.status) || /api key/i.test(error.message);
  if (!needsKey) {
    return make("p", { class: "trouble", role: "alert" }, error.message || t("unreachable"));
  }
  const keep = () => { typedKey = input.value; };
  const input = make("input", { type: "password", name: "key", autocomplete: "off", required: true, oninput: keep });
  input.value = typedKey;
  const send = (event) => {
    event.preventDefault();
    useKey(input.value);
    input.value = typedKey = "";
    trouble = null;
    start();
  };
  return make("form", { class: "trouble", onsubmit: send }, make("p", { role: "alert" }, t("keyNeeded")),
    labelled(t("key"), input), make("button", {}, t("keySend")));
}

// -- showing --------------------------------------------------------------------------------------------------------

/** Draw the whole page anew from the state. */
function render() {
  const language = LANGUAGES[state.lang] ? state.lang : navigator.language.startsWith("zh") ? "zh" : "en";
  speak(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  document.documentElement.dataset.theme = ["light", "dark"].includes(state.theme) ? state.theme : "auto";
  document.title = state.q || view ? `${(view?.text ?? state.q).slice(0, 60)} – qkv` : `qkv – ${t("title")}`;
  const before = document.activeElement;
  page.replaceChildren(make("a", { class: "skip", href: "#views", onclick: toViews }, t("skip")), header(language),
    make("main", {}, translation(), make("section", { id: "views", "aria-label": t("views"), tabindex: -1 })));
  show();
  goOnTyping(before);
}

/** The focus stays where somebody types, though the page was drawn anew. */
function goOnTyping(before) {
  if (before?.name === "key") page.querySelector("[name=key]")?.focus();
  else if (before === field) field?.focus();
}

/** Draw result and views; the text that is being typed stays as it is. */
function show() {
  showResult();
  page.querySelector("#views").replaceChildren(...views());
  restoreFocus();
}

/** Draw what depends on the text: a view that does not, and where somebody may be looking at a cell, stays. */
function showText() {
  const tab = page.querySelector("[role=tab][aria-selected=true]")?.id.slice("tab-".length);
  if (embedded || NEEDS_TEXT.includes(tab)) show();
  else showResult();
}

function showResult() {
  const before = document.activeElement;
  status();
  page.querySelector("#result").replaceChildren(...result());
  goOnTyping(before);
}

function status() {
  page.querySelector("#status").textContent = isWorking ? t("working") : "";
  page.querySelector("#result").setAttribute("aria-busy", isWorking);
}

function toViews(event) {
  event.preventDefault();
  page.querySelector("#views").focus();
}

function header(language) {
  const set = (changes) => {
    change(changes);
    render();
  };
  const themes = [["", t("themeAuto")], ["light", t("themeLight")], ["dark", t("themeDark")]];
  const theme = ["light", "dark"].includes(state.theme) ? state.theme : "";
  return make("header", {},
    make("div", { class: "brand" }, make("h1", {}, "qkv"), make("p", {}, t("tagline"))),
    make("div", { class: "controls" },
      choices(t("language"), [["en", "English"], ["zh", "中文"]], language, (lang) => set({ lang })),
      choices(t("theme"), themes, theme, (name) => set({ theme: name }))));
}

function translation() {
  const result = make("div", { class: "card", id: "result", "aria-live": "off" });
  if (embedded) return make("section", { class: "translation saved" }, make("span", { id: "status" }), result);
  field ??= make("textarea", { id: "text", rows: 3, spellcheck: false, oninput: typed });
  field.placeholder = t("placeholder");
  if (field.value !== state.q) field.value = state.q;
  const choose = (changes) => {
    change({ at: "", step: "", layer: "", heads: "", block: 1, head: 1, ...changes });
    render();
    translate();
  };
  const names = models.map(({ name, source, target }) => [name, source ? `${name} (${source} → ${target})` : name]);
  const beams = [1, 2, 3, 4, 5, 6, 8, 10].map((beam) => [beam, beam]);
  const fill = (example) => choose({ q: example });
  const tries = (EXAMPLES[model().source] ?? []).map((example) =>
    make("button", { type: "button", class: "quiet", onclick: () => fill(example) }, example));
  return make("section", { class: "translation" },
    make("div", { class: "card" },
      make("label", { for: "text", class: "title" }, t("source")), field,
      make("div", { class: "controls" },
        labelled(t("model"), select(names, model().name, (name) => choose({ model: name }))),
        labelled(t("beam"), select(beams, state.beam, (beam) => choose({ beam }))),
        make("span", { id: "status", class: "faint", role: "status" })),
      tries.length ? make("div", { class: "tries" }, make("span", { class: "faint" }, t("examples")), ...tries) : null),
    result);
}

function result() {
  if (trouble) return [make("h2", { class: "title" }, t("target")), troubleNode(trouble)];
  if (!view) return [make("h2", { class: "title" }, t("target")), make("p", { class: "faint" }, t("nothing"))];
  const known = view.score === undefined ? null : t("score", { score: number(view.score, 3) });
  const score = known && make("span", { class: "faint", title: t("scoreAbout") }, known);
  const said = [...(view.remarks ?? []), ...(view.noLook ? [t("noLook", { reason: view.noLook })] : [])];
  const remarks = said.map((remark) => make("p", { class: "remark" }, remark));
  return [
    embedded ? make("p", { class: "translated", lang: view.model?.source || null }, view.text) : null,
    make("div", { class: "title-line" }, make("h2", { class: "title" }, t("target")), score, linkButton()),
    make("p", { class: "translated", "aria-live": "polite", lang: view.model?.target || null }, view.translation),
    ...remarks, view.source_words ? alignedWords(view) : null, alternatives(view),
  ].filter(Boolean);
}

function linkButton() {
  const copy = async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard?.writeText(location.href);
    button.textContent = t("copied");
  };
  return embedded ? null : make("button", { type: "button", class: "quiet", onclick: copy }, t("copyLink"));
}

function views() {
  const inView = { attention: view?.attention?.length, decoding: view?.steps?.length };
  const has = (name) => !embedded || name in embedded || inView[name];
  const names = Object.keys(PANELS).filter(has);
  const tab = names.includes(state.tab) ? state.tab : names[0];
  const open = (name) => {
    change({ tab: name });
    show();
    page.querySelector(`#tab-${name}`).focus();
  };
  const buttons = names.map((name, i) => make("button", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-selected": name === tab, "aria-controls": "panel",
    tabindex: name === tab ? 0 : -1, onclick: () => open(name),
    onkeydown: (event) => {
      const next = { ArrowRight: i + 1, ArrowLeft: i - 1 + names.length, Home: 0, End: names.length - 1 }[event.key];
      if (next !== undefined) open(names[next % names.length]);
    },
  }, t(name)));
  return [make("div", { role: "tablist", "aria-label": t("views") }, ...buttons),
          make("div", { id: "panel", class: "card", role: "tabpanel", "aria-labelledby": `tab-${tab}` }, content(tab))];
}

function content(tab) {
  const say = (text) => make("p", { class: "faint" }, text);
  if (!models.length) return say(trouble ? "" : t("loading"));
  if (NEEDS_TEXT.includes(tab) && !view?.attention) {
    return say(view?.noLook ? t("noLook", { reason: view.noLook }) : t("nothing"));
  }
  return PANELS[tab]({ view, model: model(), render: show, later });
}

// -- beginning ------------------------------------------------------------------------------------------------------

async function start() {
  try {
    models = await fetchModels();
  } catch (error) {
    trouble = wrong(error);
  }
  render();
  await translate();
}

keepKeyOfAddress();
readLink();
render();
start();
window.addEventListener("hashchange", () => {
  readLink();
  render();
  translate();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
