// One state, kept in the address: whoever opens the link sees the same.

const DEFAULTS = {
  model: null, // the first one served
  text: "", // empty: an example that suits the model
  target: "",
  hypothesis: 0,
  forced: [],
  kind: "cross",
  layer: null, // the last: the one nearest to the output
  head: "mean",
  view: null, // what suits the attention best
  unit: "words",
  scale: "sqrt",
  theme: null, // as the system likes it
  query: null, // the cell that is kept
  key: null,
  panel: "steps",
  step: 0,
  place: null, // of the next token
  temperature: 1,
  top_p: 1,
  beams: 4,
  off: {}, // heads by the names of their attentions
  instead: "zero", // what they read then
  grid: "pictures", // what is shown of every head
  sink: null, // whether the first token of a long text stands apart: as it deserves
  attention: null, // of a document or a memory: the one whose steps are told
  sentence: 0, // of the document
  time: 0, // of the memory
  reader: 0, // the head of the memory, and what it should have wished: as it did
  strength: null,
  gate: null,
  sharpness: null,
};

const state = structuredClone(DEFAULTS);

const WHOLE = ["hypothesis", "layer", "query", "key", "step", "place", "beams", "sentence", "time", "reader"];
const REAL = { temperature: [0.01, 10], top_p: [0.01, 1], strength: [0, 1000], gate: [0, 1], sharpness: [1, 1000] };
const NO_WISHES = { strength: null, gate: null, sharpness: null };
const NO_PLACE = { query: null, key: null, place: null, sentence: 0, time: 0, reader: 0, ...NO_WISHES };

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) {
    const text = given.get(name);
    state[name] = text === null ? structuredClone(DEFAULTS[name]) : parseState(name, text);
  }
}

function parseState(name, text) {
  if (WHOLE.includes(name)) return /^\d{1,6}$/.test(text) ? Number(text) : DEFAULTS[name];
  if (name in REAL) return text.trim() && Number.isFinite(Number(text)) ? clamp(Number(text), ...REAL[name]) : DEFAULTS[name];
  if (name === "head") return /^\d+$/.test(text) ? Number(text) - 1 : text;
  if (name === "forced") return text.split(".").filter((part) => /^\d+$/.test(part)).map(Number);
  if (name === "off") return parseOff(text);
  if (name === "instead") return text === "mean" ? text : "zero";
  return text;
}

/** `decoder.layers.0.cross_attention:0.3;...` */
function parseOff(text) {
  const off = {};
  for (const part of text.split(";")) {
    const [name, heads] = part.split(":");
    if (name && heads) off[name] = heads.split(".").filter((head) => /^\d+$/.test(head)).map(Number);
  }
  return off;
}

function sayState(name, value) {
  if (name === "head") return typeof value === "number" ? String(value + 1) : value;
  if (name === "forced") return value.join(".");
  if (name === "off") return Object.entries(value).map(([each, heads]) => `${each}:${heads.join(".")}`).join(";");
  return String(value);
}

const HASH_EVERY = 400; // milliseconds: Safari throws after 100 changes of the address in 30 seconds
let hashTimer = null;
let hashIsOld = false;

/** Write the state into the address: the first change at once, those that follow fast together. */
function writeHash() {
  hashIsOld = true;
  if (hashTimer === null) flushHash();
}

function flushHash() {
  clearTimeout(hashTimer);
  hashTimer = null;
  if (!hashIsOld) return;
  hashIsOld = false;
  hashTimer = setTimeout(flushHash, HASH_EVERY);
  try {
    history.replaceState(null, "", `#${hashOfState()}`);
  } catch {
    // The address then lags behind, and nothing else: the next change writes all of the state.
  }
}

function hashOfState() {
  const told = new URLSearchParams();
  for (const [name, usual] of Object.entries(DEFAULTS)) {
    const value = state[name];
    if (value === null || JSON.stringify(value) === JSON.stringify(usual)) continue;
    told.set(name, sayState(name, value));
  }
  return told;
}
