// An episode that plays, step by step.

const SLOWEST = 420, WHOLE = 14000; // milliseconds of a step, and of a long episode

class Player {
  constructor(onMoment) {
    this.onMoment = onMoment;
    this.episodes = [];
    this.length = null;
    this.timer = 0;
    byId("play").addEventListener("click", () => this.toggle());
    byId("moment").addEventListener("input", (event) => {
      this.stop();
      this.go(Number(event.target.value));
    });
  }

  get episode() {
    return this.episodes.find((episode) => episode.length === this.length);
  }

  /** Take the episodes of new results; the length stays if it can. */
  load(episodes) {
    this.stop();
    this.episodes = episodes;
    const likeliest = [...episodes].sort((one, other) => other.probability - one.probability)[0];
    if (!this.episode) this.length = likeliest ? likeliest.length : null;
    this.reset();
  }

  /** Play the episode of a length from its start. */
  select(length) {
    this.length = length;
    this.reset();
    this.start();
  }

  reset() {
    this.stop();
    byId("moment").max = this.episode ? this.episode.moments.length - 1 : 0;
    byId("player").classList.toggle("empty", !this.episode);
    byId("play").disabled = byId("moment").disabled = !this.episode;
    this.go(0);
  }

  go(index) {
    this.index = index;
    byId("moment").value = index;
    byId("clock").replaceChildren(...this.words());
    byId("moment").setAttribute("aria-valuetext", byId("clock").textContent);
    for (const row of byId("lengths").children) row.classList.toggle("chosen", Number(row.dataset.length) === this.length && !!this.episode);
    this.onMoment();
  }

  words() {
    if (!this.episode) return ["no episode"];
    const last = this.episode.moments.length - 1;
    const [, , , left, coins] = this.episode.moments[this.index];
    const now = this.index === last ? "shut down" : `${left} ${left === 1 ? "tick" : "ticks"} left`;
    const collected = `${short(coins)} ${coins === 1 ? "coin" : "coins"}`;
    return [element("b", {}, now), ` · step ${this.index} of ${last} · ${collected}`];
  }

  /** Return the cells so far, and the moment that is shown; nothing before an episode begins. */
  now() {
    if (!this.episode || (this.index === 0 && !this.timer)) return { moment: null, route: [] };
    const moments = this.episode.moments.slice(0, this.index + 1);
    return { moment: moments[this.index], route: moments };
  }

  toggle() {
    if (this.timer) this.stop();
    else this.start();
  }

  start() {
    if (!this.episode) return;
    const steps = this.episode.moments.length;
    if (this.index >= steps - 1) this.go(0);
    const wait = Math.max(60, Math.min(SLOWEST, WHOLE / steps));
    this.timer = setInterval(() => {
      if (this.index >= steps - 1) this.stop();
      else this.go(this.index + 1);
    }, wait);
    this.name();
    this.onMoment();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.name();
  }

  name() {
    byId("play").setAttribute("aria-label", this.timer ? "Stop" : "Play");
    byId("play").classList.toggle("playing", !!this.timer);
  }
}
