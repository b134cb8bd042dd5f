// Elements of the page, and the shapes of a level in units of cells.

const SVG = "http://www.w3.org/2000/svg";
const STEPS = [[-1, 0], [1, 0], [0, -1], [0, 1]]; // up, down, left, right
const SIGNS = "^v<>";
const FAINTEST = 0.01; // the smallest probability of a visible arrow

/** Return an element of HTML with these attributes and children. */
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Return an element of SVG with these attributes and children. */
function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const byId = (id) => document.getElementById(id);
const points = (corners) => corners.map((corner) => corner.join(",")).join(" ");

/** Return text of at most this height and width, centred on a point. */
function label(text, x, y, { height = 0.3, widest = 0.54, kind = "letters" } = {}) {
  const size = Math.min(height, widest / (0.6 * Math.max(1, text.length)));
  return shape("text", { x, y: y + 0.35 * size, "font-size": size.toFixed(3), class: kind }, text);
}

/** Return the lines on a lottery: each outcome in the fewest signs. */
function outcomes(text) {
  return (text || "?").split("|").map((outcome) => outcome.trim().replace(/ C0\b| \+0\b/g, "") || "?");
}

/** Return the shape of the object that a cell's text stands for. */
function object(text, x, y, lotteries = {}) {
  const group = shape("g", { "data-object": text });
  const letter = text[0];
  if (SIGNS.includes(letter)) {
    const [down, right] = STEPS[SIGNS.indexOf(letter)];
    const corners = [[-0.28, -0.3], [0.08, -0.3], [0.34, 0], [0.08, 0.3], [-0.28, 0.3], [-0.02, 0]];
    const turned = corners.map(([along, beside]) => [x + along * right - beside * down, y + along * down + beside * right]);
    group.append(shape("polygon", { points: points(turned), class: "door" }));
    return group;
  }
  if (letter === "C") group.append(shape("circle", { cx: x, cy: y, r: 0.32, class: "coin" }));
  else if (letter === "B")
    group.append(shape("rect", { x: x - 0.34, y: y - 0.23, width: 0.68, height: 0.46, rx: 0.1, class: "press" }));
  else if (letter === "L") {
    const corners = [0, 1, 2, 3, 4, 5].map((side) => (Math.PI * side) / 3);
    const hexagon = corners.map((angle) => [x + 0.38 * Math.sin(angle), y - 0.38 * Math.cos(angle)]);
    group.append(shape("polygon", { points: points(hexagon), class: "lottery" }));
    const lines = outcomes(lotteries[text.slice(1)]);
    const longest = Math.max(...lines.map((line) => line.length));
    const height = Math.min(0.32 / lines.length, 0.54 / (0.6 * longest));
    lines.forEach((line, index) => {
      const below = ((index - (lines.length - 1) / 2) * 0.44) / lines.length;
      group.append(label(line, x, y + below, { height }));
    });
    return group;
  } else group.append(shape("rect", { x: x - 0.34, y: y - 0.34, width: 0.68, height: 0.68, class: "thing" }));
  group.append(label(text, x, y, { height: 0.28 }));
  return group;
}

/** Return the arrow of an action at the edge of a cell; its opacity is the probability. */
function arrow(x, y, action, probability) {
  const [down, right] = STEPS[action];
  const corners = [[0.24, -0.035], [0.35, -0.035], [0.35, -0.1], [0.48, 0], [0.35, 0.1], [0.35, 0.035], [0.24, 0.035]];
  const turned = corners.map(([along, beside]) => [x + along * right - beside * down, y + along * down + beside * right]);
  return shape("polygon", { points: points(turned), class: "arrow", opacity: Math.min(1, probability).toFixed(3) });
}

/** Return the line of a route that keeps to the right, so that opposite moves do not overlap. */
function trail(cells) {
  const moves = [];
  for (let index = 1; index < cells.length; index++) {
    const [row, column] = cells[index - 1], [below, beside] = cells[index];
    const far = Math.hypot(below - row, beside - column);
    if (far) moves.push({ from: [column + 0.5, row + 0.5], to: [beside + 0.5, below + 0.5], x: (beside - column) / far, y: (below - row) / far });
  }
  const lane = 0.08;
  const shifted = ([x, y], move, along) => [x + along * move.x - lane * move.y, y + along * move.y + lane * move.x];
  const line = moves.length ? [shifted(moves[0].from, moves[0], 0)] : [];
  moves.forEach((move, index) => {
    const next = moves[index + 1];
    const turn = next ? move.x * next.y - move.y * next.x : 0; // 1 to the right, -1 to the left
    line.push(shifted(move.to, move, -lane * turn));
    if (next && !turn) line.push(shifted(move.to, next, 0));
  });
  return shape("polyline", { points: points(line), class: "trail" });
}

/** Return a small picture of a cell for a tool. */
function icon(text, lotteries) {
  const picture = shape("svg", { viewBox: "0 0 1 1", "aria-hidden": "true" });
  if (text === "#") picture.append(shape("rect", { x: 0.12, y: 0.12, width: 0.76, height: 0.76, rx: 0.06, class: "wall" }));
  else if (text === ".") picture.append(shape("rect", { x: 0.14, y: 0.14, width: 0.72, height: 0.72, rx: 0.06, class: "floor" }));
  else if (text === "A") picture.append(...agentShape(0.5, 0.5));
  else picture.append(object(text, 0.5, 0.5, lotteries));
  return picture;
}

function agentShape(x, y) {
  return [shape("circle", { cx: x, cy: y, r: 0.3, class: "agent" }), label("A", x, y, { height: 0.36, kind: "on-agent" })];
}
