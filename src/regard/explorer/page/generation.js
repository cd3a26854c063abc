// What could come next: the probabilities of the model, and what temperature and top-p make of them, all in the page.

const SHOWN_TOKENS = 14;

/** From raw logits to what a sampler would draw from: [{piece, base, final, kept}], the likeliest first. */
function sampled({ logits, logsumexp, pieces, ids }, temperature, topP) {
  const base = logits.map((logit) => Math.exp(logit - logsumexp));
  const warm = logits.map((logit) => Math.exp((logit - logits[0]) / temperature));
  // At temperature one the sum over the whole vocabulary is known; else the tokens that were sent must do.
  const total = temperature === 1 ? Math.exp(logsumexp - logits[0]) : warm.reduce((a, b) => a + b, 0);
  let mass = 0;
  const drawn = warm.map((weight, i) => {
    const kept = mass < topP;
    mass += weight / total;
    return { id: ids[i], piece: pieces[i], base: base[i], final: weight / total, kept };
  });
  const held = topP < 1 ? drawn.reduce((sum, each) => sum + (each.kept ? each.final : 0), 0) : 1;
  return drawn.map((each) => ({ ...each, final: each.kept ? each.final / held : 0 }));
}

class NextPanel {
  constructor(place, act) {
    this.place = place;
    this.act = act;
  }

  draw(told, next, { place, temperature, top_p: topP }) {
    const chips = element("div", { class: "chips", role: "group", "aria-label": "place" });
    const count = next.places;
    const first = Math.max(0, Math.min(place - 20, count - 40));
    for (let i = first; i < Math.min(count, first + 40); i++) {
      const piece = i < told.tokens.pieces.length ? visiblePiece(told.tokens.pieces[i]) : "?";
      const chip = element("button", { type: "button", class: "chip", "aria-pressed": String(i === place) }, piece);
      if (i < told.tokens.free) chip.classList.add("given");
      chip.addEventListener("click", () => this.act.place(i));
      chips.append(chip);
    }
    this.sliders = element(
      "div",
      { class: "sliders" },
      this.slider("temperature", "Temperature", temperature, 0.1, 3, 0.05),
      this.slider("top_p", "Top-p", topP, 0.05, 1, 0.01),
    );
    this.table = element("ol", { class: "next" });
    const known = element("p", { class: "axis" });
    this.place.replaceChildren(
      element("p", { class: "axis" }, "Choose a place; then see what could stand there, and click a token to force it."),
      chips, this.sliders, this.table, known,
    );
    this.next = next;
    this.forcible = place >= told.tokens.free;
    this.note = known;
    this.show(temperature, topP);
  }

  slider(name, label, value, min, max, step) {
    const input = element("input", { type: "range", id: name, min, max, step });
    input.value = value;
    const output = element("output", { for: name }, tidy(value));
    input.addEventListener("input", () => {
      output.textContent = tidy(Number(input.value));
      this.act.change(name, Number(input.value));
    });
    return element("div", { class: "field" }, element("label", { for: name }, label), input, output);
  }

  /** Again, with another temperature or top-p: nothing is fetched. */
  show(temperature, topP) {
    const drawn = sampled(this.next, temperature, topP);
    const most = Math.max(...drawn.map((each) => Math.max(each.base, each.final)));
    const said = this.next.said?.id;
    this.table.replaceChildren(
      ...drawn.slice(0, SHOWN_TOKENS).map((each) => {
        const bar = (share, name) => {
          const made = element("i", { class: name });
          made.style.width = `${(100 * share) / most}%`;
          return made;
        };
        const button = element("button", { type: "button", class: "token", title: "say this instead" }, visiblePiece(each.piece));
        button.disabled = !this.forcible;
        button.addEventListener("click", () => this.act.force(each.id));
        return element(
          "li",
          { class: [each.kept ? "" : "pruned", each.id === said ? "taken" : ""].join(" ") },
          button,
          element("span", { class: "twin" }, bar(each.base, "base"), bar(each.final, "final")),
          element("span", { class: "number" }, `${percent(each.base)} → ${each.kept ? percent(each.final) : "never"}`),
        );
      }),
    );
    const sent = drawn.reduce((sum, each) => sum + each.base, 0);
    const kept = drawn.filter((each) => each.kept).length;
    this.note.textContent =
      `Entropy ${this.next.entropy.toFixed(2)} nats. Pale bars: the model's own probabilities; dark bars: after temperature and top-p` +
      (topP < 1 ? `, which leaves ${kept} token${kept === 1 ? "" : "s"}` : "") +
      `. Computed here from the ${drawn.length} likeliest of ${this.next.vocabulary.toLocaleString("en")} tokens, ${percent(sent)} of the probability.` +
      (said === undefined ? "" : ` Said: ${visiblePiece(this.saidPiece())}.`) +
      (this.forcible ? "" : " This place belongs to the prompt.");
  }

  saidPiece() {
    const at = this.next.ids.indexOf(this.next.said.id);
    return at >= 0 ? this.next.pieces[at] : `token ${this.next.said.id}`;
  }
}

function percent(share) {
  if (share > 0 && share < 1e-5) return "<0.001 %";
  return `${share >= 0.1 ? (100 * share).toFixed(1) : (100 * share).toPrecision(2)} %`;
}

/** A piece of a vocabulary as people read it: the mark of a word's start is a dot, and what is blank is drawn. */
function visiblePiece(piece) {
  const said = piece.replace(/^[▁Ġ]/, "·").replace(/[Ċ\n]/g, "↵").replace(/<\/w>$|@@$/, "");
  return said.trim() ? said : "␣".repeat(said.length || 1);
}
