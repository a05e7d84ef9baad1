// What pictures are drawn on: a canvas for the screen and PNG files, or the text of an SVG file, with the same calls.

const FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Noto Sans CJK SC', sans-serif";
const MOST_RECTANGLES = 4096; // a table with more cells is one image inside an SVG file
const ruler = document.createElement("canvas").getContext("2d");

export function widthOf(text, size = 12, weight = 400) {
  ruler.font = `${weight} ${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

/** The text, or its beginning with an ellipsis if it is wider than `most` pixels. */
export function shorten(text, most, size = 12) {
  if (widthOf(text, size) <= most) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && widthOf(letters.join("") + "…", size) > most) letters.pop();
  return letters.join("") + "…";
}

/** A text in at most so many lines, cut between words; one wider than `most` pixels ends in an ellipsis. */
export function linesOf(text, most, size, count) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (lines.length < count && lines.at(-1) && widthOf(longer, size) > most) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines.map((line) => shorten(line, most, size));
}

/** A canvas with one pixel for each cell. */
function pixels(values, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = values[0].length;
  canvas.height = values.length;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  let at = 0;
  for (const row of values) {
    for (const value of row) {
      const [red, green, blue] = colour(value);
      image.data.set([red, green, blue, 255], at);
      at += 4;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export class CanvasPaper {
  constructor(canvas, width, height, scale) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    this.context = canvas.getContext("2d");
    this.context.scale(scale, scale);
  }

  rectangle(x, y, width, height, { fill = null, stroke = null, line = 1, radius = 0, opacity = 1 } = {}) {
    const { context } = this;
    context.globalAlpha = opacity;
    context.beginPath();
    context.roundRect(x, y, width, height, radius);
    this.#finish(fill, stroke, line);
  }

  path(points, { stroke, line = 1, opacity = 1, dash = [] }) {
    const { context } = this;
    context.globalAlpha = opacity;
    context.setLineDash(dash);
    context.beginPath();
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    this.#finish(null, stroke, line);
    context.setLineDash([]);
  }

  /** From (x1, y1) to (x2, y2), level at both ends. */
  curve(x1, y1, x2, y2, { stroke, line = 1, opacity = 1 }) {
    const { context } = this;
    const middle = (x1 + x2) / 2;
    context.globalAlpha = opacity;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(middle, y1, middle, y2, x2, y2);
    this.#finish(null, stroke, line);
  }

  dot(x, y, radius, fill) {
    this.context.globalAlpha = 1;
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.#finish(fill, null, 0);
  }

  text(x, y, words, { size = 12, anchor = "start", fill, weight = 400, turn = 0, opacity = 1 }) {
    const { context } = this;
    context.save();
    context.globalAlpha = opacity;
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.font = `${weight} ${size}px ${FONT}`;
    context.textAlign = { start: "left", middle: "center", end: "right" }[anchor];
    context.textBaseline = "middle";
    context.fillStyle = fill;
    context.fillText(words, 0, 0);
    context.restore();
  }

  cells(x, y, width, height, values, colour) {
    this.context.globalAlpha = 1;
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(pixels(values, colour), x, y, width, height);
  }

  #finish(fill, stroke, line) {
    const { context } = this;
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = line;
      context.stroke();
    }
    context.globalAlpha = 1;
  }
}

const escaped = (text) =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c])
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd"); // XML has no such characters
const short = (value) => String(Math.round(value * 100) / 100);

export class SvgPaper {
  constructor(width, height) {
    this.size = `width="${short(width)}" height="${short(height)}" viewBox="0 0 ${short(width)} ${short(height)}"`;
    this.parts = [];
  }

  #style({ fill = null, stroke = null, line = 1, opacity = 1, dash = [] }) {
    const pen = stroke ? ` stroke="${stroke}" stroke-width="${short(line)}"` : "";
    return `fill="${fill ?? "none"}"${pen}${opacity < 1 ? ` opacity="${opacity.toFixed(3)}"` : ""}` +
      (dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "");
  }

  rectangle(x, y, width, height, how = {}) {
    const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
    this.parts.push(`<rect ${place} rx="${how.radius ?? 0}" ${this.#style(how)}/>`);
  }

  path(points, how) {
    const steps = points.map(([x, y], i) => `${i ? "L" : "M"}${short(x)} ${short(y)}`).join("");
    this.parts.push(`<path d="${steps}" ${this.#style(how)}/>`);
  }

  curve(x1, y1, x2, y2, how) {
    const [a, b, c, d, middle] = [x1, y1, x2, y2, (x1 + x2) / 2].map(short);
    this.parts.push(`<path d="M${a} ${b}C${middle} ${b} ${middle} ${d} ${c} ${d}" ${this.#style(how)}/>`);
  }

  dot(x, y, radius, fill) {
    this.parts.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${short(radius)}" fill="${fill}"/>`);
  }

  text(x, y, words, { size = 12, anchor = "start", fill, weight = 400, turn = 0, opacity = 1 }) {
    const turned = turn ? ` transform="rotate(${turn} ${short(x)} ${short(y)})"` : "";
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" ` +
      `dominant-baseline="central" fill="${fill}" opacity="${opacity}"${turned}>${escaped(words)}</text>`);
  }

  cells(x, y, width, height, values, colour) {
    const [across, down] = [values[0].length, values.length];
    if (across * down > MOST_RECTANGLES) {
      const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
      const look = 'preserveAspectRatio="none" style="image-rendering:pixelated"';
      this.parts.push(`<image ${place} ${look} href="${pixels(values, colour).toDataURL()}"/>`);
      return;
    }
    values.forEach((row, i) => row.forEach((value, j) => {
      const [left, top] = [x + (j * width) / across, y + (i * height) / down];
      const fill = `rgb(${colour(value).map(Math.round).join(",")})`;
      this.rectangle(left, top, width / across, height / down, { fill });
    }));
  }

  toString() {
    const open = `<svg xmlns="http://www.w3.org/2000/svg" ${this.size} font-family="${FONT}" style="white-space:pre">`;
    return `${open}\n${this.parts.join("\n")}\n</svg>\n`;
  }
}
