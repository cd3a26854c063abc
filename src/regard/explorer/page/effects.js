// What weights alone do not say: heads switched off, what they are worth, and what every layer would have said.

class WhatIfPanel {
  constructor(place, act) {
    this.place = place;
    this.act = act;
  }

  draw(source, off, result, worth) {
    const grids = source.kinds().map((kind) => this.grid(source, kind, off, worth));
    const button = (text, act) => {
      const made = element("button", { type: "button", class: "quiet" }, text);
      made.addEventListener("click", act);
      return made;
    };
    const tools = element("div", { class: "choices tight" }, button("All heads on", () => this.act.off({})));
    if (source.told.views.includes("importance")) tools.append(button("What is each head worth?", () => this.act.measure()));
    this.place.replaceChildren(
      element("p", { class: "axis" }, "Click a head to switch it off: it then reads zeros. The output is computed again without it."),
      element("div", { class: "switches" }, ...grids),
      tools,
      ...(worth ? [element("p", { class: "axis" }, told(worth))] : []),
      this.result(result, off),
    );
  }

  grid(source, kind, off, worth) {
    const entries = source.entries(kind).filter((each) => each.hasHeads);
    if (!entries.length) return "";
    const known = worth && (worth.exact ? worth.changes : worth.estimates);
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
    const chips = pieces.map((piece, i) => {
      const by = after.said[i] - before.said[i];
      const chip = element("span", { class: `chip still ${by < 0 ? "low" : "high"}`, title: `log p ${tidy(before.said[i])} → ${tidy(after.said[i])}` }, visiblePiece(piece), element("small", {}, ` ${by >= 0 ? "+" : "−"}${Math.abs(by).toFixed(2)}`));
      chip.style.setProperty("--tint", Math.min(1, Math.abs(by) / 3).toFixed(3));
      return chip;
    });
    return [
      element("p", { class: "readout", id: "change" }, `log p of what was said: ${tidy(sum(before.said))} → ${tidy(sum(after.said))} (${change >= 0 ? "+" : "−"}${Math.abs(change).toFixed(3)})`),
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

function told(worth) {
  return worth.exact
    ? `Shade: the rise of the loss (${tidy(worth.nll)} nats per token) when this head alone is off, for this example.`
    : "Shade: the slope of the loss at a gate before each head (an estimate), for this example.";
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
