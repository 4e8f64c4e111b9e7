// The texts of a job that serves, as they are now: what it answers with, and how many each of its replicas writes.
import { complaintOf, get } from "./api.js";
import { el, setText } from "./dom.js";
import { poll } from "./poll.js";
import { Rows } from "./rows.js";
import { table, tableRow } from "./table.js";
import { count, plural, UNKNOWN } from "./words.js";

const POLL_MS = 1000;
const COLUMNS = [
  ["Replica", "replica"],
  ["Writes", "writes number"],
];
const NUMBERS = ["Answers with", "Replicas ready", "Texts written now", "Texts waiting", "Texts moved"];

function replicaRow() {
  const { element, cells: cell } = tableRow(COLUMNS);
  return {
    element,
    update(replica) {
      setText(cell.replica, (replica.stages ?? [replica.worker]).join(" → "));
      setText(cell.writes, plural(replica.texts, "text"));
    },
  };
}

export function jobTexts(id) {
  const values = NUMBERS.map(() => el("dd", { class: "tile-value" }, UNKNOWN));
  const none = el("p", { class: "quiet" });
  const ask = el("a", { hidden: true }, "Ask it in the playground");
  const list = table("replicas", COLUMNS, { "aria-labelledby": "heading-texts" });
  const replicas = new Rows(list.body, (replica) => replica.worker, replicaRow);
  let polling = null;

  function update(model) {
    setText(none, model ? "" : "No replica is ready: requests are answered with 503 until one is.");
    none.hidden = model !== undefined;
    list.element.hidden = model === undefined;
    ask.hidden = model === undefined;
    if (model) ask.href = `playground?model=${encodeURIComponent(model.id)}`;
    replicas.update(model?.workers ?? []);
    const step = model?.step >= 0 ? `step ${count(model.step)}` : "a model from elsewhere";
    const shown = model
      ? [step, count(model.replicas), count(model.texts.writing), count(model.texts.waiting), count(model.texts.moved)]
      : NUMBERS.map(() => UNKNOWN);
    shown.forEach((text, at) => setText(values[at], text));
  }

  return {
    element: el(
      "section",
      { class: "job-section card", id: "section-texts", "aria-labelledby": "heading-texts" },
      el("h2", { id: "heading-texts" }, "Texts"),
      el(
        "dl",
        { class: "tiles" },
        NUMBERS.map((name, at) => el("div", { class: "tile" }, el("dt", {}, name), values[at])),
      ),
      list.element,
      none,
      ask,
    ),
    start() {
      polling = poll(async () => {
        try {
          const { data } = await get("models");
          update(data.find((model) => model.job === id));
        } catch (problem) {
          complaintOf(problem);
        }
      }, POLL_MS);
    },
    close: () => polling?.close(),
  };
}
