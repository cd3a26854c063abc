// What weights alone do not say: heads switched off, what they are worth, and what every layer would have said.

const MOST_CHIPS = 200; // tokens whose change is told one by one

class WhatIfPanel {
  constructor(place, act) {
    this.place = place;
    this.act = act;
  }

  draw(source, { off, instead, result, worth }) {
    const grids = source.kinds().map((kind) => this.grid(source, kind, off, worth));
    const button = (text, act) => {
      const made = element("button", { type: "button", class: "quiet" }, text);
      made.addEventListener("click", act);
      return made;
    };
    const reads = element("select", { id: "instead" });
    options(reads, [["zero", "zeros"], ["mean", "the mean of what it reads here"]], instead);
    reads.addEventListener("change", () => this.act.instead(reads.value));
    const tools = element(
      "div", { class: "choices tight" },
      element("div", { class: "field" }, element("label", { for: "instead" }, "A head that is off reads"), reads),
      button("All heads on", () => this.act.off({})),
    );
    this.place.replaceChildren(
      element("p", { class: "axis" }, "Click a head to switch it off. The output is computed again without it."),
      element("div", { class: "switches" }, ...grids),
      tools,
      this.result(result, off),
      ...(source.told.views.includes("importance") ? this.worth(source, worth, button) : []),
    );
  }

  /** What is each head worth, to this example or to a file of lines? */
  worth(source, worth, button) {
    const file = element("input", { type: "file", id: "lines", accept: ".txt,.tsv,text/plain" });
    file.addEventListener("change", async () => file.files[0] && this.act.measure(linesOf(await file.files[0].text())));
    const { kind, reads } = models.find((each) => each.name === state.model);
    const form = { Translator: "source, tab, translation", Classifier: "text, tab, label" }[kind] ?? "a text each";
    const going = worth && worth.done < worth.all;
    return [
      element("h3", {}, "What is each head worth?"),
      element(
        "div", { class: "choices tight" },
        button("To this example", () => this.act.measure([])),
        reads === "images" ? "" : element("div", { class: "field" }, element("label", { for: "lines" }, `To the lines of a file (${form})`), file),
      ),
      ...(going ? [element("div", { class: "choices tight" },
        element("progress", { max: worth.all, value: worth.done, "aria-label": "attentions measured" }),
        element("span", { class: "axis" }, `${worth.done} of ${worth.all} attentions`),
        button("Stop", () => this.act.stop()))] : []),
      ...(worth?.done ? [element("p", { class: "axis", id: "worth" }, worthTold(worth))] : []),
    ];
  }

  grid(source, kind, off, worth) {
    const entries = source.entries(kind).filter((each) => each.hasHeads);
    if (!entries.length) return "";
    const known = worth?.changes;
    const most = known ? Math.max(...Object.values(known).flat().map(Math.abs), 1e-9) : 1;
    const lines = entries.map((entry) => {
      const line = element("div", { class: "switch-line" }, element("span", { class: "layer" }, String(entry.layer)));
      for (let head = 0; head < entry.heads; head++) {
        const isOff = off[entry.name]?.includes(head) ?? false;
        const value = known?.[entry.name]?.[head];
        const text = value === undefined ? "" : `, worth ${tidy(value)} nats`;
        const button = element(
          "button",
          {
            type: "button",
            class: "switch",
            "aria-pressed": String(!isOff),
            "aria-label": `${KIND_NAMES[kind]}, layer ${entry.layer}, head ${head + 1}: ${isOff ? "off" : "on"}${text}`,
            title: `head ${head + 1}${text}`,
            "data-attention": entry.name,
            "data-head": head,
          },
          String(head + 1),
        );
        if (value !== undefined) button.style.setProperty("--tint", (0.15 + 0.85 * Math.max(0, value / most)).toFixed(3));
        if (value < 0) button.classList.add("harmful");
        button.addEventListener("click", () => {
          const others = (off[entry.name] ?? []).filter((each) => each !== head);
          this.act.off({ ...off, [entry.name]: isOff ? others : [...others, head].sort((a, b) => a - b) });
        });
        line.append(button);
      }
      return line;
    });
    return element("div", { class: "switch-grid", role: "group", "aria-label": KIND_NAMES[kind] }, element("h3", {}, KIND_NAMES[kind]), ...lines);
  }

