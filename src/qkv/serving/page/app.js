// The page: its frame, its tabs, and what happens when something changes.

import { LANGUAGES, speak, t } from "./strings.js";
import { answerNodes } from "./answers.js";
import { change, readLink, state } from "./state.js";
import { choices, labelled, make, restoreFocus, select } from "./element.js";
import { boxesOf, examplesFor, given, verbOf } from "./desk.js";
import { embedded, fetchAnswer, fetchModels, fetchView, giveUp, keepKeyOfAddress, sendFile } from "./api.js";
import { fileButton, fileNodes, languageMenus } from "./languages.js";
import { linkButton, translationNodes } from "./translation.js";
import { laboratory, needsText, viewNodes } from "./tabs.js";
import { readNodes } from "./reading.js";
import { said } from "./said.js";
import { troubleNode, wrong } from "./trouble.js";
import { write, writingControls, writtenNodes } from "./writing.js";

const PAUSE = 350; // milliseconds without a key before a text is sent

const page = document.getElementById("page");
let models = [];
let view = embedded?.view ?? null;
let trouble = null; // what went wrong last
let isWorking = false;
let waiting; // the clock that runs while somebody types
const fields = {}; // where texts are typed: for the life of the page, so that no key is lost when it is drawn anew

const model = () => models.find(({ name }) => name === state.model) ?? models[0] ?? {};
const verb = () => (embedded?.view.tokens ? "look" : verbOf(model()));
/** A string for what the model does, if there is one of its own. */
const say = (name) => t(`${name}_${verb()}`);

// -- asking ---------------------------------------------------------------------------------------------------------

/** Ask the model for what is typed; one that writes begins when it is told to. */
async function answer() {
  waiting = clearTimeout(waiting); // that is, undefined
  const item = given(model());
  if (!item || embedded || !models.length || verb() === "generate") {
    giveUp();
    [view, isWorking] = [embedded?.view ?? null, false];
    showText();
    return;
  }
  const asked = verb();
  await working(async () => {
    view = asked === "translate" ? await fetchView(item, model())
      : { item, answer: await fetchAnswer(asked, item, model()) };
  });
  showText();
}

/** Do something that waits for the server; whether it was not given up. */
async function working(work) {
  isWorking = true;
  status();
  try {
    await work();
    trouble = null;
  } catch (error) {
    if (error.name === "AbortError") return false; // a newer text is on its way
    [view, trouble] = [null, wrong(error)];
  }
  isWorking = false;
  return true;
}

async function toggleWriting() {
  if (isWorking) {
    giveUp();
    isWorking = false;
  } else {
    trouble = null;
    await working(() => write(state.q, model(), (written) => {
      view = { written };
      showResult();
    }));
  }
  showResult();
}

/** Translate a file, whatever it is; the answer is a file of the same kind. */
async function translateFile(file) {
  waiting = clearTimeout(waiting);
  giveUp();
  await working(async () => {
    view = { file: await sendFile(file, model()) };
  });
  show();
}

function typed(event) {
  change({ [event.target.name]: event.target.value, at: "", step: "", sentence: 1 });
  clearTimeout(waiting);
  waiting = setTimeout(verb() === "generate" ? showText : answer, PAUSE);
}

/** Fill `place` when `answer` comes; what goes wrong is told there. */
function later(answer, place, fill) {
  place.replaceChildren(make("p", { class: "faint" }, t("loading")));
  answer.then(fill).catch((error) => place.replaceChildren(troubleNode(wrong(error), again)));
}

/** Begin anew, with a key. */
function again() {
  trouble = null;
  start();
}

// -- showing --------------------------------------------------------------------------------------------------------

/** Draw the whole page anew from the state. */
function render() {
  const language = LANGUAGES[state.lang] ? state.lang : navigator.language.startsWith("zh") ? "zh" : "en";
  speak(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  document.documentElement.dataset.theme = ["light", "dark"].includes(state.theme) ? state.theme : "auto";
  document.title = state.q || view?.text ? `${(view?.text ?? state.q).slice(0, 60)} – qkv` : `qkv – ${t("title")}`;
  const before = document.activeElement;
  page.replaceChildren(make("a", { class: "skip", href: "#views", onclick: toViews }, t("skip")), header(language),
    make("main", {}, desk(), make("section", { id: "views", "aria-label": t("views"), tabindex: -1 })));
  show();
  keepPlace(before);
}

/** The focus stays where somebody types or moves over a picture, though the page was drawn anew. */
function keepPlace(before) {
  const anew = before?.name === "key" ? "[name=key]" : before?.tagName === "CANVAS" ? "#panel canvas" : null;
  (anew ? page.querySelector(anew) : fields[before?.name])?.focus();
}

/** Draw result and views; the text that is being typed stays as it is. */
function show() {
  const before = document.activeElement;
  showResult();
  page.querySelector("#views").replaceChildren(...views());
  keepPlace(before);
  restoreFocus();
}

/** Draw what depends on the text: a view that does not, and where somebody may be looking at a cell, stays. */
function showText() {
  const tab = page.querySelector("[role=tab][aria-selected=true]")?.id.slice("tab-".length);
  if (embedded || needsText(tab)) return show();
  page.querySelector(".laboratory")?.replaceWith(laboratory(view, answer));
  showResult();
}

function showResult() {
  const before = document.activeElement;
  status();
  page.querySelector("#result").replaceChildren(...result());
  keepPlace(before);
}

function status() {
  page.querySelector("#status").textContent = isWorking ? say("working") : "";
  page.querySelector("#result").setAttribute("aria-busy", isWorking);
  page.querySelector("#write")?.replaceChildren(isWorking ? t("stop") : t("write"));
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
    make("div", { class: "brand" }, make("h1", {}, "qkv"), make("p", {}, say("tagline"))),
    make("div", { class: "controls" },
      choices(t("language"), [["en", "English"], ["zh", "中文"]], language, (lang) => set({ lang })),
      choices(t("theme"), themes, theme, (name) => set({ theme: name }))));
}

