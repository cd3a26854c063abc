// The numbers: reading the blocks page.py wrote, and the arithmetic of maps.py on them.
//
// A matrix here is {rows, columns, values, rowLabels, columnLabels, rowNumbers, columnNumbers, visible}; values are
// row by row, a row is a query, a column a key. `rowNumbers` are word numbers, or null where tokens are shown;
// `visible` says how many keys each query of a causal map may look at, or is null.

const KIND_NAMES = {
  encoder: "Encoder self-attention",
  decoder: "Decoder self-attention",
  cross: "Cross-attention",
};

const MOST_KEPT = 20e6; // weights in the cache, 80 MB

/** IEEE half precision, least significant byte first, from base64. */
function decodeHalf(text) {
  const bytes = atob(text);
  const values = new Float32Array(bytes.length / 2);
  for (let i = 0; i < values.length; i++) {
    const bits = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const size = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
    values[i] = bits & 0x8000 ? -size : size;
  }
  return values;
}

class Store {
  constructor(payload) {
    this.examples = payload.examples;
    this.cache = new Map();
    this.kept = 0;
  }

  kinds(example) {
    return Object.keys(KIND_NAMES).filter((kind) => kind in this.examples[example].kinds);
  }

  kind(example, kind) {
    return this.examples[example].kinds[kind];
  }

  layers(example, kind) {
    return this.kind(example, kind).layers.map((entry) => entry.layer);
  }

  heads(example, kind, layer) {
    return this.entry(example, kind, layer).shape[0];
  }

  entry(example, kind, layer) {
    return this.kind(example, kind).layers.find((entry) => entry.layer === layer);
  }

  /** `head` is a number from 0, "mean" (of the layer's heads) or "all" (mean of layers and heads). */
  matrix({ example, kind, layer, head, unit }) {
    const name = [example, kind, head === "all" ? "" : layer, head, unit].join("/");
    if (!this.cache.has(name)) {
      const built = this.build(example, kind, layer, head, unit);
      this.kept += built.values.length;
      if (this.kept > MOST_KEPT) {
        this.cache.clear();
        this.kept = built.values.length;
      }
      this.cache.set(name, built);
    }
    return this.cache.get(name);
  }

  /** What a thumbnail is drawn from: here every weight is known. */
  thumbnail(place) {
    return this.matrix(place);
  }

  build(example, kind, layer, head, unit) {
    const { queries, keys, visible } = this.kind(example, kind);
    const tokens = {
      rows: queries.tokens.length,
      columns: keys.tokens.length,
      values: this.tokenValues(example, kind, layer, head),
      rowLabels: queries.tokens,
      columnLabels: keys.tokens,
      rowNumbers: null,
      columnNumbers: null,
      visible,
    };
    return unit === "words" ? mergeWords(tokens, queries, keys) : tokens;
  }

  tokenValues(example, kind, layer, head) {
    if (head === "all") {
      const layers = this.layers(example, kind);
      return meanOf(layers.map((each) => this.tokenValues(example, kind, each, "mean")));
    }
    const blocks = this.blocks(example, kind, layer);
    return head === "mean" ? meanOf(blocks) : blocks[head];
  }

  /** One array per head, views of one decoded block that is kept. */
  blocks(example, kind, layer) {
    const entry = this.entry(example, kind, layer);
    if (!entry.blocks) {
      const [heads, queries, keys] = entry.shape;
      const values = decodeHalf(entry.weights);
      const size = queries * keys;
      entry.blocks = Array.from({ length: heads }, (_, i) => values.subarray(i * size, (i + 1) * size));
    }
    return entry.blocks;
  }
}

function meanOf(blocks) {
  const mean = new Float32Array(blocks[0].length);
  for (const block of blocks) for (let i = 0; i < mean.length; i++) mean[i] += block[i] / blocks.length;
  return mean;
}

/** Sum over the key's pieces, mean over the query's pieces, so rows still sum to one. */
function mergeWords(tokens, queries, keys) {
  const rowOf = wordOf(queries.starts, tokens.rows);
  const columnOf = wordOf(keys.starts, tokens.columns);
  const rows = queries.words.length;
  const columns = keys.words.length;
  const pieces = new Array(rows).fill(0);
  rowOf.forEach((word) => { pieces[word] += 1; });
  const values = new Float32Array(rows * columns);
  for (let i = 0; i < tokens.rows; i++) {
    for (let j = 0; j < tokens.columns; j++) {
      values[rowOf[i] * columns + columnOf[j]] += tokens.values[i * tokens.columns + j] / pieces[rowOf[i]];
    }
  }
  return {
    ...tokens,
    rows,
    columns,
    values,
    rowLabels: queries.words,
    columnLabels: keys.words,
    rowNumbers: queries.numbers,
    columnNumbers: keys.numbers,
    visible: tokens.visible && visibleWords(tokens.visible, queries, keys),
  };
}