  result(result, off) {
    const count = Object.values(off).reduce((sum, heads) => sum + heads.length, 0);
    if (!count) return element("p", { class: "readout" }, "All heads are on.");
    if (!result) return element("p", { class: "readout" }, "…");
    const parts = [element("h3", {}, `Without ${count} head${count > 1 ? "s" : ""}`)];
    const { before, after } = result;
    if (after.text !== null) {
      const same = before.text === after.text;
      parts.push(
        element("dl", { class: "compared" },
          element("div", {}, element("dt", {}, "before"), element("dd", { dir: "auto" }, before.text)),
          element("div", { class: same ? "same" : "changed" }, element("dt", {}, "after"), element("dd", { dir: "auto" }, after.text, same ? element("small", {}, " (the same)") : ""))),
      );
    }
    if (before.said.length) parts.push(...this.tokens(result));
    if (Object.keys(before.labels).length) parts.push(this.labels(before.labels, after.labels));
    return element("div", { class: "result" }, ...parts);
  }

  tokens({ before, after, pieces }) {
    const sum = (values) => values.reduce((a, b) => a + b, 0);
    const change = sum(after.said) - sum(before.said);
    const changes = pieces.map((_, i) => after.said[i] - before.said[i]);
    const least = [...changes].map(Math.abs).sort((a, b) => b - a)[MOST_CHIPS - 1] ?? 0;
    const shown = [...pieces.keys()].filter((i) => Math.abs(changes[i]) >= least).slice(0, MOST_CHIPS);
    const chips = shown.map((i) => {
      const [piece, by] = [pieces[i], changes[i]];
      const chip = element("span", { class: `chip still ${by < 0 ? "low" : "high"}`, title: `log p ${tidy(before.said[i])} → ${tidy(after.said[i])}` }, visiblePiece(piece), element("small", {}, ` ${by >= 0 ? "+" : "−"}${Math.abs(by).toFixed(2)}`));
      chip.style.setProperty("--tint", Math.min(1, Math.abs(by) / 3).toFixed(3));
      return chip;
    });
    return [
      element("p", { class: "readout", id: "change" }, `log p of what was said: ${tidy(sum(before.said))} → ${tidy(sum(after.said))} (${change >= 0 ? "+" : "−"}${Math.abs(change).toFixed(3)})`),
      ...(shown.length < pieces.length ? [element("p", { class: "axis" }, `The ${shown.length} tokens of ${pieces.length} that changed most.`)] : []),
      element("div", { class: "chips" }, ...chips),
    ];
  }

  labels(before, after) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].slice(0, 12);
    const bar = (share, name) => {
      const made = element("i", { class: name });
      made.style.width = `${100 * share}%`;
      return made;
    };
    return element("ol", { class: "next" }, ...names.map((name) => element("li", {},
      element("span", { class: "token" }, name),
      element("span", { class: "twin" }, bar(before[name] ?? 0, "base"), bar(after[name] ?? 0, "final")),
      element("span", { class: "number" }, `${percent(before[name] ?? 0)} → ${percent(after[name] ?? 0)}`))));
  }
}

const MOST_LINES = 100;

function linesOf(text) {
  return text.split(/\r?\n/).filter((line) => line.trim()).slice(0, MOST_LINES);
}

function worthTold({ lines, nll }) {
  const whose = lines ? `${lines} line${lines > 1 ? "s" : ""}` : "this example";
  return `Shade: the rise of the loss (${tidy(nll)} nats per token) of ${whose} when this head alone is off. Brown: the loss falls.`;
}

// ---- through all layers: never one measure alone ----

async function drawThrough(place, late) {
  const kind = source.throughs(state.kind).length > 1 ? state.kind : source.kinds().find((each) => source.throughs(each).length > 1);
  const figures = element("div", { class: "figures" });
  place.replaceChildren(
    element("p", { class: "axis" }, `${KIND_NAMES[kind]}: rows are tokens of the top, columns tokens of the input. Three ways to follow attention through the layers, beside its mean; where they disagree, trust none of them. Click one to see it large.`),
    figures,
  );
  const unit = source.isLong(kind) ? LONG_UNIT : state.unit;
  await Promise.all(source.throughs(kind).map(async (how) => {
    const figure = element("figure", {}, element("figcaption", {}, THROUGH[how].short));
    figures.append(figure);
    try {
      const matrix = await source.matrix({ kind, layer: null, head: how, unit });
      if (late()) return;
      const button = element("button", { type: "button", class: "thumbnail large", "aria-label": THROUGH[how].name, "data-how": how });
      button.append(smallPicture(matrix, 230));
      button.addEventListener("click", () => update({ kind, head: how, view: "matrix" }));
      figure.append(button, element("p", { class: "axis" }, THROUGH[how].about));
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      figure.append(element("p", { class: "axis" }, error.message));
    }
  }));
}

