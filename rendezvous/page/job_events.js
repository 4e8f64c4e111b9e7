// A job's events, newest first, as they happen.
import { announce } from "./announce.js";
import { lastRows } from "./api.js";
import { el, setText } from "./dom.js";
import { follow } from "./follow.js";
import { isEnded } from "./job_words.js";
import { clock, fullTime, plural } from "./words.js";

const ROWS_MAX = 500;

// The colour of each kind of event. The first pattern that fits decides.
const BAD = [
  "fault_",
  "worker_lost",
  "worker_left_out",
  "worker_refused",
  "worker_held_back",
  "job_failed",
  "state_diverged",
  "gpu_errors",
  "step_refused",
  "steps_voided",
  "checkpoint_failed",
  "checkpoint_skipped",
  "checkpoint_copy_failed",
  "checkpoint_store_not_shared",
  "retention_failed",
  "pause_failed",
  "memory_distrusted",
  "state_lost",
  "redundancy_reduced",
  "records_missing",
  "database_older",
];
const GOOD = ["checkpoint_", "job_succeeded", "progress_resumed", "state_copied", "redundancy_restored"];
const MEMBERSHIP = ["generation_", "worker_", "job_scaled", "shard_chosen", "straggler", "microbatches_"];
const begins = (kind, words) => words.some((word) => kind.startsWith(word));

export function toneOf(kind) {
  if (begins(kind, BAD)) return "bad";
  if (begins(kind, GOOD)) return "good";
  return begins(kind, MEMBERSHIP) ? "membership" : "plain";
}

const SPOKEN = /^(fault_reported|worker_lost|worker_left_out|generation_formed|job_failed|job_succeeded)$/;

const FILTERS = [
  ["All events", () => true],
  ["Faults and losses", (row) => toneOf(row.kind) === "bad"],
  ["Membership", (row) => begins(row.kind, MEMBERSHIP)],
  ["Checkpoints", (row) => row.kind.startsWith("checkpoint_")],
];

function eventItem(row) {
  const actor = row.actor && row.actor !== "service" ? `by ${row.actor}` : "";
  return el(
    "li",
    { dataset: { tone: toneOf(row.kind), kind: row.kind } },
    el(
      "div",
      { class: "event-head" },
      el("span", { class: "event-kind" }, row.kind.replaceAll("_", " ")),
      el("time", { datetime: row.time, title: fullTime(row.time) }, clock(row.time)),
    ),
    el("p", {}, row.message, actor && el("span", { class: "secondary" }, actor)),
  );
}

// onEvents(rows) hears of each event after those that were there at the start.
export function jobEvents(id, current, onEvents) {
  const list = el("ol", { class: "timeline", tabindex: "0", "aria-labelledby": "heading-events" });
  const filter = el(
    "select",
    { id: "event-filter" },
    FILTERS.map(([name], i) => el("option", { value: String(i) }, name)),
  );
  const number = el("p", { class: "quiet section-note" });
  const stop = new AbortController();
  let rows = [];
  let stream = null;

  const wanted = () => FILTERS[Number(filter.value)][1];
  const count = () => {
    const shown = list.children.length;
    setText(
      number,
      shown === 0
        ? "None yet."
        : rows.length >= ROWS_MAX
          ? `The newest ${plural(shown, "event")}; holdfast events ${id} has all.`
          : plural(shown, "event"),
    );
  };
  function showAll() {
    list.replaceChildren(...rows.filter(wanted()).reverse().map(eventItem));
    count();
  }
  function add(fresh) {
    rows = rows.concat(fresh).slice(-ROWS_MAX);
    list.prepend(...fresh.filter(wanted()).reverse().map(eventItem));
    while (list.children.length > ROWS_MAX) list.lastElementChild.remove();
    count();
    for (const row of fresh) if (SPOKEN.test(row.kind)) announce(row.message);
    onEvents(fresh);
  }
  filter.addEventListener("change", showAll);

  return {
    element: el(
      "section",
      { class: "job-section card", id: "section-events", "aria-labelledby": "heading-events" },
      el(
        "div",
        { class: "section-head" },
        el("h2", { id: "heading-events" }, "Events"),
        number,
        el("label", { class: "visually-hidden", for: "event-filter" }, "Which events"),
        filter,
      ),
      list,
    ),
    async start() {
      rows = await lastRows(`jobs/${id}/events`, "events", ROWS_MAX, stop.signal);
      showAll();
      if (stop.signal.aborted) return;
      stream = follow(`jobs/${id}/events`, { after: rows.at(-1)?.id ?? 0, isOver: () => isEnded(current()), onRows: add });
    },
    close() {
      stop.abort();
      stream?.close();
    },
  };
}
