// The board: a picture of the level, and above it a button for each cell.

class Board {
  constructor(container, { press, stroke, key, describe }) {
    this.container = container;
    this.handlers = { press, stroke, key, describe };
    this.picture = shape("svg", { "aria-hidden": "true" });
    this.grid = element("div", { role: "grid", "aria-label": "Cells of the level" });
    container.append(this.picture, this.grid);
    this.size = "";
    this.focus = [0, 0];
    this.painting = false;
    this.grid.addEventListener("pointerdown", (event) => this.begin(event));
    this.grid.addEventListener("pointermove", (event) => this.go(event));
    addEventListener("pointerup", () => (this.painting = false));
    this.grid.addEventListener("click", (event) => this.click(event));
    this.grid.addEventListener("keydown", (event) => this.keydown(event));
    this.grid.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  /** Draw a level, with the arrows of a policy and a moment of an episode. */
  show(drawing, { arrows = null, taken = new Set(), moment = null, route = [], wrong = null } = {}) {
    const { rows, columns } = drawing;
    if (this.size !== `${rows} ${columns}`) this.build(rows, columns);
    this.drawing = drawing;
    const layers = ["floors", "routes", "objects", "policy", "agents"].map((name) => shape("g", { class: name }));
    const [floors, routes, objects, policy, agents] = layers;
    floors.append(shape("rect", { width: columns, height: rows, class: "floor" }));
    drawing.cells.forEach((cells, row) =>
      cells.forEach((text, column) => {
        const x = column + 0.5, y = row + 0.5;
        if (text === "#") floors.append(shape("rect", { x: column, y: row, width: 1, height: 1, class: "wall" }));
        else if (text === "A") agents.append(moment ? label("A", x, y, { height: 0.4, kind: "pale" }) : shape("g", {}, ...agentShape(x, y)));
        else if (text !== "." && !taken.has(`${row} ${column}`)) objects.append(object(text, x, y, drawing.lotteries));
        const cell = this.grid.children[row].children[column];
        const words = `row ${row + 1}, column ${column + 1}: ${this.handlers.describe(text)}`;
        if (cell.getAttribute("aria-label") !== words) cell.setAttribute("aria-label", words);
      }),
    );
    const lines = [];
    for (let row = 1; row < rows; row++) lines.push(`M0 ${row}H${columns}`);
    for (let column = 1; column < columns; column++) lines.push(`M${column} 0V${rows}`);
    floors.append(shape("path", { d: lines.join(""), class: "lines" }));
    if (arrows) policy.append(...this.arrows(arrows));
    if (route.length > 1) routes.append(trail(route));
    if (moment) agents.append(this.agent(moment));
    if (wrong) agents.append(shape("rect", { x: wrong[1], y: wrong[0], width: 1, height: 1, class: "wrong" }));
    this.picture.replaceChildren(...layers, shape("rect", { width: columns, height: rows, class: "frame" }));
  }

  arrows(table) {
    return table.flatMap((cells, row) =>
      cells.flatMap((probabilities, column) =>
        (probabilities || []).flatMap((probability, action) =>
          probability > FAINTEST ? [arrow(column + 0.5, row + 0.5, action, probability)] : [],
        ),
      ),
    );
  }

  agent([row, column]) {
    const group = shape("g", { class: "moving" }, ...agentShape(0.5, 0.5));
    group.style.transform = `translate(${column}px, ${row}px)`;
    return group;
  }

  /** Make the buttons of a map of another size. */
  build(rows, columns) {
    this.size = `${rows} ${columns}`;
    this.picture.setAttribute("viewBox", `-0.04 -0.04 ${columns + 0.08} ${rows + 0.08}`);
    this.container.style.setProperty("--rows", rows);
    this.container.style.setProperty("--columns", columns);
    this.focus = [Math.min(this.focus[0], rows - 1), Math.min(this.focus[1], columns - 1)];
    const made = [];
    for (let row = 0; row < rows; row++) {
      const line = element("div", { role: "row" });
      for (let column = 0; column < columns; column++) {
        const isFocus = row === this.focus[0] && column === this.focus[1];
        line.append(element("button", { type: "button", role: "gridcell", "data-row": row, "data-column": column, tabindex: isFocus ? 0 : -1 }));
      }
      made.push(line);
    }
    this.grid.replaceChildren(...made);
  }

  /** Return the row and column of the cell at an event, or null. */
  place(target) {
    const cell = target instanceof Element ? target.closest("[data-row]") : null;
    return cell && this.grid.contains(cell) ? [Number(cell.dataset.row), Number(cell.dataset.column)] : null;
  }

  begin(event) {
    const place = this.place(event.target);
    this.pressed = false;
    if (!place || event.pointerType === "touch" || event.button > 2) return;
    this.pressed = this.painting = true;
    this.last = place.join(" ");
    this.handlers.press(...place, event.button !== 0 || event.shiftKey);
  }

  go(event) {
    if (!this.painting) return;
    const place = this.place(document.elementFromPoint(event.clientX, event.clientY));
    if (!place || place.join(" ") === this.last) return;
    this.last = place.join(" ");
    this.handlers.stroke(...place);
  }

  click(event) {
    const place = this.place(event.target), hasPainted = this.pressed; // a mouse paints when it is pressed
    this.pressed = false;
    if (!place) return;
    this.move(...place);
    if (!hasPainted) this.handlers.press(...place, event.shiftKey);
  }

  /** Move the focus to a cell. */
  move(row, column) {
    const [before, beside] = this.focus;
    this.grid.children[before].children[beside].tabIndex = -1;
    this.focus = [row, column];
    const cell = this.grid.children[row].children[column];
    cell.tabIndex = 0;
    cell.focus();
  }

  keydown(event) {
    const place = this.place(event.target);
    if (!place || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowUp: 0, ArrowDown: 1, ArrowLeft: 2, ArrowRight: 3 }[event.key];
    if (step !== undefined) {
      const row = place[0] + STEPS[step][0], column = place[1] + STEPS[step][1];
      if (row >= 0 && column >= 0 && row < this.drawing.rows && column < this.drawing.columns) this.move(row, column);
    } else if (!this.handlers.key(...place, event.key)) return;
    event.preventDefault();
  }
}
