// Lines: keys on the left, queries on the right, a curve for each of the strongest weights of a query.

class LinesView {
  constructor(place, onPoint, onChoose) {
    this.place = place;
    this.onPoint = onPoint;
    this.onChoose = onChoose;
  }

  draw(matrix, { scale, axes }) {
    this.matrix = matrix;
    this.scale = scale;
    const most = Math.max(matrix.rows, matrix.columns);
    const step = most <= 16 ? 34 : most <= 40 ? 28 : 20;
    this.height = step * most;
    const room = Math.max(240, this.place.clientWidth);
    const size = step >= 28 ? 15 : 12;
    const side = (labels) => Math.ceil(Math.min(longestLabel(labels, size) + 20, room * 0.34));
    const left = side(matrix.columnLabels);
    const right = side(matrix.rowLabels);
    this.width = Math.min(room - left - right - 8, 560);

    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.left = this.column("left", matrix.columnLabels, step);
    this.right = this.column("right", matrix.rowLabels, step);
    const board = element("div", { class: "lines" }, this.left, this.canvas, this.right);
    board.style.cssText =
      `grid-template-columns:${left}px ${this.width}px ${right}px;height:${this.height}px;--label:${size}px`;
    const heading = element(
      "div",
      { class: "lines-head" },
      element("span", {}, `${axes.keys}, looked at`),
      element("span", {}, `${axes.queries}, looking`),
    );
    heading.style.width = `${left + this.width + right}px`;
    this.place.replaceChildren(element("div", { class: "lines-frame", "aria-hidden": "true" }, heading, board));
    this.listen();
    this.point(null);
  }

  column(name, labels, step) {
    const box = element("div", { class: `line-labels ${name}` });
    labels.forEach((text, i) => {
      const label = element("span", { "data-index": i, title: text }, element("b", {}, text));
      label.style.cssText = `top:${this.y(i, labels.length) - step / 2}px;height:${step}px;line-height:${step}px`;
      box.append(label);
    });
    return box;
  }

  y(index, count) {
    return ((index + 0.5) / count) * this.height;
  }

  listen() {
    const sides = [
      [this.left, (column) => ({ row: null, column })],
      [this.right, (row) => ({ row, column: null })],
    ];
    for (const [box, make] of sides) {
      const find = (event) => {
        const label = event.target.closest("[data-index]");
        return label ? make(Number(label.dataset.index)) : null;
      };
      box.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.onPoint(find(event)));
      box.addEventListener("pointerleave", () => this.onPoint(null));
      box.addEventListener("click", (event) => {
        const found = find(event);
        if (found) this.onChoose(found);
      });
    }
  }

  point(cursor, follow) {
    const { matrix } = this;
    const row = cursor?.row ?? null;
    const column = cursor?.column ?? null;
    const idle = row === null && column === null;
    const context = sharpen(this.canvas, this.width, this.height);
    context.strokeStyle = style("--line-ink");
    context.lineCap = "round";
    const shown = [];
    if (row !== null && column !== null && !maskedAt(matrix, row, column)) {
      // A chosen cell is drawn however weak it is.
      shown.push([row, column, valueAt(matrix, row, column)]);
    }
    strongest(matrix).forEach((edges, i) => {
      if (row !== null && row !== i) return;
      for (const [j, weight] of edges) {
        if (row === null && column !== null && column !== j) continue;
        if (i !== row || j !== column) shown.push([i, j, weight]);
      }
    });
    for (const [i, j, weight] of shown) {
      const force = this.scale.position(weight);
      const chosen = i === row && j === column;
      context.globalAlpha = chosen ? Math.max(0.35, force) : force * (idle ? 0.7 : 0.9);
      context.lineWidth = (idle ? 1 : 1.4) + 2.2 * force + (chosen ? 1 : 0);
      this.curve(context, this.y(j, matrix.columns), this.y(i, matrix.rows));
    }
    this.mark(this.left, column, shown.map(([, j, weight]) => [j, weight]), idle || row === null);
    this.mark(this.right, row, shown.map(([i, , weight]) => [i, weight]), idle || row !== null);
    if (follow && row !== null) {
      this.right.children[row]?.scrollIntoView({ block: "nearest" });
    }
  }

  curve(context, from, to) {
    const bend = this.width * 0.45;
    context.beginPath();
    context.moveTo(0, from);
    context.bezierCurveTo(bend, from, this.width - bend, to, this.width, to);
    context.stroke();
  }

  /** The chosen label is outlined; labels at the other end of its lines are tinted by their weight. */
  mark(box, chosen, ends, plain) {
    const tint = new Map();
    if (!plain) for (const [index, weight] of ends) tint.set(index, weight);
    [...box.children].forEach((label, i) => {
      label.classList.toggle("on", i === chosen);
      label.style.setProperty("--tint", tint.has(i) ? (0.75 * this.scale.position(tint.get(i))).toFixed(3) : "0");
    });
  }
}
