// Colours: cividis with zero at the colour of the paper, on a square-root, linear or logarithmic scale.

const DECADES = 4; // of a logarithmic scale, below the largest weight

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** 256 colours, [red, green, blue] each: dark ink on light paper, light on dark. */
function buildPalette(stops, theme, paper) {
  const sample = (t) => {
    const at = clamp(t, 0, 1) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((channel, i) => channel + (stops[low + 1][i] - channel) * (at - low));
  };
  const colours = [];
  for (let i = 0; i < 256; i++) {
    const t = i / 255;
    const ink = sample(theme === "dark" ? 0.04 + 0.96 * t : 0.9 - 0.9 * t);
    // Paper gives way to ink over the first part of the scale, so that nothing looks like something only if it is.
    const cover = 1 - (1 - Math.min(1, t / (theme === "dark" ? 0.35 : 0.9))) ** 1.5;
    colours.push(paper.map((channel, k) => Math.round(channel + (ink[k] - channel) * cover)));
  }
  return colours;
}

class Scale {
  /** `top` is the weight that gets the last colour; a uniform row stays well below it. */
  constructor(name, top) {
    this.name = name;
    this.top = top;
  }

  static of(matrix, name) {
    return new Scale(name, clamp(Math.max(largest(matrix), 4 / matrix.columns), 1e-6, 1));
  }

  /** From 0 to 1. */
  position(weight) {
    const share = clamp(weight / this.top, 0, 1);
    if (this.name === "log") return clamp(1 + Math.log10(share) / DECADES, 0, 1);
    return this.name === "sqrt" ? Math.sqrt(share) : share;
  }
}

/** The matrix as a picture of one pixel per cell. */
function pixels(matrix, scale, palette) {
  const canvas = document.createElement("canvas");
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(matrix.columns, matrix.rows);
  for (let i = 0; i < matrix.values.length; i++) {
    const colour = palette[Math.round(255 * scale.position(matrix.values[i]))];
    image.data.set(colour, 4 * i);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Diagonal strokes for cells that may not be looked at, `size` in device pixels. */
function hatch(context, size) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.fillStyle = style("--mask");
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = style("--hatch");
  pen.lineWidth = Math.max(1, size / 8);
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

/** A canvas that is sharp at any device pixel ratio; drawing uses CSS pixels. */
function sharpen(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 16000 / Math.max(width, height, 1));
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(canvas.width / Math.max(width, 1), 0, 0, canvas.height / Math.max(height, 1), 0, 0);
  return context;
}

/** The bar that says which colour is which raw weight, with a mark for a row that looks everywhere alike. */
function drawLegend(place, matrix, scale, palette) {
  const width = 168;
  place.replaceChildren();
  const canvas = element("canvas", { "aria-hidden": "true" });
  const context = sharpen(canvas, width, 10);
  for (let x = 0; x < width; x++) {
    context.fillStyle = `rgb(${palette[Math.round((255 * x) / (width - 1))].join(" ")})`;
    context.fillRect(x, 0, 1.5, 10);
  }
  const uniform = 1 / matrix.columns;
  const mark = element("i", { title: `uniform: 1/${matrix.columns} = ${say(uniform)}` });
  mark.style.left = `${width * scale.position(uniform)}px`;
  const bar = element("div", { class: "legend-bar" }, canvas, mark);
  const ends = element("div", { class: "legend-ends" }, element("span", {}, "0"), element("span", {}, say(scale.top)));
  const note = element("span", { class: "legend-note" }, `│ uniform ${say(uniform)}`);
  ends.children[0].after(note);
  place.append(bar, ends);
}
