// The page: one state, kept in the address, and everything drawn from it.

const payload = JSON.parse($("data").textContent);
const store = new Store(payload);

const SEGMENTS = {
  view: [["matrix", "Matrix"], ["lines", "Lines"], ["table", "Table"]],
  unit: [["words", "Words"], ["subwords", "Subwords"]],
  scale: [["sqrt", "√ scale"], ["linear", "Linear"]],
};
const SPOKEN = { sqrt: "square-root scale", linear: "linear scale" };

const systemDark = window.matchMedia("(prefers-color-scheme: dark)");

const state = {
  example: 0,
  kind: "cross",
  layer: null, // until told, the last: the one nearest to the output
  head: "mean",
  view: "matrix",
  unit: "words",
  scale: "sqrt",
  theme: null, // null follows the system
  locked: null, // {row, column}, either may be null
};
let hovered = null;
let palette = null;
let current = null;

// ---- the address ----

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  const whole = (name) => (/^\d+$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null);
  if (whole("example")) state.example = whole("example") - 1;
  if (given.has("kind")) state.kind = given.get("kind");
  if (whole("layer") !== null) state.layer = whole("layer");
  if (given.has("head")) state.head = whole("head") ? whole("head") - 1 : given.get("head");
  for (const name of Object.keys(SEGMENTS)) {
    if (SEGMENTS[name].some(([value]) => value === given.get(name))) state[name] = given.get(name);
  }
  if (["light", "dark"].includes(given.get("theme"))) state.theme = given.get("theme");
  const row = whole("query") ? whole("query") - 1 : null;
  const column = whole("key") ? whole("key") - 1 : null;
  state.locked = row === null && column === null ? null : { row, column };
  settle();
}

function writeHash() {
  const told = new URLSearchParams();
  told.set("example", state.example + 1);
  told.set("kind", state.kind);
  told.set("layer", state.layer);
  told.set("head", typeof state.head === "number" ? state.head + 1 : state.head);
  for (const name of Object.keys(SEGMENTS)) told.set(name, state[name]);
  if (state.theme) told.set("theme", state.theme);
  if (state.locked && state.locked.row !== null) told.set("query", state.locked.row + 1);
  if (state.locked && state.locked.column !== null) told.set("key", state.locked.column + 1);
  try {
    history.replaceState(null, "", `#${told}`);
  } catch {
    // A frame without an address of its own cannot keep one.
  }
}

/** Bring the state to something this page has, whatever the address or the last example said. */
function settle() {
  state.example = clamp(state.example, 0, store.examples.length - 1);
  const kinds = store.kinds(state.example);
  if (!kinds.includes(state.kind)) state.kind = kinds.includes("cross") ? "cross" : kinds[0];
  const layers = store.layers(state.example, state.kind);
  if (!layers.includes(state.layer)) state.layer = layers.at(-1);
  const heads = store.heads(state.example, state.kind, state.layer);
  if (state.head !== "all" && !(Number.isInteger(state.head) && state.head < heads)) state.head = "mean";
  if (state.locked) {
    const { rows, columns } = store.matrix(state);
    const { row, column } = state.locked;
    if ((row !== null && row >= rows) || (column !== null && column >= columns)) state.locked = null;
  }
}

// ---- what is shown ----

const views = {
  matrix: new MatrixView($("drawing"), point, choose),
  lines: new LinesView($("drawing"), point, choose),
  table: new TableView($("drawing")),
};
const overview = new Overview($("overview"), (layer, head) => update({ layer, head }));

function axisNames() {
  if (state.kind === "encoder") return { queries: "source", keys: "source" };
  if (state.kind === "decoder") return { queries: "translation", keys: "translation" };
  return { queries: "translation", keys: "source" };
}

/** Gold links as cells of the matrix shown: only between words, only in cross-attention. */
function goldCells(matrix) {
  const { gold } = store.examples[state.example];
  if (!gold || state.kind !== "cross" || !matrix.rowNumbers) return [];
  return gold.map(([source, target]) => [matrix.rowNumbers.indexOf(target), matrix.columnNumbers.indexOf(source)]);
}

function describeMap() {
  const kind = KIND_NAMES[state.kind];
  if (state.head === "all") return `${kind}, mean of layers and heads`;
  return `${kind}, layer ${state.layer}, ${state.head === "mean" ? "mean of heads" : `head ${state.head + 1}`}`;
}

