// The state of the view: what a link carries after its #.

const DEFAULTS = {
  q: "", model: "", beam: "5", tab: "attention", kind: "memory", layer: "", heads: "", mode: "", at: "", step: "",
  stack: "encoder", block: "1", head: "1", lang: "", theme: "", q2: "", verb: "", tokens: "60", temperature: "0.8",
  sentence: "1",
};

export const state = { ...DEFAULTS };

/** Of an address, only known keys count; a key that is missing has its default. */
export function readLink() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(DEFAULTS)) state[key] = given.get(key) ?? DEFAULTS[key];
}

/** Change some keys and put them into the address; returns whether anything is new. */
export function change(changes) {
  const isNew = Object.entries(changes).some(([key, value]) => state[key] !== String(value));
  for (const [key, value] of Object.entries(changes)) state[key] = String(value);
  const kept = Object.entries(state).filter(([key, value]) => value !== DEFAULTS[key]);
  const hash = new URLSearchParams(kept).toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  return isNew;
}

/** The chosen heads, counted from 0 (a link counts from 1); none named means all of them. */
export function chosenHeads(heads) {
  const named = state.heads.split(",").map((name) => Number(name) - 1).filter((head) => Number.isInteger(head));
  const known = named.filter((head) => head >= 0 && head < heads);
  return known.length ? known : Array.from({ length: heads }, (_, head) => head);
}

/** A whole number of the state, from 1 to `most`; whatever else a link may say is `otherwise`. */
export function counted(key, most, otherwise) {
  const value = Number(state[key]);
  return Number.isInteger(value) && value >= 1 && value <= most ? value : otherwise;
}

/** The cell or point that the cursor is on, as two numbers, or null. */
export function cursor() {
  const found = /^(\d+),(\d+)$/.exec(state.at);
  return found ? [Number(found[1]), Number(found[2])] : null;
}
