// What the page asks the server for; in a page saved as one file, everything is already there.

import { counted, state } from "./state.js";

const WORDS = 8; // for each hole
const KEY = "qkv-api-key"; // kept for this tab only, and never put into a link

/** The data of a page that was saved as one file, or null. */
export const embedded = JSON.parse(document.getElementById("data").textContent);

/** What went wrong, in the server's own sentence; a status of 0 means no answer at all. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export function useKey(key) {
  sessionStorage.setItem(KEY, key);
}

/** A key in the address (?api_key=...) is used and taken out of it, so that no copied link carries it. */
export function keepKeyOfAddress() {
  const key = new URLSearchParams(location.search).get("api_key");
  if (!key) return;
  useKey(key);
  history.replaceState(null, "", location.pathname + location.hash);
}

/** The response to a request; anything but a good one is thrown as Refused. */
async function send(path, options = {}) {
  const key = sessionStorage.getItem(KEY);
  const kind = options.body instanceof FormData ? {} : { "Content-Type": "application/json" }; // of a form, its own
  const headers = { ...kind, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, body.error ?? answer.statusText);
}

async function ask(path, options) {
  return (await send(path, options)).json();
}

export async function fetchModels() {
  return embedded ? [embedded.view.model] : (await ask("api/models")).models;
}

function wishFor(text, { name, source, target }) {
  const beam = counted("beam", 20, 5);
  return { q: text, source, target, model: name, beam, n_best: Math.min(beam, 5) };
}

let running = null;

/** Give up the request for a view, if one is still running. */
export function giveUp() {
  running?.abort();
}

/** What a model answers at /api/predict, /api/fill, /api/summarise or /api/embed, where each line is a text. An older
request that is still running is given up. */
export async function fetchAnswer(verb, item, model) {
  giveUp();
  running = new AbortController();
  const texts = verb === "embed" ? item.split(/\s*\n\s*/) : [item];
  const body = JSON.stringify({ q: texts, model: model.name, ...(verb === "fill" ? { k: WORDS } : {}) });
  const found = await ask(`api/${verb}`, { method: "POST", body, signal: running.signal });
  return found.vectors ? { texts, vectors: found.vectors } : (found.answers ?? found.summaries)[0];
}

/** What a language model writes: `tell` is called with every event of it. */
export async function fetchText(wish, tell) {
  giveUp();
  running = new AbortController();
  const { signal } = running;
  const body = JSON.stringify({ ...wish, stream: true });
  const answer = await send("api/generate", { method: "POST", body, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const told = JSON.parse(event.slice("data: ".length));
      if (told.error) throw new Refused(503, told.error);
      tell(told);
    }
  }
}

/** The view of a text; a request that is still running for an older text is given up. */
export async function fetchView(text, model) {
  giveUp();
  running = new AbortController();
  const { signal } = running;
  const send = async (wish) => {
    const answer = await ask("api/translate", { method: "POST", body: JSON.stringify(wish), signal });
    return answer.translations[0];
  };
  const wish = wishFor(text, model);
  try {
    const sentence = counted("sentence", Infinity, 1); // of a text of several, the one that is looked at
    return await send({ ...wish, tokens: true, alignment: true, attention: true, steps: true, sentence });
  } catch (error) {
    if (error.status !== 400) throw error;
    return { ...(await send(wish)), noLook: error.message }; // a long text is translated, but not looked into
  }
}

/** A file in the other language: its name, and an address of this page alone. */
export async function sendFile(file, { source, target }) {
  running = new AbortController();
  const { signal } = running;
  const body = new FormData();
  for (const [name, value] of Object.entries({ file, source, target })) body.append(name, value);
  const { translatedFileUrl } = await ask("translate_file", { method: "POST", body, signal });
  const one = translatedFileUrl.split("/").at(-1); // whatever the server is called behind a proxy
  const data = await (await send(`download_file/${one}`, { signal })).blob();
  const [stem, kind] = [file.name.replace(/\.[^.]*$/, ""), /\.[^.]*$/.exec(file.name)?.[0] ?? ""];
  return { name: `${stem}.${target}${kind}`, href: URL.createObjectURL(data) };
}

/** What a model looks at while it reads, `wish.q` and perhaps `wish.second`. */
export function fetchLook(wish) {
  return ask("api/look", { method: "POST", body: JSON.stringify(wish) });
}

/** Of a long sentence the view has means over heads: fill in the own heads of some of its maps, one map after another,
since each is megabytes. Null if they have them already, or if there is no server to ask. */
export function fetchHeads(view, model, maps) {
  const missing = embedded ? [] : maps.filter((map) => map.heads < map.all_heads && !map.isAnswered);
  if (!missing.length) return null;
  return missing.reduce((before, map) => before.then(() => fillHeads(view, model, map)), Promise.resolve());
}

function fillHeads(view, model, map) {
  const attention = { kind: map.kind, layer: map.layer };
  const fill = ({ attention: [whole] }) => Object.assign(map, whole, { isAnswered: true });
  const read = () => fetchLook({ q: view.text, second: view.second, model: model.name, attention });
  const translate = async () => {
    const body = JSON.stringify({ ...wishFor(view.text, model), attention });
    return (await ask("api/translate", { method: "POST", body })).translations[0];
  };
  map.coming ??= (view.tokens ? read() : translate()).then(fill).finally(() => delete map.coming);
  return map.coming;
}

const kept = new Map(); // answers that do not change: path or body -> promise

function once(name, get) {
  if (!kept.has(name)) {
    const answer = get();
    kept.set(name, answer);
    answer.catch(() => kept.delete(name));
  }
  return kept.get(name);
}

/** positions, architecture or curves of a model. */
export async function fetchPart(name, model) {
  if (embedded) return embedded[name] ?? null;
  const path = `api/models/${encodeURIComponent(model.name)}/${name}`;
  return (await once(path, () => ask(path)))[name];
}

export async function fetchSteps(text, model) {
  if (embedded) return embedded.explain ?? null;
  const [layer, head] = [counted("block", Infinity, 1), counted("head", Infinity, 1)];
  const stack = state.stack === "decoder" ? "decoder" : "encoder";
  const body = JSON.stringify({ q: text, model: model.name, stack, layer, head });
  return (await once(body, () => ask("api/explain", { method: "POST", body }))).steps;
}
