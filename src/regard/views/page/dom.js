// Small helpers to make and find parts of the document.

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function quoted(text) {
  return element("q", {}, text);
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value, false, String(value) === String(chosen))));
}

/** Radio buttons that look like one bar, a bar for each name: [[value, text], ...]. */
function buildSegments(bars, spoken) {
  for (const [name, pairs] of Object.entries(bars)) {
    for (const [value, text] of pairs) {
      const input = element("input", { type: "radio", name, value, id: `${name}-${value}` });
      if (spoken[value]) input.setAttribute("aria-label", spoken[value]);
      $(name).append(input, element("label", { for: input.id, title: spoken[value] ?? text }, text));
    }
  }
}
