// What a picture is compared with: a few labelled pictures of the reader's own, in the place of the letters made up here.

const FEWEST_LABELS = 2;

let examples = []; // [{label, pictures: [base64, ...]}], a line each

/** The lines that say something, as the server wants them. */
function givenExamples() {
  const found = new Map(); // two lines may have one label
  examples.forEach(({ label, pictures }, i) => {
    const name = label.trim() || `label ${i + 1}`;
    if (pictures.length) found.set(name, [...(found.get(name) ?? []), ...pictures]);
  });
  return Object.fromEntries(found);
}

function showExamples() {
  const labels = source?.told.labels;
  $("examples-field").hidden = !labels;
  if (!labels) return;
  while (examples.length < Math.min(FEWEST_LABELS, labels.most)) examples.push({ label: "", pictures: [] });
  const button = (id, text, act) => {
    const made = element("button", { type: "button", class: "quiet", id }, text);
    made.addEventListener("click", act);
    return made;
  };
  const more = button("more-labels", "Another label", () => {
    examples.push({ label: "", pictures: [] });
    showExamples();
  });
  more.disabled = examples.length >= labels.most;
  const letters = button("letters", "Letters again", () => {
    examples = [];
    rerun({});
  });
  letters.disabled = !labels.own;
  $("examples").replaceChildren(
    element("p", { class: "axis" }, `Pictures of ${FEWEST_LABELS} to ${labels.most} labels, a few of each; then press Run. They stay in this page: a link does not carry them.`),
    ...examples.map(exampleLine),
    element("div", { class: "choices tight" }, more, letters),
  );
}

function exampleLine(example, i) {
  const name = element("input", { id: `label-${i}`, placeholder: `label ${i + 1}`, "aria-label": `name of label ${i + 1}`, maxlength: 60 });
  name.value = example.label;
  name.addEventListener("input", () => (example.label = name.value));
  const files = element("input", { id: `examples-${i}`, type: "file", multiple: "", accept: "image/*", "aria-label": `pictures of label ${i + 1}` });
  const count = element("span", { class: "axis", role: "status" });
  const tell = () => (count.textContent = example.pictures.length ? `${example.pictures.length} given` : "");
  files.addEventListener("change", () => {
    const take = (pictures) => {
      example.pictures = pictures;
      tell();
    };
    Promise.all([...files.files].map(readFile)).then(take, trouble);
  });
  tell();
  return element("div", { class: "example-line" }, name, files, count);
}
