// The page: what is drawn goes to the server, and what it answers is shown.

const start = JSON.parse(byId("start").textContent);
const isStatic = "answers" in start;
let drawing = null, answer = null, wrong = null, panel = 0, setting = 0, stroke = null, waiting = false, isStale = false;
const history = new History();
const tools = new Tools(byId("tools"), start.kinds, start.texts);
const player = new Player(() => draw());
const board = new Board(byId("board"), { press, stroke: paint, key, describe: (text) => tools.describe(text) });

// ---------------------------------------------------------------- drawing

function draw() {
  if (!drawing) return;
  const { moment, route } = player.now();
  const panels = currentPolicy() ? currentPolicy().panels : [];
  let view = panel;
  if (moment && panel >= 0 && panels.length > 1) view = isPressed(moment[2]) ? 1 : 0;
  const shown = panels[view];
  for (const choice of byId("arrows").children)
    choice.classList.toggle("now", Number(choice.dataset.bits) === setting && Number(choice.dataset.view) === view);
  const taken = moment ? moment[2] : shown ? shown.taken : 0;
  const places = answer && answer.level ? answer.level.places : [];
  const gone = places.filter((_, bit) => Math.floor(taken / 2 ** bit) % 2 === 1).map((place) => place.join(" "));
  board.show(drawing, {
    arrows: shown && !wrong && isCurrent() ? shown.arrows : null,
    taken: new Set(isCurrent() ? gone : []),
    moment: isCurrent() ? moment : null,
    route: isCurrent() ? route : [],
    wrong,
  });
}

/** Return whether the answer is that to the drawn level. */
function isCurrent() {
  return !!answer && answer.sent === JSON.stringify(drawing.record());
}

/** Return whether a button or lottery is among the objects of a bit mask; coins have the lowest bits. */
function isPressed(taken) {
  const coins = answer.level.places.filter(([row, column]) => drawing.at(row, column)[0] === "C").length;
  return taken >= 2 ** coins;
}

function currentPolicy() {
  return answer && answer.results ? answer.results.policies[setting] || null : null;
}

// ---------------------------------------------------------------- edits

/** Draw with the chosen tool, or remove what it draws; a stroke continues what its first cell began. */
function press(row, column, isErasing) {
  if (!tools.chosen) return; // a page that only shows
  const text = tools.textFor(drawing);
  stroke = isErasing || (drawing.at(row, column) === text && text !== "A") ? "." : text;
  remember();
  apply(() => drawing.put(row, column, stroke));
}

function paint(row, column) {
  if (!isStatic) apply(() => drawing.put(row, column, stroke));
}

function key(row, column, name) {
  const text = { Delete: ".", Backspace: ".", a: "A", "-": -1, "−": -1, "+": 1, "=": 1, c: "C", b: "B", l: "L" }[name] || name;
  if (typeof text === "number" && isStatic) return false;
  if (typeof text === "number") return edit(() => drawing.changeNumber(row, column, text));
  if (name === "Delete" || name === "Backspace") return edit(() => drawing.put(row, column, "."));
  if (!tools.choose(text)) return false;
  return edit(() => drawing.put(row, column, tools.textFor(drawing)));
}

/** Make one change, which Undo takes back. */
function edit(change) {
  remember();
  apply(change);
  return true;
}

function remember() {
  history.add(drawing.record());
  if (isStatic) drawing = new Drawing(chosenLevel().record); // one change at a time
}

function apply(change) {
  change();
  changed();
}

function changed() {
  wrong = null;
  player.stop();
  showSettings();
  draw();
  ask();
}

function go(record) {
  if (!record) return;
  drawing = new Drawing(record);
  changed();
}

// ---------------------------------------------------------------- answers

/** Ask for the results of the drawn level; while one answer is awaited, only the last question is kept. */
async function ask(request = null) {
  if (waiting) {
    isStale = request || true;
    return;
  }
  waiting = true;
  const sent = JSON.stringify(drawing.record());
  const began = performance.now();
  byId("results").setAttribute("aria-busy", "true");
  try {
    const content = { agent: byId("agent").value, ...(request || { level: drawing.record() }) };
    const received = isStatic ? await stored(content) : await post("/evaluate", content);
    take(received, sent, request);
  } catch (error) {
    complain(isStatic ? String(error) : "the program that serves this page has ended; start it again");
  }
  document.body.dataset.milliseconds = Math.round(performance.now() - began);
  waiting = false;
  if (isStale) {
    const next = isStale === true ? null : isStale;
    isStale = false;
    ask(next);
  } else byId("results").setAttribute("aria-busy", "false");
}

