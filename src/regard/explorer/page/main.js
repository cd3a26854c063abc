// What the reader does.

function update(changes) {
  const before = { ...state };
  Object.assign(state, changes);
  hovered = null;
  if (!source) return applyTheme(); // nothing could be run yet
  if (state.kind !== before.kind) state.query = state.key = null;
  else if (state.unit !== before.unit) translateLocked(before.unit);
  redraw();
  const telling = { steps: ["kind", "layer", "head", "unit"], through: ["kind", "unit", "scale"] }[state.panel] ?? [];
  // What is painted on a canvas does not change its colours by itself.
  if (["theme", ...telling].some((name) => state[name] !== before[name])) renderPanel();
}

function updatePanel(changes) {
  Object.assign(state, changes);
  renderPanel();
}

function rerun(changes) {
  Object.assign(state, changes, NO_PLACE);
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
  if (state.head in THROUGH) return update({ head: "mean" });
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
    ...(current?.long && { "+": () => far.zoomBy(2), "-": () => far.zoomBy(0.5), 0: () => far.all(), f: () => far.sink.click() }),
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
  if (!source) return;
  const name = `${state.model}-${source.told.session.slice(0, 6)}`.replace(/[^\w.-]+/g, "-");
  if (button.dataset.panel) return exportPanel($("panel"), button.dataset.panel, `${name}-${state.panel}`);
  const { format } = button.dataset;
  const body = { format, unit: source.kinds().length ? unit() : "words", scale: state.scale === "linear" ? "linear" : "sqrt" };
  const picture = ["svg", "png"].includes(format);
  const long = source.kinds().length && source.isLong(state.kind);
  if (source.kinds().length && (picture || long) && state.view !== "image") {
    Object.assign(body, chosenMap());
    body.triangle = state.view === "reading";
  }
  download(await source.api.blob("look/export", { session: source.told.session, ...body }), `${name}.${format}`);
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
    examples = [];
    const same = models.find((each) => each.name === $("model").value)?.kind === models.find((each) => each.name === state.model)?.kind;
    rerun({ model: $("model").value, text: same ? $("text").value : "", target: "", hypothesis: 0, forced: [], off: {}, layer: null, head: "mean", view: null, attention: null });
  });
  $("image").addEventListener("change", async () => {
    const [file] = $("image").files;
    if (!file) return;
    imageFile = await readFile(file);
    rerun({ target: "", hypothesis: 0, forced: [] });
  });
  $("grid").addEventListener("change", (event) => update({ grid: event.target.value }));
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
    flushHash();
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
  systemDark.addEventListener("change", () => source && Promise.all([redraw(), renderPanel()]));
  window.addEventListener("pagehide", flushHash);
  window.addEventListener("hashchange", () => {
    hashIsOld = false; // or what was typed would be written over
    readHash();
    state.model ??= models[0].name;
    run();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width && source) {
      far.long = null;
      redraw();
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
