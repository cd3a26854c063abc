// The matrix: a canvas for the cells, the document for the labels, so that both are sharp and both can be read.

let measuring = null;

/** Width in CSS pixels of the longest label. */
function longestLabel(labels, size) {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return labels.reduce((most, label) => Math.max(most, measuring.measureText(label).width), 0);
}

class MatrixView {
  constructor(place, onPoint, onChoose) {
    this.place = place;
    this.onPoint = onPoint;
    this.onChoose = onChoose;
  }

  draw(matrix, { scale, palette, gold }) {
    this.matrix = matrix;
    const room = Math.max(240, this.place.clientWidth);
    const narrow = room < 520;
    const tall = Math.max(420, window.innerHeight * 0.7);
    const labelSize = (cell) => clamp(cell * 0.5, 10, 15);
    const side = (cell) => Math.min(longestLabel(matrix.rowLabels, labelSize(cell)), narrow ? 84 : 150) + 16;
    // Cells shrink until both directions fit, but never below what a finger or an eye can find.
    const fit = (guess) => Math.min((room - side(guess) - (narrow ? 24 : 40)) / matrix.columns, tall / matrix.rows);
    const cell = Math.floor(clamp(fit(clamp(fit(40), 15, 58)), narrow ? 18 : 15, 58));
    this.cell = cell;
    const size = labelSize(cell);
    const slanted = cell >= 22;
    const left = Math.ceil(side(cell));
    const longest = Math.min(longestLabel(matrix.columnLabels, size), 150);
    const top = Math.ceil(slanted ? longest * 0.72 + size * 1.1 + 8 : longest + 12);
    const width = cell * matrix.columns;
    const height = cell * matrix.rows;
    // Slanted labels lean over the right edge; leave them room.
    const lean = slanted ? Math.ceil(longestLabel(matrix.columnLabels.slice(-4), size) * 0.72) : 8;

    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.band = element("div", { class: "cursor-row" });
    this.post = element("div", { class: "cursor-column" });
    this.ring = element("div", { class: "cursor-cell" });
    this.cells = element("div", { class: "cells" }, this.canvas, this.band, this.post, this.ring);
    this.cells.style.cssText = `width:${width}px;height:${height}px`;
    this.rowLabels = this.labels("queries", matrix.rowLabels, (label, i) => {
      label.style.cssText = `top:${i * cell}px;height:${cell}px;line-height:${cell}px;max-width:${left - 12}px`;
    });
    this.columnLabels = this.labels(`keys ${slanted ? "slanted" : "upright"}`, matrix.columnLabels, (label, j) => {
      label.style.cssText = `left:${(j + 0.5) * cell}px`;
    });
    const grid = element(
      "div",
      { class: "matrix", "aria-hidden": "true" },
      element("div", { class: "corner" }),
      this.columnLabels,
      this.rowLabels,
      this.cells,
    );
    grid.style.cssText =
      `grid-template-columns:${left}px ${width + lean}px;grid-template-rows:${top}px ${height}px;` +
      `--label:${size}px;width:${left + width + lean}px`;
    this.scroller = element("div", { class: "scroller" }, grid);
    this.place.replaceChildren(this.scroller);
    this.paint(matrix, scale, palette, gold, width, height);
    this.listen();
  }

  labels(name, texts, position) {
    const box = element("div", { class: name });
    texts.forEach((text, i) => {
      const label = element("span", { "data-index": i, title: text }, element("b", {}, text));
      position(label, i);
      box.append(label);
    });
    return box;
  }

  paint(matrix, scale, palette, gold, width, height) {
    const cell = this.cell;
    const context = sharpen(this.canvas, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(pixels(matrix, scale, palette), 0, 0, width, height);
    if (matrix.visible) {
      context.save();
      context.fillStyle = hatch(context, 6);
      for (let row = 0; row < matrix.rows; row++) {
        const start = allowed(matrix, row) * cell;
        context.fillRect(start, row * cell, width - start, cell);
      }
      context.restore();
    }
    context.fillStyle = style("--panel");
    if (cell >= 12) {
      for (let j = 1; j < matrix.columns; j++) context.fillRect(j * cell - 0.5, 0, 1, height);
      for (let i = 1; i < matrix.rows; i++) context.fillRect(0, i * cell - 0.5, width, 1);
    }
    context.strokeStyle = style("--gold");
    context.lineWidth = cell >= 24 ? 2.5 : 1.5;
    const inset = context.lineWidth / 2 + 0.5;
    for (const [row, column] of gold) {
      context.strokeRect(column * cell + inset, row * cell + inset, cell - 2 * inset, cell - 2 * inset);
    }
  }

  listen() {
    const at = (event) => {
      const box = this.cells.getBoundingClientRect();
      return {
        row: clamp(Math.floor((event.clientY - box.top) / this.cell), 0, this.matrix.rows - 1),
        column: clamp(Math.floor((event.clientX - box.left) / this.cell), 0, this.matrix.columns - 1),
      };
    };
    const labelled = (event, make) => {
      const label = event.target.closest("[data-index]");
      return label && make(Number(label.dataset.index));
    };
    const areas = [
      [this.cells, at],
      [this.rowLabels, (event) => labelled(event, (row) => ({ row, column: null }))],
      [this.columnLabels, (event) => labelled(event, (column) => ({ row: null, column }))],
    ];
    for (const [area, find] of areas) {
      area.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.onPoint(find(event)));
      area.addEventListener("pointerleave", () => this.onPoint(null));
      area.addEventListener("click", (event) => {
        const found = find(event);
        if (found) this.onChoose(found);
      });
    }
  }

  point(cursor, follow) {
    const { cell } = this;
    const row = cursor?.row ?? null;
    const column = cursor?.column ?? null;
    this.band.hidden = row === null;
    this.post.hidden = column === null;
    this.ring.hidden = row === null || column === null;
    if (row !== null) this.band.style.cssText = `top:${row * cell}px;height:${cell}px`;
    if (column !== null) this.post.style.cssText = `left:${column * cell}px;width:${cell}px`;
    this.ring.style.cssText = `left:${column * cell}px;top:${row * cell}px;width:${cell}px;height:${cell}px`;
    for (const [box, chosen] of [[this.rowLabels, row], [this.columnLabels, column]]) {
      box.querySelector(".on")?.classList.remove("on");
      if (chosen !== null) box.children[chosen]?.classList.add("on");
    }
    if (follow && row !== null && column !== null) {
      const margin = 2 * cell;
      const box = this.scroller;
      const left = this.cells.offsetLeft;
      const top = this.cells.offsetTop;
      const x = column * cell;
      const y = row * cell;
      box.scrollLeft = clamp(box.scrollLeft, x + cell + left + margin - box.clientWidth, Math.max(0, x - margin));
      box.scrollTop = clamp(box.scrollTop, y + cell + top + margin - box.clientHeight, Math.max(0, y - margin));
    }
  }
}
