// One example that the server keeps: matrices as data.js knows them, fetched when they are looked at.

const DENSE = 256; // tokens of a side; longer texts are looked at through tiles
const MOST_AT_ONCE = 1 << 20; // weights the server sends in one reply
const MOST_FLOWING = 40; // tokens: a flow is computed anew for every pair
const ROWS = 16; // that are fetched together: whoever reads one of a long text reads its neighbours next
const BLOCKS_KEPT = 64; // of so many rows

// All layers at once.
const THROUGH = {
  all: {
    short: "mean of layers and heads",
    name: "mean of layers and heads",
    about: "The mean of every head of every layer.",
  },
  rollout: {
    short: "rollout",
    name: "rollout through all layers",
    about: "Rollout multiplies (I + mean of heads) / 2 through the layers: what could have arrived, not what did.",
  },
  flow: {
    short: "flow",
    name: "flow through all layers",
    about: "Flow: layers of tokens joined by pipes as wide as (I + mean of heads) / 2, and the most that can run from the top to a token. Where all can run to every token, the picture has one shade: read its numbers.",
  },
  gradient: {
    short: "gradient × attention",
    name: "gradient × attention through all layers",
    about: "Weights that raised the probability of what was said, by how much, carried through the layers; each row divided by its sum.",
  },
};

/** A map that forgets what was not used for longest. */
class Recent extends Map {
  constructor(most) {
    super();
    this.most = most;
  }

  get(name) {
    const found = super.get(name);
    if (found !== undefined) this.set(name, found);
    return found;
  }

  set(name, value) {
    this.delete(name);
    super.set(name, value);
    if (this.size > this.most) this.delete(this.keys().next().value);
    return this;
  }
}

class Source {
  constructor(api, told) {
    this.api = api;
    this.told = told;
    this.cache = new Map();
    this.rows = new Recent(BLOCKS_KEPT);
  }

  kinds() {
    const found = new Set(this.told.attentions.map((each) => each.kind));
    return Object.keys(KIND_NAMES).filter((kind) => found.has(kind));
  }

  entries(kind) {
    return this.told.attentions.filter((each) => each.kind === kind);
  }

  layers(_, kind) {
    return this.entries(kind).map((each) => each.layer);
  }

  entry(kind, layer) {
    return this.entries(kind).find((each) => each.layer === layer);
  }

  heads(_, kind, layer) {
    return this.entry(kind, layer).heads;
  }

  sides(kind) {
    return this.told.sides[kind];
  }

  isLong(kind) {
    const { queries, keys } = this.entries(kind)[0];
    return Math.max(queries, keys) > DENSE;
  }

  isSelf(kind) {
    const { queries, keys } = this.entries(kind)[0];
    return kind !== "cross" && queries === keys;
  }

  once(name, make, cache = this.cache) {
    if (!cache.has(name)) {
      const made = make();
      cache.set(name, made);
      made.catch(() => cache.delete(name));
    }
    return cache.get(name);
  }

  ask(what, body, manner) {
    return this.once(`${what} ${JSON.stringify(body ?? {})}`, () =>
      this.api.ask(`look/${what}`, { session: this.told.session, ...body }, manner),
    );
  }

  bytes(what, body, manner) {
    return this.api.bytes(`look/${what}`, { session: this.told.session, ...body }, manner);
  }

  blob(what, body) {
    return this.once(`blob ${what} ${JSON.stringify(body ?? {})}`, () =>
      this.api.blob(`look/${what}`, { session: this.told.session, ...body }),
    );
  }

  /** The maps of all layers at once that this example has. */
  throughs(kind) {
    if (this.isLong(kind)) return [];
    const { views } = this.told;
    const tokens = this.entries(kind)[0].keys;
    const flows = this.isSelf(kind) && views.includes("rollout");
    return Object.keys(THROUGH).filter((how) => ({
      all: true,
      rollout: flows,
      flow: flows && tokens <= MOST_FLOWING,
      gradient: flows && views.includes("gradient"),
    })[how]);
  }

  /** `head` is a number from 0, "mean" (of the layer's heads), or one of THROUGH. */
  matrix({ kind, layer, head, unit }) {
    const place = head in THROUGH ? [kind, head, unit] : [kind, layer, head, unit];
    return this.once(`matrix ${place}`, async () => this.shaped(kind, await this.values(kind, layer, head), unit));
  }

