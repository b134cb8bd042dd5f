// The tools: what a press on a cell draws.

const NAMES = { "#": "wall", ".": "floor", A: "agent", "^": "door up", v: "door down", "<": "door left", ">": "door right" };

class Tools {
  /** Make the tools of these kinds of objects, or of the ``texts`` that a static page has results for. */
  constructor(form, kinds, texts) {
    this.form = form;
    this.kinds = kinds;
    this.chosen = null;
    this.all = new Map();
    this.tiles = element("div", { class: "tiles", role: "radiogroup", "aria-label": "What a press on a cell draws" });
    this.options = element("div", { class: "options" });
    form.append(this.tiles, this.options);
    form.addEventListener("submit", (event) => event.preventDefault());
    const letters = kinds.flatMap((kind) => [...kind.letters]);
    for (const text of texts || ["#", ".", "A", ...letters]) this.add(text, !texts);
    this.choose("#");
  }

  kindOf(text) {
    return this.kinds.find((kind) => kind.letters.includes(text[0]));
  }

  /** Return the words for a cell. */
  describe(text) {
    const kind = this.kindOf(text);
    if (text in NAMES) return NAMES[text];
    return kind ? `${kind.noun} ${text}` : text;
  }

  add(text, isOpen) {
    const fields = isOpen ? this.fieldsOf(text) : null;
    const shown = fields ? fields.text() : text;
    const radio = element("input", { type: "radio", name: "tool", value: text, "aria-label": isOpen && fields ? this.kindOf(text).noun : this.describe(text) });
    const tile = element("label", { class: "tile", title: radio.getAttribute("aria-label") }, radio, icon(shown, { "": "±" }));
    this.tiles.append(tile);
    const tool = { text: fields ? fields.text : () => text, fields, radio };
    radio.addEventListener("change", () => this.use(tool));
    this.all.set(text, tool);
  }

  /** Return the fields of a kind with numbers: its nodes, and the text of a cell with their values. */
  fieldsOf(letter) {
    const number = (name, value, more) => element("input", { type: "number", "aria-label": name, value, ...more });
    if (letter === "C") {
      const value = number("value of the coin", 3, { min: 0, step: "any" });
      return { nodes: [field("value", value)], text: () => `C${value.value}` };
    }
    if (letter === "B") {
      const delay = number("delay of the button, in ticks", 4, { min: 1, step: 1 });
      const chance = number("chance that the button works", 1, { min: 0, max: 1, step: 0.1 });
      const end = () => (chance.value === "1" ? "" : `@${chance.value}`);
      return { nodes: [field("delay", delay), field("chance", chance)], text: () => `B${delay.value}${end()}` };
    }
    const kind = this.kindOf(letter);
    if (letter === "L") {
      const input = element("input", { type: "text", class: "wide", "aria-label": "outcomes of the lottery: chance, coins, delay", value: "1/2 C2 +0 | 1/2 C0 +2" });
      return { nodes: [field("outcomes", input)], text: () => "L", outcomes: () => input.value.trim() };
    }
    if (!kind || letter in NAMES) return null;
    const input = element("input", { type: "text", "aria-label": `text of the ${kind.noun}`, value: kind.example });
    return { nodes: [field("text", input)], text: () => input.value.trim() };
  }

  choose(text) {
    const tool = this.all.get(text);
    if (!tool) return false;
    tool.radio.checked = true;
    this.use(tool);
    return true;
  }

  use(tool) {
    this.chosen = tool;
    this.options.replaceChildren(...(tool.fields ? tool.fields.nodes : []));
  }

  /** Return the text that the chosen tool draws into a cell of a level. */
  textFor(drawing) {
    const { fields, text } = this.chosen;
    return fields && fields.outcomes ? drawing.lotteryCell(fields.outcomes()) : text();
  }
}

function field(name, input) {
  return element("label", { class: "field" }, `${name} `, input);
}