async function post(path, content) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) };
  return (await fetch(path, options)).json();
}

/** Take over an answer: the level of a text, the numbers, or a sentence of what is wrong. */
function take(received, sent, request) {
  if (request && received.level) {
    remember();
    drawing = new Drawing(received.level.record);
    sent = JSON.stringify(drawing.record());
    showSettings();
  }
  if (received.level && document.activeElement !== byId("text")) byId("text").value = received.level.text;
  byId("download").disabled = byId("save").disabled = !received.level;
  if (received.error) return complain(received.error);
  if (sent !== JSON.stringify(drawing.record())) return; // another edit has followed
  byId("error").hidden = true;
  byId("results").classList.remove("old");
  wrong = null;
  byId("lengths").closest("table").hidden = false;
  answer = { ...received, sent };
  showArrows();
  showNumbers();
  player.load(received.results.episodes);
  if (!isStatic) remind();
}

function complain(sentence) {
  const place = /map row (\d+)(?:, column (\d+))?/.exec(sentence);
  wrong = place && place[2] ? [place[1] - 1, place[2] - 1] : null;
  byId("error").textContent = sentence;
  byId("error").hidden = false;
  byId("results").classList.add("old");
  byId("lengths").closest("table").hidden = !answer;
  draw();
}

function showNumbers() {
  const { results } = answer;
  showFigures(byId("figures"), results);
  const policy = results.policies.length > 1 ? results.policies[setting] : null;
  const probabilities = policy ? policy.probabilities : results.lengths.map((row) => row.probability);
  showLengths(byId("lengths"), results, probabilities, (length) => player.select(length));
  byId("basis").textContent = policy ? `${basisOf(results)} The probabilities are those with ${policy.title}.` : basisOf(results);
  const { usefulness, neutrality } = results.agent;
  byId("summary").textContent = `usefulness ${three(usefulness)}, neutrality ${three(neutrality)} bits`;
}

/** Show the views of the policy to choose from: before and after a button, with each private bit, or none. */
function showArrows() {
  const { policies } = answer.results;
  if (setting >= policies.length) setting = 0;
  const choices = policies.flatMap((policy, bits) =>
    policy.panels.map((view, index) => ({ name: [policy.title, view.title].filter(Boolean).join(", ") || "arrows", bits, index })),
  );
  if (choices.length) choices.push({ name: "no arrows", bits: setting, index: -1 });
  const last = choices.filter((choice) => choice.bits === setting && choice.index >= 0).length - 1;
  if (panel > last) panel = last;
  byId("arrows").replaceChildren(
    ...choices.map(({ name, bits, index }) => {
      const radio = element("input", { type: "radio", name: "arrows", checked: bits === setting && index === panel });
      radio.addEventListener("change", () => {
        [setting, panel] = [index < 0 ? setting : bits, index];
        showNumbers();
        player.reset();
      });
      return element("label", { "data-bits": bits, "data-view": index }, radio, element("span", {}, name));
    }),
  );
}

// ---------------------------------------------------------------- static pages

let results = null;

