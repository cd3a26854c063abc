// The same numbers as text: a table of the map, and the bars that say where one word looks.

const WHOLE_TABLE = 1600;
const TOP = 8;

class TableView {
  constructor(place) {
    this.place = place;
  }

  draw(matrix, { axes }) {
    const whole = matrix.rows * matrix.columns <= WHOLE_TABLE;
    const table = element("table", {}, element("caption", {}, this.caption(matrix, axes, whole)));
    table.append(whole ? this.headOf(matrix.columnLabels) : this.headOf(ordinals()));
    const body = element("tbody");
    for (let row = 0; row < matrix.rows; row++) {
      const line = element("tr", {}, element("th", { scope: "row" }, matrix.rowLabels[row]));
      const cells = whole ? this.wholeRow(matrix, row) : this.topRow(matrix, row);
      line.append(...cells);
      body.append(line);
    }
    table.append(body);
    this.place.replaceChildren(element("div", { class: "scroller table" }, table));
  }

  caption(matrix, axes, whole) {
    const what = whole ? "every raw weight" : `the ${TOP} strongest keys of each of ${matrix.rows} queries`;
    return `Rows are queries (${axes.queries}), ${whole ? `columns are keys (${axes.keys}); ` : ""}${what}.`;
  }

  headOf(labels) {
    const line = element("tr", {}, element("th", { scope: "col" }, "query"));
    for (const label of labels) line.append(element("th", { scope: "col" }, label));
    return element("thead", {}, line);
  }

  wholeRow(matrix, row) {
    return matrix.columnLabels.map((_, column) =>
      maskedAt(matrix, row, column)
        ? element("td", { class: "masked", "aria-label": "masked" }, "–")
        : element("td", rankAt(matrix, row, column) === 1 ? { class: "first" } : {}, say(valueAt(matrix, row, column))),
    );
  }

  topRow(matrix, row) {
    const cells = sortedRow(matrix, row)
      .slice(0, TOP)
      .map(([column, weight]) => element("td", {}, `${matrix.columnLabels[column]} ${say(weight)}`));
    while (cells.length < TOP) cells.push(element("td", {}, ""));
    return cells;
  }

  point() {}
}

function ordinals() {
  return Array.from({ length: TOP }, (_, i) => String(i + 1));
}

/** The strongest partners of the word pointed at, or, with none, the keys looked at most. */
function drawBars(heading, list, matrix, cursor, scale, isGold) {
  let pairs;
  let labels = matrix.columnLabels;
  let gold = () => false;
  if (cursor && cursor.row !== null) {
    heading.replaceChildren("Where ", quoted(matrix.rowLabels[cursor.row]), " looks");
    pairs = sortedRow(matrix, cursor.row);
    gold = (column) => isGold(cursor.row, column);
  } else if (cursor && cursor.column !== null) {
    heading.replaceChildren("Who looks at ", quoted(matrix.columnLabels[cursor.column]));
    pairs = sortedColumn(matrix, cursor.column);
    labels = matrix.rowLabels;
    gold = (row) => isGold(row, cursor.column);
  } else {
    heading.replaceChildren("Looked at most, on average");
    pairs = received(matrix);
  }
  const most = Math.max(pairs[0]?.[1] ?? 0, 1e-9);
  list.replaceChildren(
    ...pairs.slice(0, TOP).map(([index, weight]) => {
      const bar = element("i");
      bar.style.width = `${Math.max(0.5, 100 * (weight / most))}%`;
      const name = element("span", { class: "bar-name", title: labels[index] }, element("b", {}, labels[index]));
      if (gold(index)) name.append(element("em", { title: "a gold link" }, "gold"));
      const chosen = cursor && cursor.row !== null && cursor.column === index;
      return element(
        "li",
        chosen ? { class: "on" } : {},
        name,
        element("span", { class: "bar" }, bar),
        element("span", { class: "bar-value" }, say(weight)),
      );
    }),
  );
}
