// The page: what is asked, what is shown, and what the reader does.

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
const PANELS = {
  steps: "Step by step",
  next: "Next token",
  beam: "Beam search",
  whatif: "What if",
  lens: "Layer by layer",
  positions: "Positions",
  mix: "ELMo’s mix",
};
const LONG_UNIT = { unit: "subwords" }; // of long texts every token is a cell

const api = new Api();
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
let models = [];
let source = null;
let palette = null;
let current = null; // what is drawn: {matrix, scale}, of a long text without a matrix
let hovered = null;
let shownPicture = null; // the text and image that were given, for a picture
let imageFile = null; // base64 of what the reader chose
let turn = 0; // of drawing: an answer that comes late is not drawn
let panelTurn = 0;
let story = { attention: null, row: 0, query: 0, head: 0 }; // of models without maps

const views = {
  matrix: new MatrixView($("drawing"), point, choose),
  lines: new LinesView($("drawing"), point, choose),
  image: new PictureView($("drawing"), point, choose),
  table: new TableView($("drawing")),
  reading: { point() {} },
};
const far = new TiledView($("drawing"), point, choose);
const overview = new Overview($("overview"), (layer, head) => update({ layer, head }));
const panels = {
  steps: new StepsPanel($("panel"), (step) => updatePanel({ step })),
  next: new NextPanel($("panel"), { place: (place) => updatePanel({ place }), change: changeSampling, force }),
  beam: new BeamPanel($("panel"), { beams: (beams) => updatePanel({ beams }) }),
  whatif: new WhatIfPanel($("panel"), { off: switchOff, measure }),
};

// ---- running an example ----

function request() {
  const body = { model: state.model };
  if (state.text.trim()) body.text = state.text;
  if (state.target.trim()) body.target = state.target;
  if (imageFile) body.image = imageFile;
  if (state.hypothesis) body.hypothesis = state.hypothesis;
  if (state.forced.length) body.forced = state.forced;
  return body;
}

async function run() {
  busy(true);
  try {
    const body = request();
    const told = await api.ask("look", body);
    api.renew = () => api.send("POST", "look", body, false);
    source = new Source(api, told);
    overview.drawn = null;
    hovered = null;
    worth = null;
    story = { attention: told.stories[0]?.name ?? null, row: 0, query: 0, head: 0 };
    if (told.text) state.text = told.text;
    await loadPicture();
    showAsked();
    showSaid();
    await Promise.all([render(), renderPanel()]);
    trouble(null);
  } catch (error) {
    trouble(error);
  } finally {
    busy(false);
    document.documentElement.dataset.ready = "true";
  }
}

async function loadPicture() {
  shownPicture = null;
  if (!source.kinds().some((kind) => source.sides(kind).grid)) return;
  const image = new Image();
  image.src = URL.createObjectURL(await source.blob("picture"));
  await image.decode();
  shownPicture = image;
}

function busy(isBusy) {
  $("run").disabled = isBusy;
  $("run").textContent = isBusy ? "…" : "Run";
  document.body.setAttribute("aria-busy", String(isBusy));
}

function trouble(error) {
  $("trouble").hidden = !error;
  $("trouble").textContent = error ? error.message : "";
  if (error && !(error instanceof Trouble)) throw error;
}

// ---- what was asked and what came of it ----

function showAsked() {
  const card = models.find((each) => each.name === state.model);
  const seesPictures = card?.reads === "images";
  options($("model"), models.map((each) => [each.name, `${each.name} (${each.family ?? each.kind})`]), state.model);
  $("text").value = state.text;
  $("target").value = state.target;
  $("text-field").hidden = seesPictures;
  $("image-field").hidden = !seesPictures;
  $("target-field").hidden = !["Translator", "Captioner"].includes(card?.kind);
  $("text-label").textContent = card?.kind === "LanguageModel" ? "Prompt" : card?.kind === "AlgorithmRunner" ? "Episode" : "Text";
  grow();
}

