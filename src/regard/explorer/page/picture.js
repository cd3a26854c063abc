// Attention over a picture: the true cells of one query, dark where nothing was read. Words, or patches, are buttons.

class PictureView {
  constructor(place, onPoint, onChoose) {
    this.place = place;
    this.onPoint = onPoint;
    this.onChoose = onChoose;
  }

  draw(matrix, { scale, sides, picture }) {
    Object.assign(this, { matrix, scale, grid: sides.grid, own: sides.grid.first > 0 });
    const room = Math.min(Math.max(240, this.place.clientWidth), 560);
    const shape = picture.naturalHeight / picture.naturalWidth;
    this.picture = picture;
    this.width = room;
    this.height = Math.round(room * shape);
    this.canvas = element("canvas", { role: "img", "aria-label": "the picture, lit where it was looked at" });
    // A model that only looks at pictures has patches for queries: they are chosen on the picture itself.
    this.words = element("div", { class: "chips", role: "group", "aria-label": "queries" });
    const shown = this.own ? [0] : matrix.rowLabels.keys();
    for (const row of shown) {
      const chip = element("button", { type: "button", class: "chip", "data-row": row }, matrix.rowLabels[row]);
      chip.addEventListener("pointerenter", () => this.onPoint({ row, column: null }));
      chip.addEventListener("pointerleave", () => this.onPoint(null));
      chip.addEventListener("click", () => this.onChoose({ row, column: null }));
      this.words.append(chip);
    }
    this.place.replaceChildren(this.words, this.canvas);
    const at = (event) => {
      const box = this.canvas.getBoundingClientRect();
      const share = (value, size) => clamp(value / size, 0, 0.9999);
      const row = Math.floor(share(event.clientY - box.top, box.height) * this.grid.rows);
      const column = Math.floor(share(event.clientX - box.left, box.width) * this.grid.columns);
      return this.grid.first + row * this.grid.columns + column;
    };
    const cell = (event) => (this.own ? { row: at(event), column: null } : { row: this.row, column: at(event) });
    this.canvas.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.onPoint(cell(event)));
    this.canvas.addEventListener("pointerleave", () => this.onPoint(null));
    this.canvas.addEventListener("click", (event) => this.onChoose(cell(event)));
    this.point(null);
  }

  point(cursor) {
    this.row = cursor?.row ?? this.row ?? 0;
    if (this.row >= this.matrix.rows) this.row = 0;
    const { row, grid, matrix } = this;
    const context = sharpen(this.canvas, this.width, this.height);
    context.drawImage(this.picture, 0, 0, this.width, this.height);
    const wide = this.width / grid.columns;
    const tall = this.height / grid.rows;
    const weights = Array.from({ length: grid.rows * grid.columns }, (_, i) => valueAt(matrix, row, grid.first + i));
    const most = Math.max(...weights, 1e-9);
    weights.forEach((weight, i) => {
      const share = weight / most;
      context.fillStyle = `rgb(8 12 20 / ${0.82 * (1 - (this.scale.name === "linear" ? share : Math.sqrt(share)))})`;
      context.fillRect((i % grid.columns) * wide, Math.floor(i / grid.columns) * tall, wide + 0.5, tall + 0.5);
    });
    const outline = (index, dashed) => {
      if (index < grid.first) return;
      const i = index - grid.first;
      context.setLineDash(dashed ? [5, 4] : []);
      context.strokeStyle = "#ffffff";
      context.lineWidth = 2;
      context.strokeRect((i % grid.columns) * wide + 1, Math.floor(i / grid.columns) * tall + 1, wide - 2, tall - 2);
    };
    if (this.own) outline(row, false);
    if (cursor?.column != null) outline(cursor.column, true);
    for (const chip of this.words.children) chip.setAttribute("aria-pressed", String(Number(chip.dataset.row) === row));
  }
}

/** A picture made by the server, such as a memory at work, or a text read word by word. */
async function showServed(place, source, body, label) {
  const url = URL.createObjectURL(await source.blob("export", { format: "svg", ...body }));
  const image = element("img", { src: url, alt: label, class: "served" });
  await image.decode();
  place.replaceChildren(element("div", { class: "scroller paper" }, image));
}

/** A document: a bar for each sentence, shaded words. */
async function showDocument(place, source, onSentence) {
  const told = await source.ask("document");
  const lines = told.sentences.map((sentence, number) => {
    const bar = element("i");
    bar.style.width = `${100 * sentence.shade}%`;
    const words = sentence.pieces.map((piece) => {
      if (piece.weight === undefined) return piece.text;
      const word = element("span", { title: `${say(piece.weight)} of its sentence` }, piece.text);
      word.style.setProperty("--tint", piece.shade.toFixed(3));
      return word;
    });
    const button = element(
      "button",
      { type: "button", class: "sentence-bar", "aria-label": `sentence ${number + 1}, weight ${say(sentence.weight)}` },
      bar,
      element("small", {}, say(sentence.weight)),
    );
    button.addEventListener("click", () => onSentence(number));
    return element("div", { class: "sentence" }, button, element("p", { dir: "auto" }, ...words));
  });
  place.replaceChildren(element("div", { class: "document" }, ...lines));
}
