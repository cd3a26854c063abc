// The tree of a beam search: a column per step, the thickness of a line the probability of its token.

const COLUMN = 126;
const LINE = 24;
const MOST_LOOKED_AT = 60; // keys of a row; of more, those that were paid most
const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

class BeamPanel {
  constructor(place, act) {
    this.place = place;
    this.act = act;
  }

  draw(tree, beams) {
    const select = element("select", { id: "beams" });
    options(select, [1, 2, 3, 4, 5, 6, 8].map((each) => [each, each]), beams);
    select.addEventListener("change", () => this.act.beams(Number(select.value)));
    this.told = element("p", { class: "readout beam-told", role: "status", "aria-live": "polite" }, "Point at a token to hear what became of it; click it to see where the model looked.");
    const found = element("ol", { class: "found" });
    tree.hypotheses.forEach((each, rank) => {
      found.append(element("li", {}, element("q", {}, each.text), element("small", {}, ` score ${tidy(each.score)}, log p ${tidy(each.log_probability)}${rank ? "" : ": the answer"}`)));
    });
    this.row = element("div", { class: "looked-at", "aria-live": "polite" });
    this.place.replaceChildren(
      element("div", { class: "field" }, element("label", { for: "beams" }, "Beams"), select, element("span", { class: "axis" }, `length penalty ${tee(tree.length_penalty)}`)),
      this.told,
      element("div", { class: "scroller" }, this.picture(tree)),
      this.row,
      element("h3", {}, "What was found"),
      found,
    );
  }

  picture(tree) {
    const places = new Map();
    const counts = new Map();
    for (const node of tree.nodes) {
      const order = counts.get(node.step) ?? 0;
      counts.set(node.step, order + 1);
      places.set(node.number, { x: node.step * COLUMN - COLUMN + 40, y: 20 + order * LINE });
    }
    places.set(-1, { x: -40, y: 20 });
    const best = new Set();
    let number = tree.nodes.find((node) => node.rank === 0)?.number ?? -1;
    while (number >= 0) {
      best.add(number);
      number = tree.nodes[number].parent;
    }
    const height = 30 + LINE * Math.max(...counts.values(), 1);
    const width = COLUMN * Math.max(...counts.keys(), 1) + 70;
    const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "the tree of the search", class: "tree" });
    const lines = svg("g");
    const labels = svg("g");
    for (const node of tree.nodes) {
      const from = places.get(node.parent);
      const to = places.get(node.number);
      const fate = `${node.fate}${best.has(node.number) ? " best" : ""}`;
      const start = from.x + (node.parent < 0 ? 46 : 68);
      lines.append(
        svg("path", {
          d: `M${start} ${from.y} C${start + 22} ${from.y} ${to.x - 26} ${to.y} ${to.x - 4} ${to.y}`,
          class: `twig ${fate}`,
          "stroke-width": (0.6 + 5 * Math.exp(node.log_probability)).toFixed(2),
        }),
      );
      const text = svg("text", { x: to.x, y: to.y + 4 }, shorten(visiblePiece(node.piece), 8));
      const label = svg("g", { class: `node ${fate}`, tabindex: best.has(node.number) ? 0 : -1, "aria-label": `${node.piece}, ${node.fate}: ${node.why}` }, text);
      const tell = () => {
        this.told.textContent =
          `${visiblePiece(node.piece)} p ${say(Math.exp(node.log_probability))}, path log p ${tidy(node.total)}, ` +
          `score ${tidy(node.score)}. ${node.fate}: ${node.why}.`;
      };
      for (const event of ["pointerenter", "focus", "click"]) label.addEventListener(event, tell);
      const look = () => this.look(tree, node, label);
      label.addEventListener("click", look);
      label.addEventListener("keydown", (event) => event.key === "Enter" && look());
      labels.append(label);
    }
    drawing.append(lines, labels);
    return drawing;
  }

  /** The row of the step in which a token was chosen. */
  async look(tree, node, label) {
    this.place.querySelector(".node.on")?.classList.remove("on");
    label.classList.add("on");
    const tokens = [];
    for (let at = node; at; at = tree.nodes[at.parent]) tokens.unshift(at.token);
    const { row } = this;
    const told = await this.act.align(tokens).catch((error) => error);
    if (!label.classList.contains("on")) return;
    if (told instanceof Error) return row.replaceChildren(element("p", { class: "axis" }, told.message));
    const { title, keys, weights } = told;
    const most = Math.max(...weights, 1e-9);
    const least = [...weights].sort((a, b) => b - a)[MOST_LOOKED_AT - 1] ?? 0;
    const words = weights.flatMap((weight, i) => {
      if (weight < least) return [];
      const word = element("span", { title: say(weight) }, keys[i]);
      word.style.setProperty("--tint", (weight / most).toFixed(3));
      return [word, " "];
    });
    row.replaceChildren(element("p", { class: "axis" }, `Before it said ${visiblePiece(node.piece)}, the model looked at (${title}):`), element("p", { class: "shaded", dir: "auto" }, ...words));
  }
}

const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const tee = (number) => String(Number(number.toFixed(3)));