function grow() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(116, text.scrollHeight + 2)}px`;
}

function showSaid() {
  const { told } = source;
  const parts = [];
  if (told.said !== null) {
    const isText = told.tokens?.prompted && told.said;
    const said = element("p", { class: "said-text", dir: "auto" });
    if (isText) said.append(element("span", { class: "prompt" }, told.text.length > 400 ? `… ${told.text.slice(-300)}` : told.text));
    said.append(element("span", { class: "answer", id: "answer" }, told.said));
    if (told.score !== null) said.append(" ", element("small", { class: "score" }, `score ${tidy(told.score)}`));
    parts.push(said);
  }
  if (state.forced.length) {
    const free = element("button", { type: "button", class: "quiet" }, `${state.forced.length} forced token${state.forced.length > 1 ? "s" : ""}: let go`);
    free.addEventListener("click", () => rerun({ forced: [] }));
    parts.push(free);
  }
  if (told.nbest.length > 1) {
    const select = element("select", { id: "nbest", "aria-label": "hypothesis" });
    options(select, told.nbest.map((each, i) => [i, `${i + 1}. ${shorten(each.text, 70)} (${tidy(each.score)})`]), told.hypothesis);
    select.addEventListener("change", () => rerun({ hypothesis: Number(select.value) }));
    parts.push(select);
  }
  $("said").replaceChildren(...parts);
}

// ---- what is drawn ----

/** Bring the state to something this example has, whatever the address said. */
function settle() {
  const kinds = source.kinds();
  if (!kinds.length) return;
  if (!kinds.includes(state.kind)) state.kind = kinds.includes("cross") ? "cross" : kinds[0];
  const layers = source.layers(null, state.kind);
  if (!layers.includes(state.layer)) state.layer = layers.at(-1);
  const heads = source.heads(null, state.kind, state.layer);
  const long = source.isLong(state.kind);
  const named = ["mean", "all", ...(source.isSelf(state.kind) ? ["rollout"] : [])];
  const isHead = Number.isInteger(state.head) && state.head >= 0 && state.head < heads;
  if (!isHead && (long || !named.includes(state.head))) state.head = long ? 0 : "mean";
  const offered = offeredViews();
  if (!offered.includes(state.view)) state.view = offered[0];
  if (!["words", "subwords"].includes(state.unit)) state.unit = "words";
  if (!["sqrt", "linear", "log"].includes(state.scale)) state.scale = "sqrt";
  const sides = source.sides(state.kind);
  const count = (side) => (unit() === "words" ? side.words.length : side.tokens.length);
  if (state.query !== null && state.query >= count(sides.queries)) state.query = null;
  if (state.key !== null && state.key >= count(sides.keys)) state.key = null;
}

const unit = () => (source.isLong(state.kind) ? LONG_UNIT.unit : state.unit);

function offeredViews() {
  if (source.isLong(state.kind)) return ["matrix"];
  const { grid, visible } = source.sides(state.kind);
  const few = source.sides(state.kind).keys.tokens.length <= 80;
  return [...(grid && shownPicture ? ["image"] : []), "matrix", "lines", ...(visible && few ? ["reading"] : []), "table"];
}

function describeMap() {
  const kind = KIND_NAMES[state.kind];
  if (state.head === "all") return `${kind}, mean of layers and heads`;
  if (state.head === "rollout") return `${kind}, rollout through all layers`;
  return `${kind}, layer ${state.layer}, ${state.head === "mean" ? "mean of heads" : `head ${state.head + 1}`}`;
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
  showControls();
  $("map-name").textContent = describeMap();
  const { names, visible } = source.sides(state.kind);
  $("axes").textContent = `${names.queries} looks at ${names.keys}: rows are queries, columns are keys`;
  $("axes").hidden = state.view !== "matrix";
  overview.draw(source, { ...state, example: source.told.session }, palette);
  showStatistics(mine);
  if (source.isLong(state.kind)) return renderLong(mine);
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
    const entry = source.entry(state.kind, state.layer);
    const head = Number.isInteger(state.head) ? { head: state.head } : {};
    await showServed(drawing, source, { attention: entry.name, unit: unit(), triangle: true, ...head }, describeMap());
    if (mine !== turn) return;
  } else {
    const sides = source.sides(state.kind);
    views[state.view].draw(matrix, { scale, palette, gold: [], axes: names, sides, picture: shownPicture });
  }
  const said = [];
  if (state.view === "lines") said.push("Lines hold up to 70 % of what each query pays; the rest is not drawn.");
  if (visible && state.view === "matrix") said.push("Hatched: a later word cannot be looked at.");
  if (state.view === "image") said.push("The cells are those the model has; the brightest is the most attended of this query.");
  if (state.head === "rollout") said.push("Rollout multiplies (I + mean of heads) / 2 through the layers: what could have arrived, not what did.");
  $("note").replaceChildren(...said.map((text) => element("span", {}, text)));
  showCursor(state.view === "matrix");
}

async function renderLong(mine) {
  const { kind, layer, head } = state;
  const entry = source.entry(kind, layer);
  const { queries, keys, visible } = source.sides(kind);
  const { blocks } = await source.overview(kind, layer);
  if (mine !== turn) return;
  const scale = new Scale(state.scale, clamp(Math.max(...blocks[head]), 16 / entry.keys, 1));
  current = { long: true, scale, rows: entry.queries, columns: entry.keys };
  $("legend").hidden = false;
  drawLegend($("legend"), { columns: entry.keys }, scale, palette);
  $("drawing").className = "drawing far-drawing";
  describeDrawing(entry.queries, entry.keys);
  const name = `${entry.name}/${head}`;
  const tile = (level, row, column) => source.bytes("tile", { attention: entry.name, head, level, row, column });
  far.draw(
    { name, rows: entry.queries, columns: entry.keys, rowLabels: queries.tokens, columnLabels: keys.tokens, visible, tile },
    { scale, palette },
  );
  $("note").replaceChildren(element("span", {}, "A long text: drag to move, turn the wheel or press + and − to come nearer."));
  showCursor(true);
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
  $("desk").hidden = !told.stories.length;
  if (!told.stories.length) return;
  if (told.document) await showDocument($("drawing"), source, (row) => tellSentence(row));
  else await showServed($("drawing"), source, {}, `memory during ${told.text}`);
}

function tellSentence(row) {
  const words = source.told.stories.find((each) => each.rows > row && each.rows > 1) ?? source.told.stories[0];
  story = { ...story, attention: words.name, row: Math.min(row, words.rows - 1) };
  updatePanel({ panel: "steps", step: 0 });
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
  const whole = ["all", "rollout"].includes(state.head);
  options($("layer"), whole ? [["all", "all"]] : source.layers(null, kind).map((each) => [each, each]), state.layer);
  $("layer").disabled = whole;
  const heads = Array.from({ length: source.heads(null, kind, state.layer) }, (_, i) => [i, i + 1]);
  const means = source.isLong(kind) ? [] : [["mean", "mean of heads"], ["all", "mean of layers and heads"]];
  const rolled = !source.isLong(kind) && source.isSelf(kind) && source.told.views.includes("rollout") ? [["rollout", "rollout"]] : [];
  options($("head"), [...heads, ...means, ...rolled], state.head);
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
    const mine = turn;
    matrix = await source.row(state.kind, state.layer, state.head, at.row);
    if (mine !== turn || cursor()?.row !== at.row) return;
    seen = { row: 0, column: at.column };
  }
  $("readout").textContent = seen ? readCell(matrix, seen) : state.view === "table" ? "Every number is a raw weight." : "Point at a cell or a word; click to keep it.";
  drawBars($("bars-name"), $("bars"), matrix, seen, scale, () => false);
}

// ---- panels ----

function offeredPanels() {
  return Object.keys(PANELS).filter((name) => source.told.views.includes(name));
}

function showPanelTabs() {
  const offered = offeredPanels();
  if (!offered.includes(state.panel)) state.panel = offered[0] ?? "steps";
  $("below").hidden = !offered.length;
  $("panels").replaceChildren(
    ...offered.map((name) => {
      const tab = element("button", { type: "button", role: "tab", "data-panel": name, "aria-controls": "panel", "aria-selected": String(name === state.panel) }, PANELS[name]);
      tab.tabIndex = name === state.panel ? 0 : -1;
      return tab;
    }),
  );
  return offered.length > 0;
}

async function renderPanel() {
  const mine = ++panelTurn;
  if (!showPanelTabs()) return;
  writeHash();
  const late = () => mine !== panelTurn;
  try {
    await drawPanel(late);
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    if (!late()) $("panel").replaceChildren(element("p", { class: "trouble" }, error.message));
  }
}

let worth = null; // what each head is worth, once it was asked

async function drawPanel(late) {
  const { panel } = state;
  if (panel === "steps") return drawSteps(late);
  if (panel === "next") {
    const { tokens } = source.told;
    const place = clamp(state.place ?? placeOfQuery() ?? tokens.free, 0, tokens.places - 1);
    const next = await source.ask("next", { place });
    if (!late()) panels.next.draw(source.told, next, { ...state, place: next.place });
  } else if (panel === "beam") {
    const most = source.told.tokens.prompted ? 12 : undefined; // a language model would never end
    const tree = await source.ask("beam", { num_beams: state.beams, ...(most && { max_new_tokens: most }) });
    if (!late()) panels.beam.draw(tree, state.beams);
  } else if (panel === "whatif") {
    const off = Object.fromEntries(Object.entries(state.off).filter(([name, heads]) => heads.length && source.told.attentions.some((each) => each.name === name)));
    panels.whatif.draw(source, off, null, worth);
    if (!Object.keys(off).length) return;
    const result = await source.ask("whatif", { off });
    if (!late()) panels.whatif.draw(source, off, result, worth);
  } else if (panel === "lens") {
    const told = await source.ask("lens");
    if (!late()) drawLens($("panel"), told);
  } else if (panel === "positions") {
    const told = await source.ask("positions");
    if (!late()) drawPositions($("panel"), told);
  } else if (panel === "mix") {
    const told = await source.ask("mix");
    if (!late()) drawMix($("panel"), told);
  }
}

/** The token a row or column of the map begins with. */
function tokenAt(side, index) {
  if (index === null) return null;
  return unit() === "words" ? side.starts[index] : index;
}

function placeOfQuery() {
  if (!source.kinds().length || state.query === null || state.kind === "encoder") return null;
  return tokenAt(source.sides(state.kind).queries, state.query);
}

async function drawSteps(late) {
  if (!source.kinds().length) return drawStory(late);
  const { queries, keys } = source.sides(state.kind);
  const entry = source.entry(state.kind, state.layer);
  if (source.isLong(state.kind) && state.query === null) {
    // The whole text would be read once more: only for somebody who wants to know.
    return $("panel").replaceChildren(element("p", { class: "axis" }, "Click a cell of the map: its query is then followed step by step."));
  }
  const query = tokenAt(queries, state.query) ?? (state.kind === "decoder" ? entry.queries - 1 : 0);
  const head = Number.isInteger(state.head) ? state.head : 0;
  const told = await source.ask("steps", { attention: entry.name, query, head });
  if (late()) return;
  const chips = element("div", { class: "chips", role: "group", "aria-label": "query" });
  const first = Math.max(0, Math.min(query - 16, queries.tokens.length - 32));
  for (let i = first; i < Math.min(queries.tokens.length, first + 32); i++) {
    const chip = element("button", { type: "button", class: "chip", "aria-pressed": String(i === query) }, queries.tokens[i]);
    chip.addEventListener("click", () => {
      state.query = unit() === "words" ? wordOf(queries.starts, queries.tokens.length)[i] : i;
      state.key = null;
      showCursor(true);
      renderPanel();
    });
    chips.append(chip);
  }
  const which = Number.isInteger(state.head) ? "" : " A mean has no steps of its own: choose a head above to follow another.";
  const line = element("p", { class: "axis" }, `${KIND_NAMES[state.kind]}, layer ${state.layer}, head ${head + 1}: ${told.kind}.${which}`);
  const choice = element("div", {}, line, chips);
  panels.steps.draw(told, { step: state.step, choice, focus: tokenAt(keys, state.key) });
}

/** The steps of a document or a memory: chosen by lists, for there is no map to click. */
async function drawStory(late) {
  const known = source.told.stories.find((each) => each.name === story.attention);
  const told = await source.ask("steps", { attention: story.attention, query: story.query, head: story.head, row: story.row });
  if (late()) return;
  const choice = element("div", { class: "choices tight" });
  const list = (name, label, count, text) => {
    if (count < 2) return;
    const select = element("select", { id: `story-${name}` });
    options(select, Array.from({ length: count }, (_, i) => [i, text(i)]), story[name]);
    select.addEventListener("change", () => {
      story = { ...story, [name]: Number(select.value) };
      renderPanel();
    });
    choice.append(element("div", { class: "field" }, element("label", { for: select.id }, label), select));
  };
  const attention = element("select", { id: "story-attention" });
  options(attention, source.told.stories.map((each) => [each.name, each.title]), story.attention);
  attention.addEventListener("change", () => {
    story = { attention: attention.value, row: 0, query: 0, head: 0 };
    renderPanel();
  });
  choice.append(element("div", { class: "field" }, element("label", { for: attention.id }, "Attention"), attention));
  list("row", "Sentence", known.rows, (i) => i + 1);
  list("query", "Time", known.queries, (i) => i + 1);
  list("head", "Head", known.heads.length, (i) => known.heads[i]);
  panels.steps.draw(told, { step: state.step, choice, focus: null });
}

function changeSampling(name, value) {
  state[name] = value;
  panels.next.show(state.temperature, state.top_p);
  writeHash();
}

function force(id) {
  const { tokens } = source.told;
  const { place } = panels.next.next;
  rerun({ forced: [...tokens.ids.slice(tokens.free, place), id], hypothesis: 0, target: "" });
}

function switchOff(off) {
  state.off = Object.fromEntries(Object.entries(off).filter(([, heads]) => heads.length));
  renderPanel();
}

async function measure() {
  $("panel").setAttribute("aria-busy", "true");
  try {
    worth = await source.ask("importance");
  } catch (error) {
    trouble(error);
  } finally {
    $("panel").removeAttribute("aria-busy");
  }
  renderPanel();
}

// ---- what the reader does ----

function update(changes) {
  const before = { ...state };
  Object.assign(state, changes);
  hovered = null;
  if (state.kind !== before.kind) state.query = state.key = null;
  else if (state.unit !== before.unit) translateLocked(before.unit);
  render();
  if (["kind", "layer", "head", "unit"].some((name) => state[name] !== before[name]) && state.panel === "steps") renderPanel();
}

function updatePanel(changes) {
  Object.assign(state, changes);
  renderPanel();
}

function rerun(changes) {
  Object.assign(state, changes, { query: null, key: null, place: null });
  return run();
}

/** The same place after words became subwords or the other way round. */
function translateLocked() {
  const { queries, keys } = source.sides(state.kind);
  const moved = (index, side) => {
    if (index === null) return null;
    return state.unit === "words" ? wordOf(side.starts, side.tokens.length)[index] : side.starts[index];
  };
  state.query = moved(state.query, queries);
  state.key = moved(state.key, keys);
}

function moveCell(down, right) {
  const rows = current.matrix?.rows ?? current.rows;
  const columns = current.matrix?.columns ?? current.columns;
  const at = cursor();
  state.query = at ? clamp((at.row ?? 0) + down, 0, rows - 1) : 0;
  state.key = at ? clamp((at.column ?? 0) + right, 0, columns - 1) : 0;
  showCursor(true);
  writeHash();
  if (down && state.panel === "steps") renderPanel();
}

function moveHead(by) {
  const order = [...$("head").options].map((each) => (/^\d+$/.test(each.value) ? Number(each.value) : each.value));
  update({ head: order[(order.indexOf(state.head) + by + order.length) % order.length] });
}

function moveLayer(by) {
  if (["all", "rollout"].includes(state.head)) return update({ head: "mean" });
  const layers = source.layers(null, state.kind);
  update({ layer: layers[clamp(layers.indexOf(state.layer) + by, 0, layers.length - 1)] });
}

function cycle(name, values) {
  update({ [name]: values[(values.indexOf(state[name]) + 1) % values.length] });
}

let beforeTable = "matrix";

function toggleTable() {
  if (!offeredViews().includes("table")) return;
  if (state.view !== "table") beforeTable = state.view;
  update({ view: state.view === "table" ? beforeTable : "table" });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest?.("input:not([type=radio]), textarea, select") || !source) return;
  const arrows = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key in arrows) {
    if (event.target.closest?.("[role=tab], input") || !current || ["table", "reading"].includes(state.view)) return;
    moveCell(...arrows[event.key]);
    return event.preventDefault();
  }
  const maps = {
    Escape: release,
    "[": () => moveHead(-1),
    "]": () => moveHead(1),
    ",": () => moveLayer(-1),
    ".": () => moveLayer(1),
    w: () => cycle("unit", ["words", "subwords"]),
    v: () => cycle("view", offeredViews()),
    t: toggleTable,
    s: () => cycle("scale", ["sqrt", "linear", "log"]),
    ...(current?.long && { "+": () => far.zoomBy(2), "-": () => far.zoomBy(0.5), 0: () => far.all() }),
  };
  const always = {
    "?": () => $("help").showModal(),
    n: () => state.panel === "steps" && updatePanel({ step: state.step + 1 }),
    p: () => state.panel === "steps" && updatePanel({ step: Math.max(0, state.step - 1) }),
  };
  const act = always[event.key] ?? (current && maps[event.key]);
  if (!act) return;
  act();
  event.preventDefault();
}

function tabKeys(list, name, act) {
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) act(tab.dataset[name]);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const tabs = [...list.children];
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
    act(next.dataset[name]);
    list.querySelector(`[data-${name}="${next.dataset[name]}"]`).focus();
    event.preventDefault();
  });
}

async function exportAs(button) {
  const name = `${state.model}-${source.told.session.slice(0, 6)}`.replace(/[^\w.-]+/g, "-");
  if (button.dataset.panel) return exportPanel($("panel"), button.dataset.panel, `${name}-${state.panel}`);
  const { format } = button.dataset;
  const body = { format, unit: source.kinds().length ? unit() : "words", scale: state.scale === "linear" ? "linear" : "sqrt" };
  const picture = ["svg", "png"].includes(format);
  const long = source.kinds().length && source.isLong(state.kind);
  if (source.kinds().length && (picture || long) && state.view !== "image") {
    body.attention = source.entry(state.kind, state.layer).name;
    if (Number.isInteger(state.head)) body.head = state.head;
    body.triangle = state.view === "reading";
  }
  download(await source.api.blob("look/export", { session: source.told.session, ...body }), `${name}.${format}`);
}

function readFile(file) {
  return new Promise((known, failed) => {
    const reader = new FileReader();
    reader.onload = () => known(reader.result.split(",")[1]);
    reader.onerror = () => failed(new Trouble(0, "the picture cannot be read"));
    reader.readAsDataURL(file);
  });
}

function listen() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    rerun({ text: $("text").value, target: $("target").value, hypothesis: 0, forced: [] });
  });
  $("text").addEventListener("input", grow);
  $("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    $("ask").requestSubmit();
  });
  $("model").addEventListener("change", () => {
    imageFile = null;
    const same = models.find((each) => each.name === $("model").value)?.kind === models.find((each) => each.name === state.model)?.kind;
    rerun({ model: $("model").value, text: same ? $("text").value : "", target: "", hypothesis: 0, forced: [], off: {}, layer: null, head: "mean", view: null });
  });
  $("image").addEventListener("change", async () => {
    const [file] = $("image").files;
    if (!file) return;
    imageFile = await readFile(file);
    rerun({ target: "", hypothesis: 0, forced: [] });
  });
  $("layer").addEventListener("change", (event) => update({ layer: Number(event.target.value) }));
  $("head").addEventListener("change", ({ target: { value } }) => update({ head: /^\d+$/.test(value) ? Number(value) : value }));
  for (const name of Object.keys(SEGMENTS)) {
    $(name).addEventListener("change", (event) => update({ [name]: event.target.value }));
  }
  tabKeys($("kinds"), "kind", (kind) => update({ kind }));
  tabKeys($("panels"), "panel", (panel) => updatePanel({ panel }));
  $("theme").addEventListener("click", () => update({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }));
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("share").addEventListener("click", async () => {
    await navigator.clipboard?.writeText(location.href);
    $("share").textContent = "Copied";
    setTimeout(() => ($("share").textContent = "Copy link"), 1500);
  });
  $("export-items").addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    $("export-menu").open = false;
    await exportAs(button).then(() => trouble(null), trouble);
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#export-menu")) $("export-menu").open = false;
  });
  document.addEventListener("keydown", onKey);
  systemDark.addEventListener("change", () => source && render());
  window.addEventListener("hashchange", () => {
    readHash();
    state.model ??= models[0].name;
    run();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width && source) {
      far.long = null;
      render();
    }
    width = window.innerWidth;
  });
}

async function start() {
  window.addEventListener("error", (event) => (document.documentElement.dataset.errors = event.message));
  window.addEventListener("unhandledrejection", (event) => (document.documentElement.dataset.errors = String(event.reason)));
  buildSegments(SEGMENTS, SPOKEN);
  readHash();
  applyTheme();
  listen();
  try {
    ({ models } = await api.models());
  } catch (error) {
    return trouble(error);
  }
  if (!models.some((each) => each.name === state.model)) state.model = models[0].name;
  showAsked();
  await run();
}

start();
