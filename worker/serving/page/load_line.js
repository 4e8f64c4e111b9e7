// The server's load in a line, as its metrics have it.
import { metrics } from "./ask.js";
import { setText } from "./dom.js";

const EVERY_MS = 2000;

function valueOf(text, name) {
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
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
    const now = { at: performance.now(), written: valueOf(text, "holdfast_serve_written_tokens_total") };
    const rate = before ? (1000 * (now.written - before.written)) / (now.at - before.at) : 0;
    before = now;
    const texts = (state) => valueOf(text, `holdfast_serve_texts{state="${state}"}`);
    const pages = (which) => valueOf(text, `holdfast_serve_pages{pages="${which}"}`);
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
