// Decoding, step by step: the tree of hypotheses, the live ones of a step, and where the decoder looked meanwhile.

import { change, counted, state } from "./state.js";
import { make, number, readable, keepFocus } from "./element.js";
import { drawn } from "./picture.js";
import { heatMap } from "./heatmap.js";
import { shorten } from "./paper.js";
import { t } from "./strings.js";

const [COLUMN, ROW, TOP] = [96, 34, 26];
let timer = null;

export function decodingPanel({ view, render }) {
  const steps = view.steps ?? [];
  if (!steps.length) return make("p", { class: "about" }, t("noSteps"));
  const step = counted("step", steps.length, 1);
  const go = (to, focus = null) => {
    if (focus) keepFocus(focus, t("step"));
    change({ step: Math.min(steps.length, Math.max(1, to)) });
    render();
  };
  const widest = Math.max(...steps.map((one) => one.live.length));
  return make("div", {},
    stepper(step, steps.length, go),
    make("p", { class: "about" }, t("decodingAbout", { n: widest })),
    drawn(beamTree(steps, winners(steps, view), step, (to) => go(to))),
    looking(view, step),
    hypotheses(steps[step - 1], steps.slice(0, step).flatMap((one) => one.finished)));
}

function stepper(step, all, go) {
  const button = (name, text, press, disabled = false) =>
    make("button", { type: "button", "data-step": name, disabled, onclick: press }, text);
  const isPlaying = timer !== null;
  const play = () => {
    if (timer !== null) {
      clearInterval(timer);
      timer = null;
      go(step, '[data-step="play"]');
      return;
    }
    timer = setInterval(() => {
      const at = counted("step", all, 1);
      if (at >= all - 1 || state.tab !== "decoding") {
        clearInterval(timer);
        timer = null;
      }
      if (state.tab === "decoding") go(at + 1);
    }, 700);
    go(step === all ? 1 : step + 1, '[data-step="play"]');
  };
  const slider = make("input", { type: "range", min: 1, max: all, value: step, "aria-label": t("step"),
                                 oninput: (event) => go(Number(event.target.value), 'input[type="range"]') });
  return make("div", { class: "controls", role: "group", "aria-label": t("step") },
    button("previous", t("previous"), () => go(step - 1, '[data-step="previous"]'), step === 1),
    button("play", isPlaying ? t("pause") : t("play"), play),
    button("next", t("next"), () => go(step + 1, '[data-step="next"]'), step === all),
    slider, make("span", { class: "faint" }, t("stepOf", { n: step, all })));
}

/** For each step, which live hypothesis is the beginning of the translation, or -1. */
function winners(steps, view) {
  const path = view.target_tokens ?? [];
  return steps.map((step) => step.live.findIndex((one) => one.tokens.every((token, i) => token === path[i])));
}

/** As many steps as fit, the chosen one among them; a click goes to a step. */
function beamTree(steps, winning, step, go) {
  const deep = Math.max(...steps.map((one) => one.live.length));
  const shown = (width) => {
    const fit = Math.max(2, Math.floor((width - 20) / COLUMN));
    const first = Math.max(0, Math.min(steps.length - fit, step - Math.ceil(fit * 0.7)));
    return { first, last: Math.min(steps.length, first + fit) };
  };
  return {
    name: "beam", label: t("beamLabel"), pinned: [0, step - 1], grid: () => [deep, steps.length],
    layout: (width) => ({ ...shown(width), width: Math.max(width, 2 * COLUMN), height: TOP + deep * ROW + 8 }),
    hit: (at, x, y) => {
      const [row, column] = [Math.floor((y - TOP) / ROW), at.first + Math.floor((x - 10) / COLUMN)];
      return row >= 0 && column < at.last && steps[column]?.live[row] ? [row, column] : null;
    },
    tell: ([row, column]) => {
      const one = steps[column].live[Math.min(row, steps[column].live.length - 1)];
      if (!one) return t("stepOf", { n: column + 1, all: steps.length });
      const [token, score] = [readable(one.tokens.at(-1) ?? ""), number(one.score)];
      return t("nodeTold", { step: column + 1, rank: row + 1, token, score });
    },
    choose: ([, column]) => go(column + 1),
    draw: (paper, at, colours, cursor) => drawTree(paper, at, colours, cursor, { steps, winning, step }),
  };
}

