// The workers' log lines of a job. The box follows the newest line until the reader scrolls up, and says so.
import { complaintOf, lastRows } from "./api.js";
import { isAway, onConnectionChange } from "./connection.js";
import { el, icon, setText } from "./dom.js";
import { follow } from "./follow.js";
import { isEnded } from "./job_words.js";
import { watchSight } from "./sight.js";
import { clock, fullTime, plural } from "./words.js";

const FIRST_LINES = 500;
const LINES_MAX = 2000;
const NEAR_END_PX = 24;

function line(row) {
  return el(
    "div",
    { class: "line", dataset: { level: row.level } },
    el("time", { datetime: row.time, title: fullTime(row.time) }, clock(row.time)),
    " ",
    el("span", { class: "line-worker" }, row.worker),
    " ",
    el("span", { class: "line-text" }, row.text),
  );
}

export function jobLogs(id, current) {
  // Too quick to be read out: whoever listens goes through the lines by themselves.
  const box = el("div", { class: "log", tabindex: "0", role: "log", "aria-live": "off", "aria-labelledby": "heading-logs" });
  const none = el("p", { class: "quiet section-note" });
  const again = el("button", { type: "button", class: "small follow-again", hidden: true });
  const stop = new AbortController();
  let following = true;
  let missed = 0;
  let waiting = [];
  let frame = 0;
  let stream = null;
  let loaded = null; // the id after which the stream goes on, once it is known
  let loading = false;
  let visible = false;

  const nearEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
  const showState = () => {
    again.hidden = following;
    again.replaceChildren(icon("down"), missed > 0 ? `Follow again (${plural(missed, "new line")})` : "Follow again");
    setText(none, box.children.length === 0 ? "Nothing was logged yet." : following ? "following" : "stopped following");
  };
  function flush() {
    frame = 0;
    const rows = waiting.slice(-LINES_MAX);
    if (!following) missed += waiting.length;
    waiting = [];
    // Older lines go only while the reader does not look at them.
    if (following || box.children.length > 2 * LINES_MAX) {
      const surplus = box.children.length + rows.length - LINES_MAX;
      for (let i = 0; i < surplus && box.firstElementChild; i += 1) box.firstElementChild.remove();
    }
    box.append(...rows.map(line));
    if (following) box.scrollTop = box.scrollHeight;
    showState();
  }
  const add = (rows) => {
    waiting.push(...rows);
    frame ||= requestAnimationFrame(flush);
  };
  box.addEventListener("scroll", () => {
    const now = nearEnd();
    if (now === following) return;
    following = now;
    if (now) missed = 0;
    showState();
  });
  again.addEventListener("click", () => {
    following = true;
    missed = 0;
    box.scrollTop = box.scrollHeight;
    showState();
    box.focus();
  });

  async function open() {
    if (!visible || stream || loading) return;
    if (loaded === null) {
      loading = true;
      try {
        const rows = await lastRows(`jobs/${id}/logs`, "logs", FIRST_LINES, stop.signal);
        loaded = rows.at(-1)?.id ?? 0;
        add(rows);
      } catch (problem) {
        setText(none, complaintOf(problem));
        return;
      } finally {
        loading = false;
      }
    }
    if (stop.signal.aborted || !visible) return;
    stream = follow(`jobs/${id}/logs`, {
      after: loaded,
      isOver: () => isEnded(current()),
      onRows(rows) {
        loaded = rows.at(-1).id;
        add(rows);
      },
    });
  }
  // The stream is open only while the box can be seen: a browser has few connections to one host.
  const endSight = watchSight(box, "200px", (now) => {
    visible = now;
    if (visible) {
      open();
    } else {
      stream?.close();
      stream = null;
    }
  });
  const forget = onConnectionChange(() => !isAway() && open()); // where it could not be loaded

  return {
    element: el(
      "section",
      { class: "job-section card", id: "section-logs", "aria-labelledby": "heading-logs" },
      el("div", { class: "section-head" }, el("h2", { id: "heading-logs" }, "Logs"), none),
      el("div", { class: "log-frame" }, box, again),
    ),
    close() {
      stop.abort();
      stream?.close();
      endSight();
      forget();
      cancelAnimationFrame(frame);
    },
  };
}
