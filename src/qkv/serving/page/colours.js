// The colours of pictures, taken from the style sheet, so that a picture follows the theme.

const NAMES = ["paper", "panel", "ink", "faint", "line", "accent", "warm"];

export function palette() {
  const style = getComputedStyle(document.documentElement);
  const found = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  found.dark = luminance(rgb(found.paper)) < 0.5;
  return found;
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function luminance([red, green, blue]) {
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}

function mix(from, to, part) {
  return from.map((value, i) => value + (to[i] - value) * part);
}

/** 0 is the colour of the panel, `most` is the accent. */
export function ramp(colours, most) {
  const [low, high] = [rgb(colours.panel), rgb(colours.accent)];
  return (value) => mix(low, high, Math.min(1, Math.max(0, (value ?? 0) / (most || 1))));
}

/** Below 0 warm, above 0 the accent; nothing (a masked cell) is a grey line colour. */
export function diverging(colours, most) {
  const [zero, below, above, masked] = ["panel", "warm", "accent", "line"].map((name) => rgb(colours[name]));
  return (value) => {
    if (value === null) return masked;
    return mix(zero, value < 0 ? below : above, Math.min(1, Math.abs(value) / (most || 1)));
  };
}

/** The ink that is read best on a colour. */
export function inkOn(colour) {
  return luminance(colour) > 0.45 ? "#14181d" : "#ffffff";
}

/** One hue for each head, as far from each other as there is room for. */
export function headColour(head, heads, dark) {
  return `hsl(${Math.round((172 + (360 * head) / heads) % 360)} ${dark ? "70% 66%" : "72% 36%"})`;
}