function render() {
  settle();
  applyTheme();
  const matrix = store.matrix(state);
  const scale = Scale.of(matrix, state.scale);
  const gold = goldCells(matrix);
  current = { matrix, scale, gold };
  showPair();
  showControls();
  const axes = axisNames();
  $("map-name").textContent = describeMap();
  $("axes").textContent = `${axes.queries} looks at ${axes.keys}: rows are queries, columns are keys`;
  $("axes").hidden = state.view !== "matrix";
  $("legend").hidden = state.view === "table";
  drawLegend($("legend"), matrix, scale, palette);
  const drawing = $("drawing");
  drawing.setAttribute("role", state.view === "table" ? "region" : "application");
  drawing.setAttribute(
    "aria-label",
    `${describeMap()}, ${matrix.rows} queries by ${matrix.columns} keys.` +
      (state.view === "table" ? "" : " Arrow keys move the cell; choose Table for all numbers."),
  );
  drawing.className = `drawing ${state.view}-drawing`;
  views[state.view].draw(matrix, { scale, palette, gold, axes });
  overview.draw(store, state, palette);
  $("note").replaceChildren(...notes(matrix, gold));
  showCursor(state.view === "matrix"); // lines would scroll the whole page
  writeHash();
}

function notes(matrix, gold) {
  const said = [];
  if (state.view === "lines") said.push(["", "Lines hold up to 70 % of what each query pays; the rest is not drawn."]);
  if (matrix.visible && state.view === "matrix") said.push(["hatched", "Masked: a later word cannot be looked at."]);
  if (gold.length && state.view === "matrix") said.push(["outlined", "Gold link between words."]);
  return said.map(([swatch, text]) => {
    const line = element("span");
    if (swatch) line.append(element("i", { class: `swatch ${swatch}`, "aria-hidden": "true" }));
    line.append(text);
    return line;
  });
}

function showPair() {
  const { source, target, reference, score } = store.examples[state.example];
  const output = store.kinds(state.example).includes("cross") ? "Translation" : "Output";
  const lines = source === target ? [["Text", source]] : [["Source", source], [output, target]];
  if (reference !== null) lines.push(["Reference", reference]);
  $("pair").replaceChildren(
    ...lines.map(([name, text]) =>
      element("div", { class: name.toLowerCase() }, element("dt", {}, name), element("dd", { dir: "auto" }, text)),
    ),
  );
  if (score !== null) {
    const said = element("small", { class: "score" }, `score ${score.toFixed(2).replace("-", "−")}`);
    $("pair").children[source === target ? 0 : 1].lastChild.append(" ", said);
  }
}

function showControls() {
  const { example, kind } = state;
  $("chooser").hidden = store.examples.length < 2;
  const short = (text) => (text.length > 70 ? `${text.slice(0, 69)}…` : text);
  options($("example"), store.examples.map((each, i) => [i, `${i + 1}. ${short(each.source)}`]), example);
  const layers = store.layers(example, kind);
  options($("layer"), state.head === "all" ? [["all", "all"]] : layers.map((each) => [each, each]), state.layer);
  $("layer").disabled = state.head === "all";
  const heads = store.heads(example, kind, state.layer);
  const named = Array.from({ length: heads }, (_, i) => [i, i + 1]);
  options($("head"), [...named, ["mean", "mean of heads"], ["all", "mean of layers and heads"]], state.head);
  const tabs = $("kinds");
  const kinds = store.kinds(example);
  if (tabs.children.length !== kinds.length || [...tabs.children].some((tab, i) => tab.dataset.kind !== kinds[i])) {
    tabs.replaceChildren(
      ...kinds.map((each) => {
        const tab = element("button", { type: "button", role: "tab", "data-kind": each, "aria-controls": "panel" });
        const [first, rest] = each === "cross" ? ["Cross", "-attention"] : [KIND_NAMES[each].split(" ")[0], " self-attention"];
        tab.append(first, element("span", { class: "wide" }, rest));
        return tab;
      }),
    );
  }
  for (const tab of tabs.children) {
    tab.setAttribute("aria-selected", String(tab.dataset.kind === kind));
    tab.tabIndex = tab.dataset.kind === kind ? 0 : -1;
  }
  for (const name of Object.keys(SEGMENTS)) {
    for (const input of $(name).querySelectorAll("input")) input.checked = input.value === state[name];
  }
}

