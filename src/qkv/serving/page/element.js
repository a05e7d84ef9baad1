// Elements of the page, made in one call each.

/** make("button", { class: "x", onclick: f }, "text", child): text is only ever text, never markup. */
export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-") && value !== null) node.setAttribute(name, String(value)); // "false" counts here
    else if (name.startsWith("--")) node.style.setProperty(name, value); // the server's policy forbids style="..."
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** A row of buttons of which one is chosen; the arrow keys move the choice, as in any group of radio buttons. */
export function choices(label, options, chosen, choose) {
  const group = make("div", { class: "choices", role: "radiogroup", "aria-label": label });
  const buttons = options.map(([value, text]) =>
    make("button", { type: "button", role: "radio", "aria-checked": value === chosen, "data-value": value,
                     tabindex: value === chosen ? 0 : -1, onclick: () => choose(value) }, text));
  group.append(...buttons);
  group.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = options.findIndex(([value]) => value === chosen);
    const next = (at + by + options.length) % options.length;
    keepFocus(`[data-value="${options[next][0]}"]`, group.getAttribute("aria-label"));
    choose(options[next][0]);
  });
  return group;
}

let wanted = null;

/** After the page is drawn again, the focus goes to `selector` inside the group with this label. */
export function keepFocus(selector, label) {
  wanted = [selector, label];
}

export function restoreFocus() {
  if (!wanted) return;
  const [selector, label] = wanted;
  wanted = null;
  document.querySelector(`[aria-label="${CSS.escape(label)}"] ${selector}`)?.focus();
}

export function labelled(text, control) {
  return make("label", { class: "field" }, make("span", {}, text), control);
}

export function select(options, chosen, choose, properties = {}) {
  const node = make("select", { ...properties, onchange: (event) => choose(event.target.value) });
  for (const [value, text] of options) {
    node.append(make("option", { value, selected: String(value) === String(chosen) }, text));
  }
  return node;
}

/** A sub-word as people read it: the mark of a space is no letter. */
export function readable(token) {
  return token === "▁" ? "␣" : token.replace(/^▁/, "");
}

export function number(value, digits = 4) {
  return value === null || value === undefined ? "−∞" : Number(value).toFixed(digits).replace("-", "−");
}