/** A word sees what its last piece sees, and sees a key word as soon as it sees its first piece. */
function visibleWords(visible, queries, keys) {
  return queries.starts.map((_, word) => {
    const last = (queries.starts[word + 1] ?? visible.length) - 1;
    return keys.starts.filter((start) => start < visible[last]).length;
  });
}

/** For each token the position of its word. */
function wordOf(starts, count) {
  const found = [];
  let word = -1;
  for (let i = 0; i < count; i++) {
    if (i === starts[word + 1]) word += 1;
    found.push(word);
  }
  return found;
}

const valueAt = (matrix, row, column) => matrix.values[row * matrix.columns + column];
const allowed = (matrix, row) => (matrix.visible ? matrix.visible[row] : matrix.columns);
const maskedAt = (matrix, row, column) => column >= allowed(matrix, row);

/** 1 for the largest weight of the row; equal weights share the better rank. */
function rankAt(matrix, row, column) {
  const value = valueAt(matrix, row, column);
  let larger = 0;
  for (let j = 0; j < allowed(matrix, row); j++) if (valueAt(matrix, row, j) > value) larger += 1;
  return larger + 1;
}

/** Per query the strongest keys that together hold `share` of its mass: [[column, weight], ...]. */
function strongest(matrix, share = 0.7) {
  if (!matrix.edges) {
    matrix.edges = Array.from({ length: matrix.rows }, (_, row) => {
      const ordered = sortedRow(matrix, row);
      const enough = share * ordered.reduce((sum, [, weight]) => sum + weight, 0);
      const kept = [];
      let mass = 0;
      for (const edge of ordered) {
        if (mass >= enough || edge[1] === 0) break;
        kept.push(edge);
        mass += edge[1];
      }
      return kept;
    });
  }
  return matrix.edges;
}

function sortedRow(matrix, row) {
  const pairs = Array.from({ length: allowed(matrix, row) }, (_, column) => [column, valueAt(matrix, row, column)]);
  return pairs.sort((a, b) => b[1] - a[1]);
}

function sortedColumn(matrix, column) {
  const pairs = [];
  for (let row = 0; row < matrix.rows; row++) {
    if (!maskedAt(matrix, row, column)) pairs.push([row, valueAt(matrix, row, column)]);
  }
  return pairs.sort((a, b) => b[1] - a[1]);
}

/** What each key received, averaged over the queries that could see it. */
function received(matrix) {
  const pairs = [];
  for (let column = 0; column < matrix.columns; column++) {
    const paid = sortedColumn(matrix, column);
    pairs.push([column, paid.reduce((sum, [, weight]) => sum + weight, 0) / Math.max(1, paid.length)]);
  }
  return pairs.sort((a, b) => b[1] - a[1]);
}

function largest(matrix) {
  if (matrix.largest === undefined) matrix.largest = matrix.values.reduce((a, b) => Math.max(a, b), 0);
  return matrix.largest;
}

/** A raw weight as people read it: two digits that matter. */
function say(weight) {
  if (weight >= 0.0995) return weight.toFixed(2);
  if (weight >= 0.00095) return weight.toFixed(3);
  if (weight >= 0.00005) return weight.toFixed(4);
  return weight === 0 ? "0" : "<0.0001";
}

/** "maison → house 0.81, rank 1 of 14": what is told of a cell, or of a word alone. */
function readCell(matrix, { row, column }) {
  if (row !== null && column !== null) {
    const pair = `${matrix.rowLabels[row]} → ${matrix.columnLabels[column]}`;
    if (maskedAt(matrix, row, column)) return `${pair} masked: it comes later`;
    const rank = rankAt(matrix, row, column);
    return `${pair} ${say(valueAt(matrix, row, column))}, rank ${rank} of ${allowed(matrix, row)}`;
  }
  const list = (pairs, labels) => pairs.slice(0, 3).map(([i, weight]) => `${labels[i]} ${say(weight)}`).join(", ");
  if (row !== null) return `${matrix.rowLabels[row]} → ${list(sortedRow(matrix, row), matrix.columnLabels)}`;
  return `${matrix.columnLabels[column]} ← ${list(sortedColumn(matrix, column), matrix.rowLabels)}`;
}
