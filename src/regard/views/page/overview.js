// The overview: every head of every layer as a thumbnail, with the mean of each layer's heads in the last column.

const THUMBNAIL = 40;

/** Max-pooled, so that a single sharp weight is not averaged away. */
function pooled(matrix, most) {
  const rows = Math.min(matrix.rows, most);
  const columns = Math.min(matrix.columns, most);
  if (rows === matrix.rows && columns === matrix.columns) return matrix;
  const values = new Float32Array(rows * columns);
  for (let i = 0; i < matrix.rows; i++) {
    const row = Math.floor((i * rows) / matrix.rows);
    for (let j = 0; j < matrix.columns; j++) {
      const at = row * columns + Math.floor((j * columns) / matrix.columns);
      values[at] = Math.max(values[at], valueAt(matrix, i, j));
    }
  }
  return { ...matrix, rows, columns, values, edges: undefined, largest: undefined };
}

class Overview {
  constructor(place, onChoose) {
    this.place = place;
    this.onChoose = onChoose;
    place.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-layer]");
      if (!button) return;
      const { layer, head } = button.dataset;
      this.onChoose(Number(layer), /^\d+$/.test(head) ? Number(head) : head);
    });
  }

  draw(store, state, palette) {
    const { example, kind, unit, scale } = state;
    // Another head or layer of the same map only moves the frame.
    const drawn = [example, kind, unit, scale, document.documentElement.dataset.theme].join("/");
    if (drawn === this.drawn) return this.select(state);
    this.drawn = drawn;
    const layers = store.layers(example, kind);
    const most = Math.max(...layers.map((layer) => store.heads(example, kind, layer)));
    const grid = element("div", { class: "thumbnails" });
    const narrow = most > 7 ? 30 : THUMBNAIL;
    grid.style.setProperty("--thumbnail", `${narrow}px`);
    grid.style.gridTemplateColumns = `auto repeat(${most + 1}, minmax(${narrow}px, 1fr))`;
    grid.append(element("span"));
    for (let head = 0; head < most; head++) grid.append(element("span", { class: "head" }, String(head + 1)));
    grid.append(element("span", { class: "head" }, "mean"));
    for (const layer of layers) {
      grid.append(element("span", { class: "layer" }, String(layer)));
      const heads = store.heads(example, kind, layer);
      for (let head = 0; head < most; head++) {
        grid.append(head < heads ? this.thumbnail(store, example, kind, layer, head, unit, scale, palette) : element("span"));
      }
      grid.append(this.thumbnail(store, example, kind, layer, "mean", unit, scale, palette));
    }
    const all = element("button", { type: "button", class: "all", "data-layer": layers[0], "data-head": "all" });
    all.append("Mean of layers and heads");
    this.place.replaceChildren(grid, all);
    this.select(state);
  }

  thumbnail(store, example, kind, layer, head, unit, scaleName, palette) {
    const label = `Layer ${layer}, ${head === "mean" ? "mean of heads" : `head ${head + 1}`}`;
    const button = element("button", {
      type: "button",
      class: "thumbnail",
      title: label,
      "aria-label": label,
      "data-layer": layer,
      "data-head": head,
    });
    const canvas = element("canvas", { "aria-hidden": "true" });
    canvas.width = canvas.height = 96;
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    const paint = (matrix) =>
      context.drawImage(pixels(pooled(matrix, 64), Scale.of(matrix, scaleName), palette), 0, 0, 96, 96);
    // Weights may still be on their way; what does not arrive leaves its frame empty.
    const matrix = store.thumbnail({ example, kind, layer, head, unit });
    if (matrix instanceof Promise) matrix.then(paint, () => button.classList.add("missing"));
    else paint(matrix);
    button.append(canvas);
    return button;
  }

  select(state) {
    for (const button of this.place.querySelectorAll("button[data-layer]")) {
      const all = state.head === "all";
      const chosen = all
        ? button.dataset.head === "all"
        : Number(button.dataset.layer) === state.layer && button.dataset.head === String(state.head);
      button.setAttribute("aria-pressed", String(chosen));
    }
  }
}
