// A matrix of any size: tiles of 256 x 256 cells are fetched as they come into view and drawn on one canvas.
//
// A cell of level n stands for 2^n x 2^n weights and shows the largest of them. A tile that is still on its way is
// covered by the coarser one above it, or else by the small picture of the whole head.
//
// Around the cells: the first token in a gutter of its own, where it got so much that nothing else would be seen; at
// the right what each query pays, at the bottom what each key receives.

const TILE = 256;
const TILES_KEPT = 160;
const NEAREST = 28; // pixels of a weight
const MARGIN = { left: 96, top: 84, gutter: 22, right: 46, bottom: 46 };

class TiledView {
  constructor(place, act) {
    this.place = place;
    this.act = act; // {point, choose, sink}
    this.tiles = new Recent(TILES_KEPT);
  }

  draw(long, { scale, palette }) {
    // Another head of the same text is looked at from the same place.
    const same = this.canvas?.isConnected && this.long?.rows === long.rows && this.long.columns === long.columns;
    this.long = long;
    this.scale = scale;
    this.shades = Uint8ClampedArray.from(
      { length: 256 * 4 },
      (_, i) => (i % 4 === 3 ? 255 : palette[Math.round(255 * scale.position(((i >> 2) / 255) ** 2))][i % 4]),
    );
    this.palette = palette;
    this.paintedBy = [scale.name, scale.top, palette[128]].join();
    this.margins = null;
    long.margins.then(
      (margins) => {
        if (this.long !== long) return;
        this.margins = margins;
        this.paint();
      },
      () => {}, // the map is there without them
    );
    if (!same) this.build();
    this.sink.setAttribute("aria-pressed", String(long.apart));
    this.fitting = Math.min(this.width / long.columns, this.height / long.rows);
    if (!same) this.all();
    else this.paint();
  }

  build() {
    const room = Math.max(260, this.place.clientWidth);
    this.width = room - MARGIN.left - MARGIN.gutter - MARGIN.right;
    this.height = Math.max(320, Math.min(this.width, window.innerHeight * 0.7));
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.band = element("div", { class: "cursor-row" });
    this.post = element("div", { class: "cursor-column" });
    this.cells = element("div", { class: "cells far" }, this.canvas, this.band, this.post);
    this.cells.style.cssText = `width:${this.width}px;height:${this.height}px`;
    this.rowAxis = element("div", { class: "queries far-axis" });
    this.columnAxis = element("div", { class: "keys upright far-axis" });
    this.gutter = element("canvas", { class: "margin-bars", title: "what each query pays to the first token" });
    this.paid = element("canvas", { class: "margin-bars pale", title: "what each query pays to the keys that are drawn" });
    this.received = element("canvas", { class: "margin-bars", title: "what each key receives, on average, of the queries that see it" });
    const parts = [
      [this.columnAxis, "1 / 3"], [this.rowAxis, "2 / 1"], [this.gutter, "2 / 2"],
      [this.cells, "2 / 3"], [this.paid, "2 / 4"], [this.received, "3 / 3"],
    ];
    for (const [part, area] of parts) part.style.gridArea = area;
    const grid = element("div", { class: "matrix", "aria-hidden": "true" }, ...parts.map(([part]) => part));
    grid.style.cssText =
      `grid-template-columns:${MARGIN.left}px ${MARGIN.gutter}px ${this.width}px ${MARGIN.right}px;` +
      `grid-template-rows:${MARGIN.top}px ${this.height}px ${MARGIN.bottom}px;--label:12px`;
    const button = (text, label, act) => {
      const made = element("button", { type: "button", class: "quiet", "aria-label": label }, text);
      made.addEventListener("click", act);
      return made;
    };
    this.sink = button("First token apart", "The first token in a gutter of its own", () => this.act.sink(this.long.apart ? "in" : "apart"));
    const tools = element(
      "div", { class: "far-tools" },
      button("+", "Nearer", () => this.zoomBy(2)),
      button("−", "Farther", () => this.zoomBy(0.5)),
      button("All", "The whole matrix", () => this.all()),
      this.sink,
      element("span", { class: "axis", id: "level" }),
    );
    this.place.replaceChildren(tools, grid);
    this.listen();
  }

