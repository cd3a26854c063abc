// An example is asked for, and what came of it is said.

const api = new Api();
let models = [];
let source = null;
let shownPicture = null; // what a picture's attention lies over
let imageFile = null; // base64 of what the reader chose
let runs = 0;

function request() {
  const body = { model: state.model };
  if (state.text.trim()) body.text = state.text;
  if (state.target.trim()) body.target = state.target;
  if (imageFile) body.image = imageFile;
  const compared = givenExamples();
  if (Object.keys(compared).length) body.examples = compared;
  if (state.hypothesis) body.hypothesis = state.hypothesis;
  if (state.forced.length) body.forced = state.forced;
  return body;
}

async function run() {
  const mine = ++runs;
  const late = () => mine !== runs; // another example was asked for in the meantime
  busy(true);
  try {
    const body = request();
    const told = await api.ask("look", body);
    const next = new Source(api, told);
    const picture = await pictureOf(next);
    if (late()) return;
    api.renew = () => api.send("POST", "look", body, false);
    source = next;
    shownPicture = picture;
    forgetDrawn();
    forgetMeasured();
    if (told.text) state.text = told.text;
    settle();
    showAsked();
    showExamples();
    showSaid();
    await Promise.all([render(), renderPanel()]);
    if (!late()) trouble(null);
  } catch (error) {
    if (!late()) trouble(error);
  } finally {
    if (!late()) {
      busy(false);
      document.documentElement.dataset.ready = "true";
    }
  }
}

async function pictureOf(example) {
  if (!example.kinds().some((kind) => example.sides(kind).grid)) return null;
  const image = new Image();
  image.src = URL.createObjectURL(await example.blob("picture"));
  await image.decode();
  return image;
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
    parts.push(hypotheses(told));
  }
  $("said").replaceChildren(...parts);
}

/** The best translations side by side; the one that is chosen is looked at. */
function hypotheses({ nbest, hypothesis }) {
  const list = element("ol", { class: "nbest", id: "nbest", "aria-label": "hypotheses, the best first" });
  nbest.forEach((each, i) => {
    const button = element("button", { type: "button", "aria-pressed": String(i === hypothesis), dir: "auto" }, each.text || "(nothing)", element("small", {}, tidy(each.score)));
    button.addEventListener("click", () => rerun({ hypothesis: i }));
    list.append(element("li", {}, button));
  });
  return list;
}

function readFile(file) {
  return new Promise((known, failed) => {
    const reader = new FileReader();
    reader.onload = () => known(reader.result.split(",")[1]);
    reader.onerror = () => failed(new Trouble(0, "the picture cannot be read"));
    reader.readAsDataURL(file);
  });
}