  shaped(kind, values, unit) {
    const { queries, keys, visible } = this.sides(kind);
    const tokens = {
      rows: queries.tokens.length,
      columns: keys.tokens.length,
      values,
      rowLabels: queries.tokens,
      columnLabels: keys.tokens,
      rowNumbers: null,
      columnNumbers: null,
      visible,
    };
    return unit === "words" ? mergeWords(tokens, queries, keys) : tokens;
  }

  async values(kind, layer, head) {
    if (head in THROUGH) return floats(await this.bytes("through", { kind, how: head }));
    const entry = this.entry(kind, layer);
    const size = entry.queries * entry.keys;
    if (entry.heads * size <= MOST_AT_ONCE) {
      const blocks = await this.blocks(entry);
      return head === "mean" ? meanOf(blocks) : blocks[head];
    }
    const one = (number) => this.once(`head ${entry.name} ${number}`, async () =>
      floats(await this.bytes("weights", { attention: entry.name, head: number })));
    return head === "mean" ? meanOf(await Promise.all([...Array(entry.heads).keys()].map(one))) : one(head);
  }

  /** One array per head. */
  blocks(entry) {
    return this.once(`blocks ${entry.name}`, async () => {
      const values = floats(await this.bytes("weights", { attention: entry.name }));
      const size = entry.queries * entry.keys;
      return Array.from({ length: entry.heads }, (_, i) => values.subarray(i * size, (i + 1) * size));
    });
  }

  /** One query of a long text, as a matrix of one row. Its neighbours are fetched too, for whoever walks on. */
  async row(kind, layer, head, query) {
    const { queries, keys, visible } = this.sides(kind);
    const { name, queries: count } = this.entry(kind, layer);
    const columns = keys.tokens.length;
    const block = (row) => this.block(name, head, row - (row % ROWS));
    const own = block(query);
    for (const next of [query - 1, query + 1]) if (next >= 0 && next < count) block(next);
    const from = (query % ROWS) * columns;
    return {
      rows: 1,
      columns,
      values: (await own).subarray(from, from + columns),
      rowLabels: [queries.tokens[query]],
      columnLabels: keys.tokens,
      rowNumbers: null,
      columnNumbers: null,
      visible: visible && [visible[query]],
    };
  }

  block(attention, head, query) {
    const fetched = async () => floats(await this.bytes("row", { attention, head, query, count: ROWS }, { soon: true }));
    return this.once([attention, head, query].join(), fetched, this.rows);
  }

  /** What each query of a long text pays to the first key and in all, and what each key receives of those that see it. */
  margins(kind, layer, head, manner) {
    const { name, queries, keys } = this.entry(kind, layer);
    const { visible } = this.sides(kind);
    return this.once(`margins ${name} ${head}`, async () => {
      const numbers = floats(await this.bytes("margins", { attention: name, head }, manner));
      const received = numbers.slice(2 * queries);
      for (let key = 0, row = 0; key < keys; key++) {
        while (visible && row < queries - 1 && visible[row] <= key) row += 1;
        received[key] /= queries - row;
      }
      return { first: numbers.subarray(0, queries), paid: numbers.subarray(queries, 2 * queries), received };
    });
  }

  /** A small picture of one head, or the mean of a layer's. */
  async thumbnail({ kind, layer, head }) {
    const { shape, blocks } = await this.overview(kind, layer);
    const values = head === "mean" ? meanOf(blocks) : blocks[head];
    return { rows: shape[1], columns: shape[2], values, visible: null };
  }

  overview(kind, layer) {
    const { name } = this.entry(kind, layer);
    return this.once(`overview ${name}`, async () => {
      const told = await this.ask("overview", { attention: name });
      const bytes = atob(told.pictures);
      const size = told.shape[1] * told.shape[2];
      const block = (head) => Float32Array.from({ length: size }, (_, i) => (bytes.charCodeAt(head * size + i) / 255) ** 2);
      return { ...told, blocks: Array.from({ length: told.shape[0] }, (_, head) => block(head)) };
    });
  }
}

const floats = (buffer) => new Float32Array(buffer);

/** The same matrix with nothing in its first column. */
function withoutFirst(values, columns) {
  return values.map((value, i) => (i % columns ? value : 0));
}
