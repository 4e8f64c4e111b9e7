// The server's load in a line, as its metrics have it.
import { metrics } from "./ask.js";
import { setText } from "./dom.js";

const EVERY_MS = 2000;

// Of all models: `serve-model` has one sample of a name, the service one for each job.
function sumOf(text, name, label = "") {
  const lines = text.split("\n").filter((each) => (each.startsWith(`${name} `) || each.startsWith(`${name}{`)) && each.includes(label));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

export function startLoadLine(element) {
  let before = null;
  const look = async () => {
    if (document.hidden) return;
    let text;
    try {
      text = await metrics();
    } catch {
      before = null;
      return setText(element, "");
    }
    const now = { at: performance.now(), written: sumOf(text, "holdfast_serve_written_tokens_total") };
    const rate = before ? (1000 * (now.written - before.written)) / (now.at - before.at) : 0;
    before = now;
    const texts = (state) => sumOf(text, "holdfast_serve_texts", `state="${state}"`) + sumOf(text, `holdfast_serve_texts_${state}`);
    const pages = (which) => sumOf(text, "holdfast_serve_pages", `pages="${which}"`);
    const writing = texts("writing") + texts("reading");
    setText(
      element,
      `${writing} ${writing === 1 ? "text" : "texts"}, ${texts("waiting")} waiting, ${rate.toFixed(0)} tokens/s, ` +
        `${((100 * pages("held")) / Math.max(1, pages("all"))).toFixed(0)} % of the pages`,
    );
  };
  look();
  setInterval(look, EVERY_MS);
}
