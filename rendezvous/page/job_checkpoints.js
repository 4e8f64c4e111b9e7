// The checkpoints of a job that are kept, newest first, each with the ways to begin a job from it and to download its model.
import { get } from "./api.js";
import { el, setText } from "./dom.js";
import { downloadModel } from "./job_export.js";
import { hashOf } from "./router.js";
import { Rows } from "./rows.js";
import { may } from "./session.js";
import { table, tableRow } from "./table.js";
import { bytes, clock, count, duration, fullTime, plural } from "./words.js";

const PAGE_ROWS = 1000;
const SHOWN_FIRST = 12;
const COLUMNS = [
  ["Step", "step number"],
  ["Made", "made"],
  ["Size", "size number"],
  ["Took", "took number"],
  ["State hash", "hash"],
  ["", "action"],
];

function checkpointRow({
  job,
  step,
  created_at: made,
  raw_bytes: raw,
  stored_bytes: stored,
  shards,
  stall_s: stall,
  write_s: took,
  state_hash: hash,
}) {
  const { element, cells } = tableRow(COLUMNS);
  const unreadable = el("span", { class: "secondary held" });
  const from = may("submit") && el("a", { href: hashOf(["submit"], { from: `${job}@${step}` }) }, "Resume from this");
  if (from) from.setAttribute("aria-label", `Resume from the checkpoint of step ${count(step)}`);
  const download = el("button", { type: "button", class: "small", onclick: () => downloadModel({ job, step }) }, "Download");
  download.setAttribute("aria-label", `Download the model of step ${count(step)}`);
  cells.step.append(count(step));
  cells.made.append(el("time", { datetime: made, title: fullTime(made) }, clock(made)), unreadable);
  cells.size.append(el("span", { title: `${bytes(raw)} of state in ${plural(shards, "shard")}` }, bytes(stored)));
  cells.took.append(el("span", { title: `the stall was ${duration(stall)}` }, duration(took)));
  cells.hash.append(el("code", { title: hash }, hash.slice(0, 12)));
  if (from) cells.action.append(from);
  cells.action.append(download);
  return {
    element,
    update(now) {
      setText(unreadable, now.readable === false ? "could not be read" : "");
      for (const way of [from, download]) if (way) way.hidden = now.readable === false;
    },
  };
}

// onLoad(checkpoints) hears of each reading.
export function jobCheckpoints(id, onLoad) {
  const list = table("checkpoints", COLUMNS, { "aria-labelledby": "heading-checkpoints", hidden: true });
  const none = el(
    "p",
    { class: "quiet" },
    "None yet. The first comes after checkpoint_every steps, on a pause, on a stop, or at the end.",
  );
  const more = el("button", { type: "button", class: "small", hidden: true });
  const rows = new Rows(
    list.body,
    (checkpoint) => `${checkpoint.step} ${checkpoint.state_hash} ${checkpoint.created_at}`,
    checkpointRow,
  );
  const stop = new AbortController();
  let all = [];
  let whole = false;

  const show = () => {
    rows.update(whole ? all : all.slice(0, SHOWN_FIRST));
    list.element.hidden = all.length === 0;
    none.hidden = all.length > 0;
    more.hidden = whole || all.length <= SHOWN_FIRST;
    setText(more, `Show all ${count(all.length)}`);
  };
  more.addEventListener("click", () => {
    whole = true;
    show();
  });

  return {
    element: el(
      "section",
      { class: "job-section card", id: "section-checkpoints", "aria-labelledby": "heading-checkpoints" },
      el("h2", { id: "heading-checkpoints" }, "Checkpoints"),
      list.element,
      none,
      more,
    ),
    async load() {
      const found = [];
      let token;
      do {
        const reply = await get(`jobs/${id}/checkpoints`, { limit: PAGE_ROWS, page_token: token }, stop.signal);
        found.push(...reply.checkpoints);
        token = reply.next_page_token;
      } while (token);
      all = found.sort((a, b) => b.step - a.step);
      show();
      onLoad(all);
    },
    close: () => stop.abort(),
  };
}
