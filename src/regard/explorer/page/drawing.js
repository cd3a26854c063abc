// What is drawn of an example: one map, and every head beside it.

const VIEWS = {
  matrix: "Matrix",
  lines: "Lines",
  image: "Picture",
  reading: "Reading",
  table: "Table",
};
const SEGMENTS = {
  view: Object.entries(VIEWS),
  unit: [["words", "Words"], ["subwords", "Subwords"]],
  scale: [["sqrt", "√"], ["linear", "Linear"], ["log", "Log"]],
};
const SPOKEN = { sqrt: "square-root scale", linear: "linear scale", log: "logarithmic scale" };
const IDLE = { table: "Every number is a raw weight.", reading: "A line for each word, in bold: the words before it are shaded by what it pays to them." };
const LONG_UNIT = "subwords"; // of long texts every token is a cell
const SINK = 0.3; // a first token that gets more than this of all attention stands apart

const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
let palette = null;
let current = null; // what is drawn: {matrix, scale}, of a long text without a matrix
let hovered = null;
let turn = 0; // of drawing: an answer that comes late is not drawn
let awaited = false; // a row of a long text is on its way: wherever the cursor is by then is read next

const views = {
  matrix: new MatrixView($("drawing"), point, choose),
  lines: new LinesView($("drawing"), point, choose),
  image: new PictureView($("drawing"), point, choose),
  table: new TableView($("drawing")),
  reading: { point() {} },
};
const far = new TiledView($("drawing"), { point, choose, sink: (sink) => update({ sink }) });
const overview = new Overview($("overview"), (layer, head) => update({ layer, head }));

function forgetDrawn() {
  overview.drawn = null;
  hovered = null;
}

/** Bring the state to something this example has, whatever the address said. */
function settle() {
  const kinds = source.kinds();
  if (!kinds.length) return;
  if (!kinds.includes(state.kind)) state.kind = kinds.includes("cross") ? "cross" : kinds[0];
  const layers = source.layers(null, state.kind);
  if (!layers.includes(state.layer)) state.layer = layers.at(-1);
  const heads = source.heads(null, state.kind, state.layer);
  const long = source.isLong(state.kind);
  const named = ["mean", ...source.throughs(state.kind)];
  const isHead = Number.isInteger(state.head) && state.head >= 0 && state.head < heads;
  if (!isHead && (long || !named.includes(state.head))) state.head = long ? 0 : "mean";
  const offered = offeredViews();
  if (!offered.includes(state.view)) state.view = offered[0];
  if (!["words", "subwords"].includes(state.unit)) state.unit = "words";
  if (!["sqrt", "linear", "log"].includes(state.scale)) state.scale = "sqrt";
  if (!(state.grid in GRIDS)) state.grid = "pictures";
  const sides = source.sides(state.kind);
  const count = (side) => (unit() === "words" ? side.words.length : side.tokens.length);
  if (state.query !== null && state.query >= count(sides.queries)) state.query = null;
  if (state.key !== null && state.key >= count(sides.keys)) state.key = null;
}

const unit = () => (source.isLong(state.kind) ? LONG_UNIT : state.unit);

function offeredViews() {
  if (source.isLong(state.kind)) return ["matrix"];
  const { grid, visible } = source.sides(state.kind);
  const few = source.sides(state.kind).keys.tokens.length <= 80;
  return [...(grid && shownPicture ? ["image"] : []), "matrix", "lines", ...(visible && few ? ["reading"] : []), "table"];
}

function describeMap() {
  const kind = KIND_NAMES[state.kind];
  if (state.head in THROUGH) return `${kind}, ${THROUGH[state.head].name}`;
  return `${kind}, layer ${state.layer}, ${state.head === "mean" ? "mean of heads" : `head ${state.head + 1}`}`;
}

/** The map that is shown, as the server is asked for its picture. */
function chosenMap() {
  if (state.head in THROUGH) return { kind: state.kind, how: state.head };
  const { name } = source.entry(state.kind, state.layer);
  return { attention: name, ...(Number.isInteger(state.head) && { head: state.head }) };
}

/** Draw again, and say on the page what goes wrong; nobody waits for it. */
function redraw() {
  return render().catch((error) => error instanceof Unwanted || trouble(error));
}

