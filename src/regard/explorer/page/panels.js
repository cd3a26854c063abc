// The panels below the map: why, what if, and what else there is to see.

const PANELS = {
  steps: "Step by step",
  next: "Next token",
  beam: "Beam search",
  whatif: "What if",
  through: "Through the layers",
  lens: "Layer by layer",
  positions: "Positions",
  mix: "ELMo’s mix",
};

let panelTurn = 0;
let worth = null; // what each head is worth, once it was asked
let measureTurn = 0;

const panels = {
  steps: new StepsPanel($("panel"), (step) => updatePanel({ step })),
  next: new NextPanel($("panel"), { place: (place) => updatePanel({ place }), change: changeSampling, force }),
  beam: new BeamPanel($("panel"), { beams: (beams) => updatePanel({ beams }), align }),
  whatif: new WhatIfPanel($("panel"), { off: switchOff, instead: changeInstead, measure, stop: stopMeasuring }),
};

function forgetMeasured() {
  measureTurn += 1;
  worth = null;
}

function offeredPanels() {
  const stacks = source.kinds().some((kind) => source.throughs(kind).length > 1);
  return Object.keys(PANELS).filter((name) => (name === "through" ? stacks : source.told.views.includes(name)));
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
    if (error instanceof Unwanted) return late() || renderPanel();
    if (!late()) $("panel").replaceChildren(element("p", { class: "trouble" }, error.message));
  }
}

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
    const shown = { off, instead: state.instead, worth };
    panels.whatif.draw(source, { ...shown, result: null });
    if (!Object.keys(off).length) return;
    const result = await source.ask("whatif", { off, instead: state.instead });
    if (!late()) panels.whatif.draw(source, { ...shown, result });
  } else if (panel === "through") {
    await drawThrough($("panel"), late);
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
  const told = await source.ask("steps", { attention: entry.name, query, head }, { wanted: () => !late() });
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

/** The attention of a document or a memory whose steps are told, and at which place. */
function story() {
  const { stories } = source.told;
  const known = stories.find((each) => each.name === state.attention) ?? stories[0];
  const row = clamp(state.sentence, 0, known.rows - 1);
  const query = clamp(state.time, 0, known.queries - 1);
  return { known, row, query, head: clamp(state.reader, 0, known.heads.length - 1) };
}

/** The steps of a document or a memory: chosen by lists, for there is no map to click. */
async function drawStory(late) {
  const { known, row, query, head } = story();
  const attention = known.name;
  const told = await source.ask("steps", { attention, query, head, row });
  if (late()) return;
  const choice = element("div", { class: "choices tight" });
  const list = (name, label, pairs, chosen, change) => {
    const select = element("select", { id: `story-${name}` });
    options(select, pairs, chosen);
    select.addEventListener("change", () => updatePanel({ ...NO_WISHES, ...change(select.value) }));
    choice.append(element("div", { class: "field" }, element("label", { for: select.id }, label), select));
  };
  const numbered = (count) => Array.from({ length: count }, (_, i) => [i, i + 1]);
  list("attention", "Attention", source.told.stories.map((each) => [each.name, each.title]), attention, (name) => ({ ...NO_PLACE, attention: name }));
  if (known.rows > 1) list("row", "Sentence", numbered(known.rows), row, (value) => ({ sentence: Number(value) }));
  if (known.queries > 1) list("query", "Time", numbered(known.queries), query, (value) => ({ time: Number(value) }));
  if (known.heads.length > 1) list("head", "Head", [...known.heads.entries()], head, (value) => ({ reader: Number(value) }));
  panels.steps.draw(told, { step: state.step, choice, focus: null });
  if (source.told.stage !== "memory") return;
  const wishes = await source.ask("addressing", { attention, query, head });
  if (!late()) $("panel").append(addressingSliders(wishes, state, wish));
}

/** A slider of a memory was moved: the address keeps it. */
function wish(changes) {
  Object.assign(state, changes);
  writeHash();
}

function tellSentence(row) {
  const { stories } = source.told;
  const words = stories.find((each) => each.rows > row && each.rows > 1) ?? stories[0];
  if (!words) return; // sentences that are averaged have no steps
  updatePanel({ panel: "steps", step: 0, attention: words.name, sentence: Math.min(row, words.rows - 1) });
}

/** What a search looked at when it chose the last of these tokens: in the map that is shown, if it is of that kind. */
async function align(tokens) {
  if (!source.kinds().length) throw new Trouble(0, "This model pays no attention: all it knows of its source is one vector.");
  const kind = source.kinds().includes("cross") ? "cross" : source.kinds()[0];
  const shown = kind === state.kind && !(state.head in THROUGH);
  const { name } = source.entry(kind, shown ? state.layer : source.layers(null, kind).at(-1));
  return source.ask("alignment", { tokens, attention: name, ...(shown && Number.isInteger(state.head) && { head: state.head }) });
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

function changeInstead(instead) {
  stopMeasuring();
  worth = null;
  updatePanel({ instead });
  if (state.grid === "importance") drawGrid();
}

/** One attention after the other, so that the reader sees it go on. `lines` are a data set; none: this example. */
async function measure(lines) {
  const mine = ++measureTurn;
  const names = source.told.attentions.filter((each) => each.hasHeads).map((each) => each.name);
  const found = { lines: lines.length, done: 0, all: names.length, changes: {} };
  worth = found;
  trouble(null);
  try {
    for (const attention of names) {
      showWorth();
      const told = await source.ask("importance", { attention, lines, instead: state.instead });
      if (mine !== measureTurn) return;
      Object.assign(found.changes, told.changes);
      Object.assign(found, { nll: told.nll, done: found.done + 1 });
    }
  } catch (error) {
    worth = null;
    trouble(error);
  }
  showWorth();
}

function stopMeasuring() {
  measureTurn += 1;
  if (worth) worth.all = worth.done;
}

function showWorth() {
  if (state.panel === "whatif") renderPanel();
  if (state.grid === "importance" && source.kinds().length) drawGrid();
}