  all() {
    this.zoom = Math.min(NEAREST, this.fitting);
    this.x = this.y = 0; // the weight at the upper left corner
    this.paint();
  }

  zoomBy(factor, at = { x: this.width / 2, y: this.height / 2 }) {
    const column = this.x + at.x / this.zoom;
    const row = this.y + at.y / this.zoom;
    this.zoom = clamp(this.zoom * factor, Math.min(NEAREST, this.fitting), NEAREST);
    this.moveTo(column - at.x / this.zoom, row - at.y / this.zoom);
  }

  moveTo(x, y) {
    const { columns, rows } = this.long;
    this.x = clamp(x, 0, Math.max(0, columns - this.width / this.zoom));
    this.y = clamp(y, 0, Math.max(0, rows - this.height / this.zoom));
    this.paint();
  }

  get level() {
    return Math.max(0, Math.ceil(Math.log2(1 / this.zoom) - 0.01));
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paintNow());
  }

  paintNow() {
    const { long, zoom, level } = this;
    const context = sharpen(this.canvas, this.width, this.height);
    context.imageSmoothingEnabled = false;
    context.fillStyle = style("--zero");
    context.fillRect(0, 0, Math.min(this.width, long.columns * zoom), Math.min(this.height, long.rows * zoom));
    this.paintPreview(context);
    const side = TILE << level;
    const last = (from, room, count) => Math.min(Math.ceil((from + room / zoom) / side), Math.ceil(count / side));
    for (let row = Math.floor(this.y / side); row < last(this.y, this.height, long.rows); row++) {
      for (let column = Math.floor(this.x / side); column < last(this.x, this.width, long.columns); column++) {
        this.paintTile(context, level, row, column);
      }
    }
    this.paintMask(context);
    this.paintAxes();
    this.paintMargins();
    this.point(this.cursor);
    const level_ = this.place.querySelector("#level");
    if (level_) level_.textContent = level ? `a cell shows the largest of ${1 << level} × ${1 << level} weights` : "every weight is a cell";
  }

  paintPreview(context) {
    const { long, zoom } = this;
    if (long.shadedBy !== this.paintedBy) {
      long.shaded = pixels(long.preview, this.scale, this.palette);
      long.shadedBy = this.paintedBy;
    }
    context.drawImage(long.shaded, -this.x * zoom, -this.y * zoom, long.columns * zoom, long.rows * zoom);
  }

  /** A pixel of a margin stands for the largest of the tokens it covers. */
  paintMargins() {
    const { long, margins, width, height, zoom } = this;
    const gutter = sharpen(this.gutter, MARGIN.gutter, height);
    const paid = sharpen(this.paid, MARGIN.right, height);
    const received = sharpen(this.received, width, MARGIN.bottom);
    if (!margins) return;
    const most = (numbers, from, at) => {
      const start = Math.floor(from + at / zoom);
      const end = Math.min(numbers.length, Math.max(start + 1, Math.floor(from + (at + 1) / zoom)));
      let found = -1;
      for (let i = start; i < end; i++) found = Math.max(found, numbers[i]);
      return found;
    };
    const shares = new Scale(this.scale.name, 1);
    const rest = long.apart ? margins.paid.map((all, i) => all - margins.first[i]) : margins.paid;
    const telling = rest.some((share) => share < 0.99); // a block of bars that are all full says nothing
    const ink = style("--muted");
    for (let y = 0; y < height; y++) {
      const first = most(margins.first, this.y, y);
      if (first < 0) break;
      if (long.apart) {
        gutter.fillStyle = `rgb(${this.palette[Math.round(255 * shares.position(first))].join(" ")})`;
        gutter.fillRect(0, y, MARGIN.gutter - 8, 1);
      }
      if (!telling) continue;
      paid.fillStyle = ink;
      paid.fillRect(6, y, (MARGIN.right - 8) * clamp(most(rest, this.y, y), 0, 1), 1);
    }
    const keys = long.apart ? margins.received.slice() : margins.received;
    if (long.apart) keys[0] = 0;
    const top = keys.reduce((a, b) => Math.max(a, b), 1e-9);
    received.fillStyle = ink;
    for (let x = 0; x < width; x++) {
      const share = most(keys, this.x, x);
      if (share < 0) break;
      received.fillRect(x, 6, 1, (MARGIN.bottom - 8) * Math.sqrt(share / top));
    }
  }

  paintTile(context, level, row, column) {
    const tile = this.tile(level, row, column);
    const side = TILE << level;
    const at = (value, from) => (value - from) * this.zoom;
    if (tile.picture) {
      const cell = (1 << level) * this.zoom;
      context.drawImage(
        this.shaded(tile), at(column * side, this.x), at(row * side, this.y), tile.columns * cell, tile.rows * cell,
      );
      return;
    }
    for (let up = level + 1; up < level + 6; up++) {
      const shift = up - level;
      const above = this.tiles.get(`${this.long.name}/${up}/${row >> shift}/${column >> shift}`);
      if (!above?.picture) continue;
      const part = TILE >> shift;
      const left = (column - ((column >> shift) << shift)) * part;
      const top = (row - ((row >> shift) << shift)) * part;
      const wide = Math.min(part, above.columns - left);
      const tall = Math.min(part, above.rows - top);
      if (wide <= 0 || tall <= 0) return;
      const cell = (1 << up) * this.zoom;
      context.drawImage(
        this.shaded(above), left, top, wide, tall, at(column * side, this.x), at(row * side, this.y), wide * cell, tall * cell,
      );
      return;
    }
  }

  /** The tile, perhaps still without its picture. */
  tile(level, row, column) {
    const name = `${this.long.name}/${level}/${row}/${column}`;
    const known = this.tiles.get(name);
    if (known) return known;
    const count = (all, place) => Math.min(TILE, Math.ceil(all / (1 << level)) - place * TILE);
    const tile = { rows: count(this.long.rows, row), columns: count(this.long.columns, column) };
    const { long } = this;
    const seen = () => this.long?.name === long.name;
    long.tile(level, row, column, { wanted: seen }).then(
      (buffer) => {
        tile.picture = new Uint8Array(buffer);
        if (seen()) this.paint();
      },
      () => this.tiles.delete(name),
    );
    this.tiles.set(name, tile);
    return tile;
  }

  shaded(tile) {
    if (tile.paintedBy !== this.paintedBy) {
      tile.canvas ??= document.createElement("canvas");
      tile.canvas.width = tile.columns;
      tile.canvas.height = tile.rows;
      const context = tile.canvas.getContext("2d");
      const image = context.createImageData(tile.columns, tile.rows);
      const shades = new Uint32Array(this.shades.buffer);
      const target = new Uint32Array(image.data.buffer);
      for (let i = 0; i < target.length; i++) target[i] = shades[tile.picture[i]];
      context.putImageData(image, 0, 0);
      tile.paintedBy = this.paintedBy;
    }
    return tile.canvas;
  }

  paintMask(context) {
    const { visible, columns, rows } = this.long;
    if (!visible) return;
    const right = Math.min(this.width, (columns - this.x) * this.zoom);
    const first = Math.floor(this.y);
    const end = Math.min(rows, Math.ceil(this.y + this.height / this.zoom));
    const step = Math.max(1, Math.floor((end - first) / 400));
    context.beginPath();
    context.moveTo(right, 0);
    for (let row = first; row < end; row += step) {
      const edge = clamp((visible[row] - this.x) * this.zoom, 0, right);
      context.lineTo(edge, (row - this.y) * this.zoom);
      context.lineTo(edge, (Math.min(end, row + step) - this.y) * this.zoom);
    }
    context.lineTo(right, Math.min(this.height, (rows - this.y) * this.zoom));
    context.closePath();
    context.fillStyle = hatch(context, 6);
    context.fill();
  }

  /** Words where there is room for them, numbers otherwise. */
  paintAxes() {
    const axis = (box, labels, from, room, position) => {
      const end = Math.min(labels.length, from + room / this.zoom);
      const near = this.zoom >= 11;
      const step = near ? 1 : niceStep(60 / this.zoom);
      const shown = [];
      for (let i = Math.ceil(from / step) * step; i < end; i += step) {
        const label = element("span", { "data-index": i }, element("b", {}, near ? labels[i] : String(i + 1)));
        position(label, (i + 0.5 - from) * this.zoom);
        shown.push(label);
      }
      box.replaceChildren(...shown);
    };
    axis(this.rowAxis, this.long.rowLabels, this.y, this.height, (label, at) => {
      label.style.cssText = `top:${Math.max(0, at - 8)}px;line-height:16px;max-width:${MARGIN.left - 12}px`;
    });
    axis(this.columnAxis, this.long.columnLabels, this.x, this.width, (label, at) => {
      label.style.cssText = `left:${Math.max(3, at)}px;max-width:${MARGIN.top - 8}px`;
    });
  }

  listen() {
    let drag = null;
    const at = (event) => {
      const box = this.cells.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const found = (event) => {
      const { x, y } = at(event);
      const column = Math.floor(this.x + x / this.zoom);
      const row = Math.floor(this.y + y / this.zoom);
      return row < this.long.rows && column < this.long.columns ? { row, column } : null;
    };
    this.cells.addEventListener("pointerdown", (event) => {
      drag = { ...at(event), left: this.x, top: this.y, moved: false };
      this.cells.setPointerCapture(event.pointerId);
    });
    this.cells.addEventListener("pointermove", (event) => {
      if (!drag) return this.act.point(found(event));
      const now = at(event);
      if (Math.abs(now.x - drag.x) + Math.abs(now.y - drag.y) > 4) drag.moved = true;
      if (drag.moved) this.moveTo(drag.left - (now.x - drag.x) / this.zoom, drag.top - (now.y - drag.y) / this.zoom);
    });
    this.cells.addEventListener("pointerup", (event) => {
      const place = !drag?.moved && found(event);
      drag = null;
      if (place) this.act.choose(place);
    });
    this.cells.addEventListener("pointercancel", () => (drag = null));
    this.cells.addEventListener("pointerleave", () => this.act.point(null));
    this.cells.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoomBy(Math.exp(-event.deltaY / 300), at(event));
      },
      { passive: false },
    );
  }

  point(cursor, follow) {
    this.cursor = cursor;
    const row = cursor?.row ?? null;
    const column = cursor?.column ?? null;
    if (follow && row !== null && column !== null) {
      const near = (value, from, room) => (value < from || value >= from + room / this.zoom ? value - room / this.zoom / 2 : from);
      const x = near(column, this.x, this.width);
      const y = near(row, this.y, this.height);
      if (x !== this.x || y !== this.y) this.moveTo(x, y);
    }
    const size = Math.max(1, this.zoom);
    const top = (row - this.y) * this.zoom;
    const left = (column - this.x) * this.zoom;
    this.band.hidden = row === null || top < 0 || top > this.height;
    this.post.hidden = column === null || left < 0 || left > this.width;
    this.band.style.cssText = `top:${top}px;height:${size}px`;
    this.post.style.cssText = `left:${left}px;width:${size}px`;
  }
}

/** 1, 2, 5, 10, 20, 50, ...: the first that is large enough. */
function niceStep(least) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((each) => each * ten).find((each) => each >= least);
}