function applyTheme() {
  const theme = state.theme ?? (systemDark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  $("theme-name").textContent = theme === "dark" ? "Light" : "Dark";
  palette = buildPalette(payload.palette, theme, rgb(style("--zero")));
}

// ---- the cursor ----

const cursor = () => state.locked ?? hovered;

function point(found) {
  if (state.locked) return;
  if (hovered?.row === found?.row && hovered?.column === found?.column && Boolean(hovered) === Boolean(found)) return;
  hovered = found;
  showCursor(false);
}

function choose(found) {
  const same = state.locked && state.locked.row === found.row && state.locked.column === found.column;
  state.locked = same ? null : found;
  hovered = same ? found : null;
  showCursor(false);
  writeHash();
}

function release() {
  state.locked = null;
  hovered = null;
  showCursor(false);
  writeHash();
}

function showCursor(follow) {
  const { matrix, scale, gold } = current;
  const at = cursor();
  views[state.view].point(at, follow && state.locked !== null);
  $("readout").classList.toggle("locked", state.locked !== null);
  $("readout").textContent = readOut(matrix, at);
  const isGold = (row, column) => gold.some(([i, j]) => i === row && j === column);
  drawBars($("bars-name"), $("bars"), matrix, at, scale, isGold);
}

function readOut(matrix, at) {
  if (at) return readCell(matrix, at);
  return state.view === "table" ? "Every number is a raw weight." : "Point at a cell or a word; click to keep it.";
}

// ---- what the reader does ----

function update(changes) {
  const before = { ...state };
  Object.assign(state, changes);
  hovered = null;
  if (state.example !== before.example || state.kind !== before.kind) state.locked = null;
  else if (state.unit !== before.unit && state.locked) state.locked = translate(state.locked, state.unit);
  render();
}

/** The same place after words became subwords or the other way round. */
function translate({ row, column }, unit) {
  const { queries, keys } = store.kind(state.example, state.kind);
  const moved = (index, side) => {
    if (index === null) return null;
    return unit === "words" ? wordOf(side.starts, side.tokens.length)[index] : side.starts[index];
  };
  return { row: moved(row, queries), column: moved(column, keys) };
}

function moveCell(down, right) {
  const { matrix } = current;
  const at = cursor();
  const start = at ? { row: at.row ?? 0, column: at.column ?? 0 } : null;
  state.locked = start
    ? {
        row: clamp(start.row + down, 0, matrix.rows - 1),
        column: clamp(start.column + right, 0, matrix.columns - 1),
      }
    : { row: 0, column: 0 };
  showCursor(true);
  writeHash();
}

function moveHead(by) {
  const heads = store.heads(state.example, state.kind, state.layer);
  const order = [...Array(heads).keys(), "mean", "all"];
  const next = order.indexOf(state.head) + by;
  update({ head: order[(next + order.length) % order.length] });
}

function moveLayer(by) {
  const layers = store.layers(state.example, state.kind);
  if (state.head === "all") return update({ head: "mean" });
  const next = clamp(layers.indexOf(state.layer) + by, 0, layers.length - 1);
  update({ layer: layers[next] });
}

function cycle(name) {
  const values = SEGMENTS[name].map(([value]) => value);
  update({ [name]: values[(values.indexOf(state[name]) + 1) % values.length] });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const inControl = event.target.closest?.("select, input, [role=tab]");
  const arrows = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key in arrows) {
    if (inControl || state.view === "table") return;
    moveCell(...arrows[event.key]);
    event.preventDefault();
    return;
  }
  if (event.target.closest?.("select")) return;
  const keys = {
    Escape: release,
    "[": () => moveHead(-1),
    "]": () => moveHead(1),
    ",": () => moveLayer(-1),
    ".": () => moveLayer(1),
    w: () => cycle("unit"),
    v: () => cycle("view"),
    s: () => cycle("scale"),
    "?": () => $("help").showModal(),
  };
  if (event.key in keys) {
    keys[event.key]();
    event.preventDefault();
  }
}

function start() {
  buildSegments(SEGMENTS, SPOKEN);
  readHash();
  $("example").addEventListener("change", (event) => update({ example: Number(event.target.value) }));
  $("layer").addEventListener("change", (event) => update({ layer: Number(event.target.value) }));
  $("head").addEventListener("change", (event) => {
    const { value } = event.target;
    update({ head: /^\d+$/.test(value) ? Number(value) : value });
  });
  for (const name of Object.keys(SEGMENTS)) {
    $(name).addEventListener("change", (event) => update({ [name]: event.target.value }));
  }
  $("kinds").addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) update({ kind: tab.dataset.kind });
  });
  $("kinds").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const tabs = [...$("kinds").children];
    const next = tabs[(tabs.findIndex((tab) => tab.dataset.kind === state.kind) + step + tabs.length) % tabs.length];
    update({ kind: next.dataset.kind });
    next.focus();
    event.preventDefault();
  });
  $("theme").addEventListener("click", () => {
    update({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
  });
  $("help-open").addEventListener("click", () => $("help").showModal());
  document.addEventListener("keydown", onKey);
  systemDark.addEventListener("change", render);
  window.addEventListener("hashchange", () => {
    readHash();
    render();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) render();
    width = window.innerWidth;
  });
  render();
  document.documentElement.dataset.ready = "true";
}

start();