async function render() {
  const mine = ++turn;
  settle();
  applyTheme();
  writeHash();
  const has = source.kinds().length > 0;
  $("controls").hidden = !has;
  $("side").hidden = !has;
  $("desk").classList.toggle("alone", !has);
  for (const name of ["map-name", "axes", "legend", "readout", "note"]) $(name).hidden = !has;
  if (!has) return renderWithoutMaps();
  $("desk").hidden = false;
  showControls();
  $("map-name").textContent = describeMap();
  const { names } = source.sides(state.kind);
  $("axes").textContent = `${names.queries} looks at ${names.keys}: rows are queries, columns are keys`;
  $("axes").hidden = state.view !== "matrix";
  const map = source.isLong(state.kind) ? renderLong(mine) : renderMap(mine);
  await Promise.all([drawGrid(), showStatistics(mine), map]);
}

async function renderMap(mine) {
  const { names, visible } = source.sides(state.kind);
  const matrix = await source.matrix({ ...state, unit: unit() });
  if (mine !== turn) return;
  const scale = Scale.of(matrix, state.scale);
  current = { matrix, scale };
  $("legend").hidden = ["table", "reading", "image"].includes(state.view);
  drawLegend($("legend"), matrix, scale, palette);
  const drawing = $("drawing");
  drawing.className = `drawing ${state.view}-drawing`;
  describeDrawing(matrix.rows, matrix.columns);
  if (state.view === "reading") {
    await showServed(drawing, source, { ...chosenMap(), unit: unit(), triangle: true }, describeMap());
    if (mine !== turn) return;
  } else {
    const sides = source.sides(state.kind);
    views[state.view].draw(matrix, { scale, palette, gold: [], axes: names, sides, picture: shownPicture });
  }
  const said = [];
  if (state.view === "lines") said.push("Lines hold up to 70 % of what each query pays; the rest is not drawn.");
  if (visible && state.view === "matrix") said.push("Hatched: a later word cannot be looked at.");
  if (state.view === "image") said.push("The cells are those the model has; the brightest is the most attended of this query.");
  if (state.head in THROUGH) said.push(THROUGH[state.head].about);
  $("note").replaceChildren(...said.map((text) => element("span", {}, text)));
  return showCursor(state.view === "matrix");
}

async function renderLong(mine) {
  const { kind, layer, head } = state;
  const entry = source.entry(kind, layer);
  const { queries, keys, visible } = source.sides(kind);
  const { blocks, shape, statistics } = await source.overview(kind, layer);
  if (mine !== turn) return;
  const apart = state.sink === null ? statistics.first[head] > SINK : state.sink === "apart";
  const preview = { rows: shape[1], columns: shape[2], values: apart ? withoutFirst(blocks[head], shape[2]) : blocks[head] };
  const scale = new Scale(state.scale, clamp(Math.max(...preview.values), 16 / entry.keys, 1));
  current = { long: true, scale, rows: entry.queries, columns: entry.keys };
  $("legend").hidden = false;
  drawLegend($("legend"), { columns: entry.keys }, scale, palette);
  $("drawing").className = "drawing far-drawing";
  describeDrawing(entry.queries, entry.keys);
  const name = `${entry.name}/${head}/${apart}`;
  const tile = (level, row, column, manner) =>
    source.bytes("tile", { attention: entry.name, head, level, row, column, apart }, manner);
  const labels = { rowLabels: queries.tokens, columnLabels: keys.tokens };
  const shown = () => [state.kind, state.layer, state.head].join() === [kind, layer, head].join();
  const margins = source.margins(kind, layer, head, { wanted: shown });
  far.draw(
    { name, rows: entry.queries, columns: entry.keys, ...labels, visible, tile, apart, preview, margins },
    { scale, palette },
  );
  $("note").replaceChildren(element("span", {}, "A long text: drag to move, turn the wheel or press + and − to come nearer."));
  return showCursor(true);
}

function describeDrawing(rows, columns) {
  const still = ["table", "reading"].includes(state.view);
  $("drawing").setAttribute("role", still ? "region" : "application");
  $("drawing").setAttribute(
    "aria-label",
    `${describeMap()}, ${rows} queries by ${columns} keys.${still ? "" : " Arrow keys move the cell; press t for all numbers."}`,
  );
}

/** Documents and memories: the stage belongs to them alone. */
async function renderWithoutMaps() {
  current = null;
  const { told } = source;
  $("drawing").className = "drawing";
  $("drawing").removeAttribute("role");
  $("desk").hidden = told.stage === null;
  if (told.stage === "document") await showDocument($("drawing"), source, (row) => tellSentence(row));
  if (told.stage === "memory") await showServed($("drawing"), source, {}, `memory during ${told.text}`);
  if (told.stage === "match") {
    await showServed($("drawing"), source, {}, "the query, its examples, and what it paid to each of them");
    if (!told.labels.own) {
      $("drawing").append(element("p", { class: "note" }, "The examples are letters made up for this page, each label in as many hands as the model has learnt to expect. Choose a picture of your own, or examples of your own, above."));
    }
  }
}