function drawTree(paper, at, colours, cursor, { steps, winning, step }) {
  const place = (row, column) => [10 + (column - at.first) * COLUMN, TOP + row * ROW + ROW / 2];
  for (let column = at.first; column < at.last; column += 1) {
    const isHere = column === step - 1;
    const [left] = place(0, column);
    if (isHere) paper.rectangle(left - 2, 0, COLUMN - 8, at.height, { fill: colours.paper, radius: 8 });
    const look = isHere ? { fill: colours.accent, weight: 700 } : { fill: colours.faint };
    paper.text(left + (COLUMN - 12) / 2, 12, String(column + 1), { size: 11, anchor: "middle", ...look });
    steps[column].live.forEach((one, row) => {
      const [x, y] = place(row, column);
      const wins = winning[column] === row;
      if (column > at.first && steps[column - 1].live[one.parent]) {
        const [from, height] = place(one.parent, column - 1);
        const pen = wins ? { stroke: colours.accent, line: 2 } : { stroke: colours.faint, opacity: 0.45 };
        paper.curve(from + COLUMN - 14, height, x, y, pen);
      }
      const isMarked = cursor && cursor[0] === row && cursor[1] === column;
      const stroke = isMarked ? colours.ink : wins ? colours.accent : colours.line;
      const opacity = column >= step ? 0.55 : 1; // what is still to come
      const how = { fill: colours.panel, stroke, line: wins || isMarked ? 1.8 : 1, radius: 6, opacity };
      paper.rectangle(x, y - 12, COLUMN - 14, 24, how);
      const text = shorten(readable(one.tokens.at(-1) ?? ""), COLUMN - 24);
      const letters = { anchor: "middle", fill: colours.ink, weight: wins ? 600 : 400, opacity };
      paper.text(x + (COLUMN - 14) / 2, y, text, letters);
    });
  }
}

/** The source tokens, as the last layer's mean head saw them while it wrote the token of this step. */
function looking(view, step) {
  const map = (view.attention ?? []).filter((one) => one.kind === "memory").at(-1);
  if (!map || step > map.rows.length) return null;
  const mean = (j) => map.weights.reduce((sum, head) => sum + head[step - 1][j], 0) / map.weights.length;
  const row = map.columns.map((_, j) => mean(j));
  const columns = map.columns.map(readable);
  const title = t("looking", { token: readable(map.rows[step - 1]) });
  const tell = ([, j]) => `${columns[j]}: ${number(row[j])}`;
  const names = { name: `decoding-${step}`, label: t("lookingLabel") };
  const picture = heatMap({ ...names, rows: [""], columns, values: [row], tell });
  return make("section", {}, make("h3", {}, title), drawn(picture));
}

/** The live hypotheses of a step, and all that were finished until then, the best first. */
function hypotheses(step, ended) {
  const head = make("tr", {}, ...["rank", "tokens", "logp"].map((name) => make("th", { scope: "col" }, t(name))));
  const rows = step.live.map((one, rank) => {
    const tokens = one.tokens.map((token, i) =>
      make("span", { class: i === one.tokens.length - 1 ? "token last" : "token" }, readable(token)));
    return make("tr", {}, make("td", {}, String(rank + 1)), make("td", { class: "tokens" }, ...tokens),
      make("td", { class: "score" }, number(one.score, 3)));
  });
  const finished = [...ended].sort((a, b) => b.score - a.score).map((one) =>
    make("li", {}, make("span", {}, one.text), make("span", { class: "score" }, number(one.score, 3))));
  return make("div", { class: "hypotheses" },
    make("section", {}, make("h3", {}, t("live")),
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))),
    make("section", {}, make("h3", {}, t("finished")),
      finished.length ? make("ol", {}, ...finished) : make("p", { class: "faint" }, t("noneYet"))));
}
