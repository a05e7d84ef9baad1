// What a model of each task is given: its boxes to type in, and what stands in them as the server reads it.

import { state } from "./state.js";

// Tasks that read two texts: the name of each, and where it is kept in the link.
const TWO = { pair: ["first", "second"], similarity: ["first", "second"], answer: ["context", "question"],
              choose: ["context", "choices"] };
const KEPT = ["q", "q2"];

const EXAMPLES = {
  translate: { en: ["Two dogs play in the snow.", "A man in a blue shirt is standing on a ladder."],
               de: ["Zwei Hunde spielen im Schnee.", "Ein Mann steht auf einer Leiter."],
               zh: ["两只狗在雪地里玩耍。"] },
  generate: { "": ["Once upon a time"] },
  embed: { "": ["Two dogs play in the snow.\nTwo animals are outside.\nA man is standing on a ladder."] },
  fill: { "": ["A man in a red <mask> is standing on a ladder.", "Two <mask> play in the <mask>."] },
};

/** What a model does on the page: of what it can, what the link says, or the first. */
export function verbOf(model) {
  const verbs = model.verbs ?? ["translate"];
  return verbs.includes(state.verb) ? state.verb : verbs[0];
}

/** The name of each text that a model reads, with the key of the state that keeps it. */
export function boxesOf(model) {
  const names = (verbOf(model) === "predict" && TWO[model.task]) || [verbOf(model)];
  return names.map((name, i) => [name, KEPT[i]]);
}

/** Everything that is typed for a model, as it is sent; null while a text is missing. */
export function given(model) {
  const boxes = boxesOf(model).map(([name, key]) => [name, state[key].trim()]);
  if (boxes.some(([, text]) => !text)) return null;
  if (boxes.length === 1) return boxes[0][1];
  const fields = boxes.map(([name, text]) => [name, name === "choices" ? text.split(/\s*\n\s*/) : text]);
  return Object.fromEntries(fields);
}

export function examplesFor(model) {
  return EXAMPLES[verbOf(model)]?.[model.source ?? ""] ?? [];
}

/** Whether there is a view of a model: of any its parts and its training; of a backbone what it looks at, too. */
export function hasView(model, name) {
  const has = ["architecture", "curves", ...(model.looks ? ["attention", "positions"] : [])];
  return verbOf(model) === "translate" || has.includes(name);
}
