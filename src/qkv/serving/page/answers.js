// What a model answered, drawn by what the answer has: probabilities, tags, heads, a span, words for holes.

import { headColour, palette } from "./colours.js";
import { make, number } from "./element.js";
import { t } from "./strings.js";

/** The nodes of an answer of /api/predict, /api/fill, /api/summarise or /api/embed. */
export function answerNodes(answer, given) {
  if (Array.isArray(answer)) return holes(answer);
  if (answer.vectors) return [likeness(answer.texts, answer.vectors)];
  if (answer.sentences) return summary(answer);
  if (answer.tags) return [tagged(answer.words, answer.tags)];
  if (answer.heads) return [dependencies(answer.words, answer.heads)];
  if (answer.probabilities) return [said(answer.label ?? answer.answer), bars(named(answer.probabilities, given))];
  if (Number.isInteger(answer.start)) return span(answer, given.context);
  return Object.values(answer).map((value) => said(typeof value === "number" ? number(value, 3) : String(value)));
}

/** Probabilities by their names: those of the choices that were given, where the answer has a list of them. */
function named(probabilities, given) {
  const isList = Array.isArray(probabilities);
  return isList ? probabilities.map((value, i) => [given.choices[i], value]) : Object.entries(probabilities);
}

/** An answer that stands in the text, marked there, and others that might; an empty one tells that there is none. */
function span(answer, context) {
  const every = [answer, ...(answer.alternatives ?? [])];
  return [said(answer.answer || t("noAnswer")),
          bars(every.map((one) => [one.answer || t("noAnswer"), one.probability])), inContext(context, answer)];
}

/** A summary, and how much of the document was read for it. */
function summary({ text, read, sentences, remarks }) {
  const told = make("p", { class: "faint" }, t("sentencesRead", { read, sentences }));
  return [said(text), told, ...remarks.map((remark) => make("p", { class: "remark" }, remark))];
}

function said(text) {
  return make("p", { class: "translated", "aria-live": "polite" }, text);
}

/** Names with their probabilities as bars, the likeliest first. */
function bars(pairs) {
  const ranked = [...pairs].sort((one, other) => other[1] - one[1]);
  const rows = ranked.map(([name, probability]) => make("tr", {},
    make("th", { scope: "row" }, name),
    make("td", { class: "bar" }, make("span", { "--part": probability })),
    make("td", { class: "score" }, number(probability, 3))));
  return make("table", { class: "bars", "aria-label": t("probabilities") }, make("tbody", {}, ...rows));
}

/** For each hole the words that may stand in it; what is likeliest, as a whole text. */
function holes(answer) {
  const every = Array.isArray(answer[0]) ? answer : [answer];
  const parts = every.map((words, i) => make("section", { class: "hole" },
    every.length > 1 ? make("h3", {}, t("hole", { n: i + 1 })) : said(words[0].text),
    bars(words.map(({ token, probability }) => [token, probability]))));
  return parts;
}

/** Words, each in the colour of its tag; what begins with B- or I- goes on from word to word. */
function tagged(words, tags) {
  const kinds = [...new Set(tags.map(kindOf))].filter((kind) => kind !== "O");
  const { dark } = palette();
  const shown = words.map((word, i) => {
    const kind = kindOf(tags[i]);
    if (kind === "O") return make("span", { class: "tagged" }, word);
    const colour = headColour(kinds.indexOf(kind), kinds.length, dark);
    return make("span", { class: "tagged named", "--tag": colour }, word, make("small", {}, tags[i]));
  });
  return make("p", { class: "tags", "aria-live": "polite" }, ...shown.flatMap((node) => [node, " "]));
}

function kindOf(tag) {
  return tag.replace(/^[BIES]-/, "");
}

/** Each word and the word that it depends on. */
function dependencies(words, heads) {
  const rows = words.map((word, i) => make("tr", {}, make("th", { scope: "row" }, word),
    make("td", {}, heads[i] ? `← ${words[heads[i] - 1]}` : t("root"))));
  return make("table", { "aria-label": t("dependencies") }, make("tbody", {}, ...rows));
}

/** The text that was read, with the answer marked in it; the server counts characters, not halves of them. */
function inContext(context, { start, end }) {
  const letters = [...context];
  const part = (from, to) => letters.slice(from, to).join("");
  return make("p", { class: "about" }, part(0, start), make("mark", {}, part(start, end)), part(end));
}

/** How alike texts are: the cosine of the angle between their vectors. */
function likeness(texts, vectors) {
  const dot = (one, other) => one.reduce((sum, value, i) => sum + value * other[i], 0);
  const cosine = (one, other) => dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other) || 1);
  const cell = (value) => make("td", { class: "alike", "--part": Math.max(value, 0) }, number(value, 2));
  const head = make("tr", {}, make("td", {}), ...texts.map((_, i) => make("th", { scope: "col" }, String(i + 1))));
  const rows = texts.map((text, i) => make("tr", {}, make("th", { scope: "row" }, `${i + 1}. ${text}`),
    ...vectors.map((vector) => cell(cosine(vectors[i], vector)))));
  const about = make("p", { class: "about" }, t("likeness", { n: vectors[0].length }));
  return make("div", {}, make("table", { class: "likeness", "aria-label": t("likenessLabel") },
    make("thead", {}, head), make("tbody", {}, ...rows)), about);
}
