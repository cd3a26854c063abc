// A head of a memory (Graves et al. 2014): its wishes can be changed, and all that follows is computed in the page.

const FAINTEST = 1e-30; // a weight below it counts as none, as on the server

/** From likeness to weights, equations 5 to 9: by content, gated, shifted along the ring, sharpened. */
function addressed({ cosine, before, shifts }, { strength, gate, sharpness }) {
  const shares = (numbers) => {
    const sum = numbers.reduce((a, b) => a + b, 0);
    return numbers.map((number) => number / sum);
  };
  const top = strength * Math.max(...cosine);
  const content = shares(cosine.map((likeness) => Math.exp(strength * likeness - top)));
  const gated = content.map((weight, i) => gate * weight + (1 - gate) * before[i]);
  const reach = Math.floor(shifts.length / 2);
  const count = gated.length;
  const shifted = gated.map((_, i) =>
    shifts.reduce((sum, share, k) => sum + share * gated[(((i - (k - reach)) % count) + count) % count], 0));
  const largest = Math.max(...shifted, FAINTEST);
  const weights = shares(shifted.map((weight) => (Math.max(weight, FAINTEST) / largest) ** sharpness));
  return { content, gated, shifted, weights };
}

const STAGES = {
  content: ["w_c = softmax(β K[k, M(i)])", "by content"],
  gated: ["w_g = g w_c + (1 − g) w_{t−1}", "gated with where the head was"],
  shifted: ["w̃(i) = Σ_j w_g(j) s(i − j)", "moved along the ring"],
  weights: ["w(i) = w̃(i)^γ / Σ_j w̃(j)^γ", "sharpened: where the head looks"],
};

/** Sliders for strength, gate and sharpness, and where the head would look then; what is not `wished` is the model's. */
function addressingSliders(told, wished, onWish) {
  const own = { strength: told.strength, gate: told.gate, sharpness: told.sharpness };
  const wishes = Object.fromEntries(Object.keys(own).map((name) => [name, wished[name] ?? own[name]]));
  const rows = Object.entries(STAGES).map(([name, [text, about]]) => {
    const canvas = element("canvas", { role: "img", class: "cells-bars" });
    return { name, canvas, line: element("div", { class: "address" }, element("div", {}, formula(text), element("p", { class: "axis" }, about)), canvas) };
  });
  const verdict = element("p", { class: "verdict", id: "addressed" });
  const show = () => {
    const found = addressed(told, wishes);
    for (const { name, canvas } of rows) cellBars(canvas, found[name], told[name], `${name} of ${found[name].length} cells`);
    const isOwn = Object.keys(own).every((name) => wishes[name] === own[name]);
    const away = Math.max(...found.weights.map((weight, i) => Math.abs(weight - told.weights[i])));
    const best = found.weights.indexOf(Math.max(...found.weights));
    verdict.className = `verdict ${isOwn && away > 1e-6 ? "wrong" : "right"}`;
    verdict.textContent = isOwn
      ? `${away > 1e-6 ? "✗ differs from" : "✓ matches"} the model, difference ${away.toExponential(1)}`
      : `Most at cell ${best + 1}: ${say(found.weights[best])} (the model: ${say(told.weights[best])})`;
  };
  const sliders = [
    rangeField("strength", "Strength β", wishes.strength, 0, Math.max(20, 2 * own.strength, wishes.strength)),
    rangeField("gate", "Gate g", wishes.gate, 0, 1),
    rangeField("sharpness", "Sharpness γ", wishes.sharpness, 1, Math.max(20, 2 * own.sharpness, wishes.sharpness)),
  ];
  for (const { input, output } of sliders) {
    input.addEventListener("input", () => {
      wishes[input.id] = Number(input.value);
      output.textContent = tidy(wishes[input.id]);
      show();
      onWish({ [input.id]: wishes[input.id] });
    });
  }
  const back = element("button", { type: "button", class: "quiet" }, "As the model wished");
  back.addEventListener("click", () => {
    Object.assign(wishes, own);
    for (const { input, output } of sliders) {
      input.value = own[input.id];
      output.textContent = tidy(own[input.id]);
    }
    show();
    onWish(NO_WISHES);
  });
  show();
  return element(
    "section", { class: "addressing" },
    element("h3", {}, "What if the head had wished otherwise?"),
    element("div", { class: "sliders" }, ...sliders.map((each) => each.field), back),
    ...rows.map((each) => each.line),
    element("p", { class: "axis" }, "A bar for each cell; the marks are the model’s own."),
    verdict,
  );
}

function rangeField(id, label, value, min, max) {
  const input = element("input", { type: "range", id, min, max, step: "any" });
  input.value = value;
  const output = element("output", { for: id }, tidy(value));
  return { input, output, field: element("div", { class: "field" }, element("label", { for: id }, label), input, output) };
}

function cellBars(canvas, numbers, own, label) {
  const [width, height] = [520, 44];
  const context = sharpen(canvas, width, height);
  const wide = width / numbers.length;
  const most = Math.max(...numbers, ...own, 1e-9);
  const bar = wide - (wide > 3 ? 1 : 0);
  const top = (number) => height - (number / most) * (height - 2);
  context.fillStyle = style("--accent");
  numbers.forEach((number, i) => context.fillRect(i * wide, top(number), bar, height));
  context.fillStyle = style("--gold");
  own.forEach((number, i) => context.fillRect(i * wide, top(number) - 1, bar, 2));
  canvas.setAttribute("aria-label", `${label}; the largest is ${say(Math.max(...numbers))}`);
}