/** Return the answer in the file: for the level as it is, or with one changed cell. */
async function stored({ agent, level }) {
  results ||= await unpacked(start.answers);
  const chosen = chosenLevel(), before = new Drawing(chosen.record);
  const changes = [];
  drawing.cells.forEach((cells, row) => cells.forEach((text, column) => text !== before.at(row, column) && changes.push([row, column, text])));
  const moved = changes.find((change) => change[2] === "A");
  const change = moved || changes[0];
  const found = results[agent][byId("levels").value][change ? change.join(" ") : ""];
  if (!found) return { error: "this page has no results for this change; draw the level with drest play" };
  return found.error ? found : { results: found, level: { record: level, text: "", places: found.places } };
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// ---------------------------------------------------------------- settings and files

const chosenLevel = () => start.levels[byId("levels").value];

function showSettings() {
  for (const [id, value] of Object.entries({ shutdown: drawing.shutdown, rows: drawing.rows, columns: drawing.columns }))
    if (document.activeElement !== byId(id)) byId(id).value = value;
  byId("clock-rule").value = drawing.clock;
  byId("undo").disabled = !history.past.length;
  byId("redo").disabled = !history.future.length;
}

function load(index) {
  byId("levels").value = index;
  go(start.levels[index].record);
}

/** Keep the level and the agent in the address, so that the page can be loaded again. */
function remind() {
  const address = new URLSearchParams({ level: JSON.stringify(drawing.record()), agent: byId("agent").value });
  window.history.replaceState(null, "", `#${address}`);
}

async function save(overwrite) {
  const received = await post("/save", { level: drawing.record(), overwrite });
  if (received.exists && confirm(`${received.exists} exists. Replace it with this level?`)) return save(true);
  byId("saved").textContent = received.saved ? `Saved to ${received.saved}` : received.error || "Not saved";
}

function download() {
  const address = URL.createObjectURL(new Blob([byId("text").value], { type: "text/plain" }));
  element("a", { href: address, download: `${drawing.name}.txt` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

async function open(event) {
  const [file] = event.target.files;
  if (!file) return;
  ask({ text: await file.text(), name: file.name.replace(/\.txt$/, "") });
  event.target.value = "";
}

function describeAgent() {
  byId("description").textContent = start.agents[byId("agent").selectedIndex].description;
}

function listen() {
  const number = (id, change) =>
    byId(id).addEventListener("input", () => {
      const value = Number(byId(id).value);
      const most = id === "shutdown" ? Infinity : start.largest;
      if (Number.isInteger(value) && value >= 1 && value <= most) edit(() => change(value));
    });
  number("shutdown", (value) => (drawing.shutdown = value));
  number("rows", (value) => drawing.resize(value, drawing.columns));
  number("columns", (value) => drawing.resize(drawing.rows, value));
  byId("clock-rule").addEventListener("change", (event) => edit(() => (drawing.clock = event.target.value)));
  byId("levels").addEventListener("change", (event) => {
    history.add(drawing.record());
    load(event.target.value);
  });
  byId("agent").addEventListener("change", () => {
    describeAgent();
    ask();
  });
  byId("undo").addEventListener("click", () => go(history.back(drawing.record())));
  byId("redo").addEventListener("click", () => go(history.forth(drawing.record())));
  byId("download").addEventListener("click", download);
  byId("open").addEventListener("change", open);
  byId("save").addEventListener("click", () => save(false));
  byId("text").addEventListener("input", () => ask({ text: byId("text").value, name: drawing.name }));
  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.target.matches("input, textarea")) return;
    const name = event.key.toLowerCase();
    if (name === "z") go(event.shiftKey ? history.forth(drawing.record()) : history.back(drawing.record()));
    else if (name === "y") go(history.forth(drawing.record()));
    else return;
    event.preventDefault();
  });
}

function begin() {
  byId("agent").append(...start.agents.map(({ name }) => element("option", { value: name }, name)));
  byId("levels").append(...start.levels.map(({ record }, index) => element("option", { value: index }, record.title || record.name)));
  byId("clock-rule").append(...start.clocks.map((name) => element("option", { value: name }, name)));
  for (const id of ["rows", "columns"]) byId(id).max = start.largest;
  for (const id of ["shutdown", "clock-rule", "rows", "columns"]) byId(id).disabled = isStatic;
  if (start.save) {
    byId("save").hidden = false;
    byId("save").textContent = `Save to ${start.save}`;
  }
  const address = new URLSearchParams(location.hash.slice(1));
  if (start.agents.some(({ name }) => name === address.get("agent"))) byId("agent").value = address.get("agent");
  describeAgent();
  listen();
  let record = null;
  try {
    record = isStatic ? null : JSON.parse(address.get("level"));
    if (record) drawing = new Drawing(record);
  } catch {
    record = null;
  }
  if (record) changed();
  else load(0);
}

begin();
