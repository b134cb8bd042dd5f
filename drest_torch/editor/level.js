// A drawn level: the texts of its cells and the lines above its map. Only the server knows whether it is a level.

const STUDY = ["title", "rewarded", "wanted", "caveat"];

class Drawing {
  constructor(record) {
    this.name = record.name;
    this.shutdown = record.shutdown;
    this.clock = record.clock || "steps";
    this.study = Object.fromEntries(STUDY.filter((key) => key in record).map((key) => [key, record[key]]));
    this.lotteries = { ...record.lotteries };
    this.cells = record.map.map((row) => row.trim().split(/\s+/));
  }

  get rows() {
    return this.cells.length;
  }

  get columns() {
    return this.cells[0].length;
  }

  /** Return the level as a line of a level set. */
  record() {
    const used = new Set(this.cells.flat());
    const lotteries = Object.entries(this.lotteries).filter(([name]) => used.has(`L${name}`));
    return {
      name: this.name,
      shutdown: this.shutdown,
      clock: this.clock,
      ...this.study,
      ...(lotteries.length ? { lotteries: Object.fromEntries(lotteries) } : {}),
      map: this.cells.map((row) => row.join(" ")),
    };
  }

  at(row, column) {
    return this.cells[row][column];
  }

  /** Put a text into a cell. The agent moves, and no other text replaces it. */
  put(row, column, text) {
    const before = this.at(row, column);
    if (before === text || before === "A") return false;
    if (text === "A") this.cells = this.cells.map((cells) => cells.map((cell) => (cell === "A" ? "." : cell)));
    this.cells[row][column] = text;
    return true;
  }

  /** Return the text of a cell for a lottery with these outcomes, which gets a name if it has none. */
  lotteryCell(text) {
    const used = new Set(this.cells.flat());
    const names = Object.keys(this.lotteries).filter((name) => used.has(`L${name}`));
    let name = names.find((known) => this.lotteries[known] === text);
    for (let code = 97; name === undefined; code++) {
      const letter = String.fromCharCode(code);
      if (!names.includes(letter)) name = letter;
    }
    this.lotteries[name] = text;
    return `L${name}`;
  }

  /** Change the numbers of rows and columns; the agent stays on the map. */
  resize(rows, columns) {
    const kept = this.cells.slice(0, rows).map((cells) => cells.slice(0, columns));
    for (const cells of kept) while (cells.length < columns) cells.push(".");
    while (kept.length < rows) kept.push(Array(columns).fill("."));
    const start = this.cells.findIndex((cells) => cells.includes("A"));
    if (start >= 0 && !kept.some((cells) => cells.includes("A"))) {
      const column = this.cells[start].indexOf("A");
      kept[Math.min(start, rows - 1)][Math.min(column, columns - 1)] = "A";
    }
    this.cells = kept;
  }

  /** Change the number of a coin or a button by one. */
  changeNumber(row, column, by) {
    const match = /^([CB])([0-9.]+)(.*)$/.exec(this.at(row, column));
    if (!match) return false;
    this.cells[row][column] = `${match[1]}${Math.max(1, Number(match[2]) + by)}${match[3]}`;
    return true;
  }
}

/** The drawings before and after this one. */
class History {
  constructor() {
    this.past = [];
    this.future = [];
  }

  add(record) {
    this.past.push(JSON.stringify(record));
    this.future = [];
  }

  /** Return the record to go back to, and remember the present one. */
  back(present) {
    return this.move(this.past, this.future, present);
  }

  forth(present) {
    return this.move(this.future, this.past, present);
  }

  move(from, to, present) {
    if (!from.length) return null;
    to.push(JSON.stringify(present));
    return JSON.parse(from.pop());
  }
}
