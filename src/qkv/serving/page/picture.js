// A picture: a canvas with a cursor for mouse and keyboard, a line that tells what it is on, and buttons that save it.

import { CanvasPaper, SvgPaper } from "./paper.js";
import { make } from "./element.js";
import { palette } from "./colours.js";
import { t } from "./strings.js";

const KEYS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const PADDING = 3; // pixels around a canvas, as style.css has it: room for the ring of the focus
const SAVED_SCALE = 2; // pixels of a PNG file for each pixel of the page

/**
 * `picture` has: name (of its files), label, layout(width) -> {width, height, ...}, and
 * draw(paper, layout, colours, cursor). If it has a cursor, it also has: grid() -> [rows, columns],
 * hit(layout, x, y) -> [row, column] or null, tell(cursor) -> text; and perhaps mark(paper, layout, colours, cursor)
 * (then `draw` needs no cursor, and what it drew is kept), pinned, pin(cursor), and choose(cursor), which is what a
 * click or Enter does instead of pinning.
 */
export class Picture {
  constructor(picture) {
    this.picture = picture;
    this.pinned = inside(picture.pinned, picture);
    this.hovered = null;
    this.canvas = make("canvas", { role: "img", "aria-label": picture.label });
    this.stage = make("div", { class: "stage" }, this.canvas);
    this.readout = make("output", { class: "readout", "aria-live": "polite" });
    this.node = make("figure", { class: "picture", "data-name": picture.name }, this.stage, this.#caption());
    if (picture.hit) this.#listen();
    this.width = 0;
    new ResizeObserver(() => this.#resize()).observe(this.stage);
  }

  get cursor() {
    return this.hovered ?? this.pinned;
  }

  #caption() {
    const save = (kind) => {
      const label = t("saveAs", { kind });
      const press = () => this.save(kind);
      const look = { type: "button", class: "quiet", "aria-label": label };
      return make("button", { ...look, onclick: press }, kind.toUpperCase());
    };
    return make("figcaption", {}, this.readout, make("span", { class: "save" }, save("png"), save("svg")));
  }

  #listen() {
    const { canvas } = this;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.addEventListener("pointermove", (event) => this.#hover(this.#at(event)));
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("click", (event) => this.#click(this.#at(event)));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #at(event) {
    return this.picture.hit(this.layout, event.offsetX, event.offsetY);
  }

  #hover(cursor) {
    if (String(cursor) === String(this.hovered)) return;
    this.hovered = cursor;
    this.paint();
  }

  #click(cursor) {
    if (cursor && this.picture.choose) this.picture.choose(cursor);
    else this.pin(String(cursor) === String(this.pinned) ? null : cursor);
  }

  #key(event) {
    const { picture } = this;
    const step = KEYS[event.key];
    if (step) this.pin(this.pinned ? this.pinned.map((value, i) => value + step[i]) : [0, 0]);
    else if (event.key === "Home") this.pin([this.pinned?.[0] ?? 0, 0]);
    else if (event.key === "End") this.pin([this.pinned?.[0] ?? 0, picture.grid()[1] - 1]);
    else if (event.key === "Escape") this.pin(null);
    else if (event.key === "Enter" && picture.choose && this.pinned) picture.choose(this.pinned);
    else return;
    event.preventDefault();
  }

  pin(cursor) {
    this.pinned = inside(cursor, this.picture);
    this.hovered = null;
    this.picture.pin?.(this.pinned);
    this.paint();
  }

  #resize() {
    const width = this.stage.clientWidth - 2 * PADDING;
    if (width <= 0 || width === this.width) return;
    this.width = width;
    this.kept = null;
    this.paint();
  }

  /** Put the picture on the screen; what does not depend on the cursor is drawn once and kept. */
  paint() {
    const { picture, canvas } = this;
    const colours = palette();
    const scale = window.devicePixelRatio || 1;
    const layout = (this.layout = picture.layout(this.width));
    canvas.style.width = `${layout.width}px`;
    canvas.style.height = `${layout.height}px`;
    if (picture.mark) {
      if (!this.kept) {
        this.kept = document.createElement("canvas");
        picture.draw(new CanvasPaper(this.kept, layout.width, layout.height, scale), layout, colours);
      }
      const paper = new CanvasPaper(canvas, layout.width, layout.height, scale);
      paper.context.drawImage(this.kept, 0, 0, layout.width, layout.height);
      if (this.cursor) picture.mark(paper, layout, colours, this.cursor);
    } else {
      picture.draw(new CanvasPaper(canvas, layout.width, layout.height, scale), layout, colours, this.cursor);
    }
    this.readout.textContent = picture.tell ? (this.cursor ? picture.tell(this.cursor) : t("pointOrArrows")) : "";
  }

  #drawOn(paper, layout, colours) {
    paper.rectangle(0, 0, layout.width, layout.height, { fill: colours.panel });
    this.picture.draw(paper, layout, colours, this.cursor);
    if (this.cursor) this.picture.mark?.(paper, layout, colours, this.cursor);
    return paper;
  }

  async save(kind) {
    const { layout } = this;
    const colours = palette();
    let blob;
    if (kind === "svg") {
      const paper = this.#drawOn(new SvgPaper(layout.width, layout.height), layout, colours);
      blob = new Blob([paper.toString()], { type: "image/svg+xml" });
    } else {
      const canvas = document.createElement("canvas");
      this.#drawOn(new CanvasPaper(canvas, layout.width, layout.height, SAVED_SCALE), layout, colours);
      blob = await new Promise((done) => canvas.toBlob(done));
    }
    const address = URL.createObjectURL(blob);
    make("a", { href: address, download: `${this.picture.name}.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }
}

/** A cursor that is inside the picture's grid, or null. */
function inside(cursor, picture) {
  if (!cursor || !picture.grid) return null;
  const [rows, columns] = picture.grid();
  const row = Math.min(rows - 1, Math.max(0, cursor[0]));
  return [row, Math.min(columns - 1, Math.max(0, cursor[1]))];
}

export function drawn(picture) {
  return new Picture(picture).node;
}
