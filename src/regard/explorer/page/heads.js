// Every layer and head: small pictures, or one number of each as a colour.

const GRIDS = {
  pictures: "pictures",
  entropy: "entropy",
  distance: "distance",
  first: "share on the first token",
  previous: "share on the token before",
  importance: "importance",
};

let gridTurn = 0;

async function drawGrid() {
  const mine = ++gridTurn;
  const place = $("overview");
  if (state.grid === "pictures") return overview.draw(source, { ...state, example: source.told.session }, palette);
  overview.drawn = null;
  const entries = source.entries(state.kind);
  const rows = await Promise.all(entries.map((entry) => numbersOfHeads(entry)));
  if (mine !== gridTurn) return;
  const known = rows.flat().filter((value) => value !== null);
  if (!known.length) return place.replaceChildren(element("p", { class: "note" }, "Measure what each head is worth under “What if”, below."));
  place.replaceChildren(gridOfNumbers(entries, rows, Math.max(...known.map(Math.abs), 1e-12)));
  overview.select(state);
}

/** A number for each head of an attention, null where it is not known. */
async function numbersOfHeads({ name, kind, layer, heads }) {
  if (state.grid === "importance") return worth?.changes[name] ?? Array(heads).fill(null);
  return (await source.overview(kind, layer)).statistics[state.grid];
}

function gridOfNumbers(entries, rows, most) {
  const heads = Math.max(...rows.map((row) => row.length));
  const grid = element("div", { class: "thumbnails" });
  grid.style.gridTemplateColumns = `auto repeat(${heads}, minmax(${heads > 7 ? 30 : 40}px, 1fr))`;
  grid.append(element("span"), ...Array.from({ length: heads }, (_, head) => element("span", { class: "head" }, String(head + 1))));
  entries.forEach(({ layer }, i) => {
    grid.append(element("span", { class: "layer" }, String(layer)));
    for (let head = 0; head < heads; head++) grid.append(head < rows[i].length ? cellOfHead(layer, head, rows[i][head], most) : element("span"));
  });
  return grid;
}

function cellOfHead(layer, head, value, most) {
  const text = value === null ? "not measured" : `${GRIDS[state.grid]} ${tidy(value)}`;
  const label = `Layer ${layer}, head ${head + 1}: ${text}`;
  const button = element("button", { type: "button", class: "thumbnail number-cell", title: label, "aria-label": label, "data-layer": layer, "data-head": head });
  if (value === null) return button;
  const shade = palette[Math.round(255 * clamp(value / most, 0, 1))];
  button.textContent = shortest(value);
  button.classList.toggle("harmful", value < 0);
  if (value >= 0) button.style.background = `rgb(${shade.join(" ")})`;
  const [red, green, blue] = shade;
  if (value >= 0) button.style.color = 0.3 * red + 0.6 * green + 0.1 * blue > 140 ? "#14181f" : "#ffffff";
  return button;
}

/** As much of a number as a small cell has room for. */
function shortest(value) {
  const size = Math.abs(value);
  const text = size >= 10 ? value.toFixed(0) : size >= 1 ? value.toFixed(1) : value.toFixed(2).replace("0.", ".");
  return text.replace("-", "−");
}
