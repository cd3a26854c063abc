// One query of one head, stage by stage, with the numbers of this pass.

const SIGNED_TOP = "#1f6fb4";
const SIGNED_LOW = "#c2571a";

/** Numbers of a vector as a strip of colours around zero. */
function strip(numbers, most) {
  const cell = clamp(Math.floor(520 / numbers.length), 4, 18);
  const canvas = element("canvas", { "aria-hidden": "true", class: "strip" });
  const context = sharpen(canvas, cell * numbers.length, 16);
  numbers.forEach((number, i) => {
    if (number === null) return;
    context.globalAlpha = Math.sqrt(Math.min(1, Math.abs(number) / most));
    context.fillStyle = number < 0 ? SIGNED_LOW : SIGNED_TOP;
    context.fillRect(i * cell, 0, cell - (cell > 6 ? 1 : 0), 16);
  });
  canvas.title = numbers.map(number => tidy(number)).join("  ");
  return canvas;
}

/** A number with four digits that matter; −∞ for what JSON cannot say. */
function tidy(number) {
  if (number === null) return "−∞";
  if (typeof number === "boolean") return number ? "yes" : "no";
  const size = Math.abs(number);
  const text = size !== 0 && (size < 0.001 || size >= 100000) ? number.toExponential(2) : String(Number(number.toPrecision(4)));
  return text.replace("-", "−");
}

/** `a_j = e_j / Z`, with its indices below the line. */
function formula(text) {
  const line = element("p", { class: "formula" });
  for (const part of text.split(/([_^](?:\{[^}]+\}|[\p{L}\p{N}]+))/u)) {
    const index = /^[_^]/.test(part) ? part.slice(1).replace(/[{}]/g, "") : null;
    line.append(index === null ? part : element(part[0] === "_" ? "sub" : "sup", {}, index));
  }
  return line;
}

const largestOf = (numbers) => numbers.flat(2).reduce((most, each) => Math.max(most, Math.abs(Number(each) || 0)), 1e-12);

class StepsPanel {
  constructor(place, onStep) {
    this.place = place;
    this.onStep = onStep;
  }

  /** `choice` says whose story it is; `labels` are the names of the keys that are told. */
  draw(story, { step, choice, focus }) {
    const last = story.stages.length - 1;
    this.step = clamp(step, 0, last);
    const stage = story.stages[this.step];
    const list = element("ol", { class: "stage-list" });
    story.stages.forEach((each, i) => {
      const button = element("button", { type: "button", "aria-current": i === this.step ? "step" : "false" }, each.name.replaceAll("_", " "));
      button.addEventListener("click", () => this.onStep(i));
      list.append(element("li", {}, button));
    });
    const move = (by, text, label) => {
      const button = element("button", { type: "button", class: "quiet", "aria-label": label }, text);
      button.disabled = this.step + by < 0 || this.step + by > last;
      button.addEventListener("click", () => this.onStep(this.step + by));
      return button;
    };
    const exact = story.difference <= 1e-4;
    const verdict = element(
      "p",
      { class: `verdict ${exact ? "right" : "wrong"}` },
      exact ? "✓ matches the model" : "✗ differs from the model",
      `, difference ${story.difference.toExponential(1)}`,
    );
    const shown = focusOf(story, focus);
    const body = element(
      "div",
      { class: "stage-body" },
      element(
        "div",
        { class: "stage-title" },
        move(-1, "‹", "previous step"),
        element("h3", {}, `Step ${this.step + 1} of ${story.stages.length}: ${stage.name.replaceAll("_", " ")}`),
        move(1, "›", "next step"),
      ),
      formula(stage.formula),
      element("p", { class: "about" }, stage.about),
      ...substituted(story, stage, shown),
      this.numbers(story, stage, shown),
      ...left(story, stage),
      verdict,
    );
    this.place.replaceChildren(choice, element("div", { class: "steps" }, list, body));
  }