/** Where texts are typed, and beside it what the model makes of them. */
function desk() {
  const result = make("div", { class: `card ${verb()}`, id: "result", "aria-live": "off" });
  if (embedded) return make("section", { class: "translation saved" }, make("span", { id: "status" }), result);
  const choose = (changes) => {
    change({ at: "", step: "", layer: "", heads: "", block: 1, head: 1, sentence: 1, ...changes });
    [view, trouble] = [null, null];
    render();
    answer();
  };
  const names = models.map(({ name, source, target, task }) =>
    [name, target ? `${name} (${source} → ${target})` : task ? `${name} (${said(task.replaceAll("_", " "))})` : name]);
  const beams = [1, 2, 3, 4, 5, 6, 8, 10].map((beam) => [beam, beam]);
  const how = { translate: () => [labelled(t("beam"), select(beams, state.beam, (beam) => choose({ beam })))],
                generate: () => writingControls(toggleWriting) }[verb()]?.() ?? [];
  const verbs = (model().verbs ?? []).map((name) => [name, t(`verb_${name}`)]);
  const does = verbs.length > 1 ? choices(t("verb"), verbs, verb(), (name) => choose({ verb: name })) : null;
  const tries = examplesFor(model()).map((example) =>
    make("button", { type: "button", class: "quiet", onclick: () => choose({ q: example }) }, example));
  const isTranslator = verb() === "translate" && models.length > 0;
  const last = () => view?.whole ?? view;
  const menus = isTranslator ? languageMenus({ models, model: model(), choose, last }) : null;
  if (isTranslator) how.push(fileButton(translateFile));
  return make("section", { class: "translation" },
    make("div", { class: "card" }, menus, ...boxesOf(model()).flatMap(box),
      make("div", { class: "controls" },
        labelled(t("model"), select(names, model().name, (name) => choose({ model: name }))), does, ...how,
        make("span", { id: "status", class: "faint", role: "status" })),
      tries.length ? make("div", { class: "tries" }, make("span", { class: "faint" }, t("examples")), ...tries) : null),
    result);
}

/** A box to type in, under its name. */
function box([name, key], i) {
  const id = i ? `text${i + 1}` : "text";
  const field = fields[key] ??= make("textarea", { id, name: key, rows: 3, spellcheck: false, oninput: typed });
  field.placeholder = i ? "" : say("placeholder");
  if (field.value !== state[key]) field.value = state[key];
  return [make("label", { for: id, class: "title" }, t(`box_${name}`)), field];
}

function result() {
  const title = make("h2", { class: "title" }, say("target"));
  if (trouble) return [title, troubleNode(trouble, again)];
  if (!view) return [title, make("p", { class: "faint" }, say("nothing"))];
  const line = make("div", { class: "title-line" }, title);
  if (view.tokens) return readNodes(view, line);
  if (view.file) return [line, ...fileNodes(view.file)];
  if (view.written) return [line, ...writtenNodes(view.written)];
  if (view.answer) {
    line.append(linkButton());
    return [line, ...answerNodes(view.answer, view.item)];
  }
  return translationNodes(view, line);
}

function views() {
  const nothing = models.length ? say("nothing") : trouble ? "" : t("loading");
  const isReady = models.length > 0;
  return viewNodes({ view, model: model(), isReady, nothing, show, later, again: answer });
}

// -- beginning ------------------------------------------------------------------------------------------------------

async function start() {
  try {
    models = await fetchModels();
  } catch (error) {
    trouble = wrong(error);
  }
  render();
  if (!waiting) await answer(); // somebody who types is not done yet
}

keepKeyOfAddress();
readLink();
render();
start();
window.addEventListener("hashchange", () => {
  readLink();
  render();
  answer();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