function smallPicture(matrix, side) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const cell = side / Math.max(matrix.rows, matrix.columns);
  const context = sharpen(canvas, cell * matrix.columns, cell * matrix.rows);
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(matrix, Scale.of(matrix, state.scale), palette), 0, 0, cell * matrix.columns, cell * matrix.rows);
  return canvas;
}

// ---- what every layer would have said ----

function drawLens(place, told) {
  const layers = told.pieces.length;
  const head = element("tr", {}, element("th", { scope: "col" }, "after"), ...told.read.map((piece) => element("th", { scope: "col" }, visiblePiece(piece))));
  const rows = [];
  for (let layer = layers - 1; layer >= 0; layer--) {
    const cells = told.pieces[layer].map((best, i) => {
      const [probability] = told.probabilities[layer][i];
      const cell = element("td", { title: best.map((piece, k) => `${visiblePiece(piece)} ${say(told.probabilities[layer][i][k])}`).join("\n") + `\nentropy ${tidy(told.entropy[layer][i])}` }, visiblePiece(best[0]));
      cell.style.setProperty("--tint", probability.toFixed(3));
      return cell;
    });
    rows.push(element("tr", {}, element("th", { scope: "row" }, layer ? `layer ${layer}` : "embedding"), ...cells));
  }
  place.replaceChildren(
    element("p", { class: "axis" }, "Each layer's states read as if they were the last: the likeliest next token, shaded by its probability. The top row is what the model says."),
    element("div", { class: "scroller table" }, element("table", { class: "lens" }, element("thead", {}, head), element("tbody", {}, ...rows))),
  );
}

// ---- where a token stands ----

function signedPicture(rows, most, label) {
  const canvas = element("canvas", { role: "img", "aria-label": label, class: "signed" });
  const cell = clamp(Math.floor(420 / Math.max(rows.length, rows[0].length)), 2, 14);
  const context = sharpen(canvas, cell * rows[0].length, cell * rows.length);
  rows.forEach((row, i) => row.forEach((value, j) => {
    context.globalAlpha = Math.min(1, Math.abs(value) / most);
    context.fillStyle = value < 0 ? SIGNED_LOW : SIGNED_TOP;
    context.fillRect(j * cell, i * cell, cell, cell);
  }));
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const i = clamp(Math.floor(((event.clientY - box.top) / box.height) * rows.length), 0, rows.length - 1);
    const j = clamp(Math.floor(((event.clientX - box.left) / box.width) * rows[0].length), 0, rows[0].length - 1);
    canvas.title = tidy(rows[i][j]);
  });
  return canvas;
}

function drawPositions(place, told) {
  const part = told.rows.length < told.count ? `${told.rows.length} of ${told.count} places, evenly spread` : `all ${told.count} places`;
  const size = told.vectors[0].length < told.size ? `the first ${told.vectors[0].length} of ${told.size} numbers` : `all ${told.size} numbers`;
  place.replaceChildren(
    element("div", { class: "pair-of-pictures" },
      element("figure", {}, element("figcaption", {}, `Each row is a place, each column a number (${size})`), signedPicture(told.vectors, largestOf(told.vectors), "position vectors")),
      element("figure", {}, element("figcaption", {}, "How alike two places are (cosine)"), signedPicture(told.alike, 1, "similarity of positions"))),
    element("p", { class: "axis" }, `${part}. Blue is positive, brown negative.`),
  );
}

function drawMix(place, told) {
  const bars = told.weights.map((weight, layer) => {
    const bar = element("i");
    bar.style.width = `${100 * weight}%`;
    return element("li", {}, element("span", { class: "bar-name" }, layer ? `layer ${layer}` : "words"), element("span", { class: "bar" }, bar), element("span", { class: "bar-value" }, say(weight)));
  });
  place.replaceChildren(
    formula("ELMo = γ Σ_j s_j h_j"),
    element("p", { class: "about" }, `How much each layer is worth to this task, learnt with it; γ = ${tidy(told.gamma)}.`),
    element("ol", { class: "bars" }, ...bars),
  );
}