  numbers(story, stage, focus) {
    const { numbers, axes } = stage;
    const byKey = ["keys", "cells"].includes(axes[0]);
    if (axes.length === 0) return element("p", { class: "scalar" }, tidy(numbers));
    if (axes.length === 1 && !byKey) {
      return element("div", { class: "strips" }, strip(numbers, largestOf(numbers)), element("p", { class: "axis" }, numbers.slice(0, 8).map(number => tidy(number)).join("  ") + (numbers.length > 8 ? " …" : "")));
    }
    const most = largestOf(numbers);
    const rows = numbers.map((value, i) => {
      const label = element("th", { scope: "row" }, story.labels[i] ?? String(i + 1));
      const line = element("tr", i === focus ? { class: "on" } : {}, label);
      if (axes.length === 2) line.append(element("td", {}, strip(value, most)));
      else {
        const bar = element("i");
        bar.style.width = `${100 * Math.abs(Number(value) || 0) / most}%`;
        if (value < 0) bar.className = "low";
        line.append(element("td", { class: "bar-cell" }, element("span", { class: "bar" }, bar)), element("td", { class: "number" }, tidy(value)));
      }
      return line;
    });
    return element("div", { class: "scroller short" }, element("table", { class: "stage-table" }, element("tbody", {}, ...rows)));
  }
}

/** Which of the told keys is in view: the one that is kept, or the one that got most. */
function focusOf(story, key) {
  const kept = story.keys.indexOf(key);
  if (kept >= 0) return kept;
  const paid = numbersOf(story, "weights");
  return paid.indexOf(Math.max(...paid));
}

function numbersOf(story, name) {
  return story.stages.findLast((stage) => stage.name === name)?.numbers;
}

/** The formula once more, for one key, with its numbers in the place of the letters. */
function substituted(story, stage, j) {
  const at = (name) => numbersOf(story, name)?.[j];
  const sum = (numbers) => `${numbers.slice(0, 4).map((each) => `(${tidy(each)})`).join(" + ")}${numbers.length > 4 ? " + …" : ""}`;
  const products = at("products");
  const told = {
    dot: () => products && `${sum(products)} = ${tidy(stage.numbers[j])}`,
    scores: () => at("dot") !== undefined && stage.formula.includes("√") && `${tidy(at("dot"))} / √${stage.formula.split("√")[1]} = ${tidy(stage.numbers[j])}`,
    minus_max: () => `${tidy(at("scores"))} − max = ${tidy(stage.numbers[j])}`,
    exp: () => `exp(${tidy(at("minus_max"))}) = ${tidy(stage.numbers[j])}`,
    weights: () => at("exp") !== undefined && stage.formula.includes("/ Z") && `${tidy(at("exp"))} / ${tidy(numbersOf(story, "sum"))} = ${tidy(stage.numbers[j])}`,
    weighted_values: () => `${tidy(at("weights"))} · (${at("values").slice(0, 4).map(number => tidy(number)).join(", ")}, …)`,
  }[stage.name];
  const text = told?.();
  return text ? [element("p", { class: "with-numbers" }, `for ${story.labels[j]}: `, element("span", {}, text))] : [];
}

/** What of the numbers is not shown. */
function left(story, stage) {
  const said = [];
  if (["keys", "cells"].includes(stage.axes[0]) && story.keyCount > story.keys.length) {
    said.push(`the ${story.keys.length} most attended of ${story.keyCount} keys`);
  }
  const size = stage.axes.indexOf("size");
  const told = size < 0 ? 0 : size === 0 ? stage.numbers.length : (stage.numbers[0]?.length ?? 0);
  if (size >= 0 && told < stage.shape[size]) said.push(`the first ${told} of ${stage.shape[size]} numbers of each vector`);
  return said.length ? [element("p", { class: "axis" }, `Shown: ${said.join("; ")}.`)] : [];
}