async function showStatistics(mine) {
  const { blocks, statistics, rows } = await source.overview(state.kind, state.layer);
  if (mine !== turn) return;
  if (!Number.isInteger(state.head)) return $("head-note").replaceChildren();
  const at = (name) => statistics[name][state.head];
  const all = source.entry(state.kind, state.layer).queries;
  $("head-note").textContent =
    `Head ${state.head + 1} of ${blocks.length}: entropy ${at("entropy").toFixed(2)} nats, ${percent(at("first"))} on the first token, ` +
    `${percent(at("previous"))} on the one before, mean distance ${at("distance").toFixed(1)}` +
    (rows < all ? ` (from ${rows} of ${all} rows).` : ".");
}

function showControls() {
  const { kind } = state;
  const tabs = $("kinds");
  tabs.replaceChildren(
    ...source.kinds().map((each) => {
      const tab = element("button", { type: "button", role: "tab", "data-kind": each, "aria-controls": "stage", "aria-selected": String(each === kind) });
      const [first, rest] = each === "cross" ? ["Cross", "-attention"] : [KIND_NAMES[each].split(" ")[0], " self-attention"];
      tab.append(first, element("span", { class: "wide" }, rest));
      tab.tabIndex = each === kind ? 0 : -1;
      return tab;
    }),
  );
  tabs.hidden = source.kinds().length < 2;
  const whole = state.head in THROUGH;
  options($("layer"), whole ? [["all", "all"]] : source.layers(null, kind).map((each) => [each, each]), state.layer);
  $("layer").disabled = whole;
  const heads = Array.from({ length: source.heads(null, kind, state.layer) }, (_, i) => [i, i + 1]);
  const mean = source.isLong(kind) ? [] : [["mean", "mean of heads"]];
  options($("head"), [...heads, ...mean, ...source.throughs(kind).map((how) => [how, THROUGH[how].short])], state.head);
  options($("grid"), Object.entries(GRIDS), state.grid);
  const offered = offeredViews();
  for (const name of Object.keys(SEGMENTS)) {
    for (const input of $(name).querySelectorAll("input")) {
      input.checked = input.value === (name === "unit" ? unit() : state[name]);
      const there = name !== "view" || offered.includes(input.value);
      input.disabled = !there;
      input.hidden = input.nextElementSibling.hidden = !there;
    }
  }
  $("unit").hidden = source.isLong(kind) || Boolean(source.sides(kind).grid?.first);
}

function applyTheme() {
  const theme = state.theme ?? (systemDark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  $("theme-name").textContent = theme === "dark" ? "Light" : "Dark";
  palette = buildPalette(PALETTE, theme, rgb(style("--zero")));
}

// ---- the cursor ----

const locked = () => (state.query === null && state.key === null ? null : { row: state.query, column: state.key });
const cursor = () => locked() ?? hovered;
const view = () => (current?.long ? far : views[state.view]);

function point(found) {
  if (locked() && state.view !== "image") return;
  if (hovered?.row === found?.row && hovered?.column === found?.column && Boolean(hovered) === Boolean(found)) return;
  hovered = found;
  showCursor(false);
}

function choose(found) {
  const same = state.query === found.row && state.key === found.column;
  state.query = same ? null : found.row;
  state.key = same ? null : found.column;
  hovered = same ? found : null;
  showCursor(false);
  writeHash();
  if (["steps", "next"].includes(state.panel)) renderPanel();
}

function release() {
  state.query = state.key = hovered = null;
  if (current) showCursor(false);
  writeHash();
}

async function showCursor(follow) {
  const at = cursor();
  view().point(at, follow && locked() !== null);
  $("readout").classList.toggle("locked", locked() !== null);
  let { matrix, scale } = current;
  let seen = at;
  if (current.long) {
    if (at?.row == null) {
      $("readout").textContent = "Point at a cell; click to keep it.";
      $("bars-name").textContent = "Point at a row to see where it looks";
      return $("bars").replaceChildren();
    }
    if (awaited) return;
    const mine = turn;
    awaited = true;
    matrix = await source.row(state.kind, state.layer, state.head, at.row).finally(() => (awaited = false));
    if (mine !== turn || cursor()?.row !== at.row) return current && showCursor(false);
    seen = { row: 0, column: cursor().column };
  }
  $("readout").textContent = seen ? readCell(matrix, seen) : IDLE[state.view] ?? "Point at a cell or a word; click to keep it.";
  drawBars($("bars-name"), $("bars"), matrix, seen, scale, () => false);
}

