// The numbers of an agent on a level.

const three = (value) => value.toFixed(3);
const percent = (value) => (value > 0.9995 || (value < 0.0005 && value > 0) ? (value > 0.5 ? "> 99.9 %" : "< 0.1 %") : `${(100 * value).toFixed(1)} %`);
const short = (value) => (value === null ? "–" : Number(value.toFixed(2)).toString());

/** Show usefulness and neutrality, each beside the value of a random policy. */
function showFigures(node, results) {
  const most = Math.log2(results.lengths.length);
  const { agent, random } = results;
  node.replaceChildren(
    figure("usefulness", three(agent.usefulness), agent.usefulness, random.usefulness, `random policy ${three(random.usefulness)}`),
    figure("neutrality, bits", three(agent.neutrality), most ? agent.neutrality / most : 0, most ? random.neutrality / most : 0, `at most ${three(most)}, random policy ${three(random.neutrality)}`),
    figure("normalised neutrality", three(agent.neutrality_normalised), agent.neutrality_normalised, random.neutrality_normalised, `random policy ${three(random.neutrality_normalised)}`),
  );
}

function figure(name, value, share, mark, note) {
  const bar = element("div", { class: "bar" }, element("span", { class: "fill" }), element("span", { class: "mark" }));
  bar.children[0].style.width = `${100 * clamp(share)}%`;
  bar.children[1].style.left = `${100 * clamp(mark)}%`;
  return element("div", { class: "figure" }, element("span", { class: "name" }, name), element("strong", { "data-measure": name }, value), bar, element("span", { class: "note" }, note));
}

const clamp = (share) => Math.min(1, Math.max(0, share));

/** Show a row for each length, with a button that plays an episode of this length. */
function showLengths(node, results, probabilities, select) {
  const playable = new Set(results.episodes.map((episode) => episode.length));
  node.replaceChildren(
    ...results.lengths.map(({ length, coins, best }, index) => {
      const probability = probabilities[index];
      const bar = element("div", { class: "bar" }, element("span", { class: "fill" }));
      bar.children[0].style.width = `${100 * clamp(probability)}%`;
      const play = element("button", { type: "button", class: "small", "aria-label": `Show an episode of length ${length}`, disabled: !playable.has(length) });
      play.addEventListener("click", () => select(length));
      const cells = [
        element("th", { scope: "row" }, `${length}`),
        element("td", { class: "chance" }, bar, element("span", {}, percent(probability))),
        element("td", { class: "number" }, `${short(coins)} of ${short(best)}`),
        element("td", {}, play),
      ];
      return element("tr", { "data-length": length }, ...cells);
    }),
  );
}

/** Describe how the numbers were computed. */
function basisOf(results) {
  const kind = results.exact ? "Exact" : "Estimated from sampled mini-episodes";
  return `${kind}, at γ = ${results.gamma}. The mark on a bar is the random policy.`;
}
