// The list of jobs, newest first, one page at a time; its filter and place are in the address.
import { complaintOf, get } from "./api.js";
import { el, icon, setAttribute, setText } from "./dom.js";
import { checkpointAge, jobTitle, progressBar, STATES, stateBadge, stepsOf } from "./job_words.js";
import { poll } from "./poll.js";
import { hashOf } from "./router.js";
import { Rows } from "./rows.js";
import { may } from "./session.js";
import { table, tableRow } from "./table.js";
import { age, compact, duration, fullTime, measure, percent, secondsSince, UNKNOWN } from "./words.js";

const PAGE_ROWS = 50;
const POLL_MS = 2000;
const TYPING_MS = 350;
const COLUMNS = [
  ["Job", "job"],
  ["State", "state"],
  ["Progress", "done"],
  ["ETA", "eta number"],
  ["Loss", "loss number"],
  ["Tokens/s", "speed number"],
  ["Workers", "world number"],
  ["Checkpoint", "checkpoint number"],
  ["Submitted", "submitted number"],
];

// The text of the one search field: an id, a label, or a name.
export function searchQuery(text) {
  if (/^j\d+$/.test(text)) return { id: text };
  return text.includes("=") ? { label: text } : { name: text };
}

function jobRow(job) {
  const badge = stateBadge();
  const bar = progressBar(`Progress of ${jobTitle(job)}`);
  const name = el("a", { href: hashOf(["jobs", job.id]), class: "job-name" });
  const id = el("span", { class: "job-id" });
  const { element, cells: cell } = tableRow(COLUMNS);
  const done = el("span", { class: "progress-text" });
  cell.job.append(name, id);
  cell.state.append(badge.element);
  cell.done.append(bar.element, done);
  return {
    element,
    update(now) {
      setText(name, jobTitle(now));
      setText(id, now.name ? now.id : "");
      badge.update(now.state);
      setAttribute(badge.element, "title", now.reason || null);
      bar.update(now);
      setText(done, `${percent(now.step, now.total_steps)}`);
      setAttribute(done, "title", `${stepsOf(now)} steps`);
      setText(cell.eta, duration(now.eta_s));
      setText(cell.loss, measure(now.loss));
      setText(cell.speed, compact(now.tokens_per_second));
      setText(cell.world, now.world_size > 0 ? (now.nodes ? `${now.world_size}/${now.nodes}` : `${now.world_size}`) : UNKNOWN);
      setText(cell.checkpoint, checkpointAge(now));
      setText(cell.submitted, age(secondsSince(now.submitted_at)));
      setAttribute(cell.submitted, "title", fullTime(now.submitted_at));
    },
  };
}

// The sentence in place of rows where there are none.
function emptyState(filtered, clear) {
  if (filtered) {
    return [el("p", {}, "No job matches."), el("button", { type: "button", onclick: clear }, "Show all jobs")];
  }
  return [
    el("p", { class: "empty-title" }, "No jobs yet"),
    el(
      "p",
      {},
      "Start workers with ",
      el("code", {}, "holdfast-worker"),
      " on your nodes, then submit a job here or with ",
      el("code", {}, "holdfast submit"),
      ".",
    ),
    may("submit") && el("a", { class: "button primary", href: "#/submit" }, "Submit a job"),
  ];
}

export function jobsView(main, route) {
  let query = route.query; // {state, search, page}
  const trail = []; // the pages that were shown before this one

  const state = el(
    "select",
    { id: "filter-state" },
    el("option", { value: "" }, "All states"),
    STATES.map((name) => el("option", { value: name }, name)),
  );
  const search = el("input", {
    id: "filter-search",
    type: "search",
    placeholder: "Name, id or label key=value",
    spellcheck: "false",
    autocomplete: "off",
  });
  const filter = el(
    "form",
    { class: "filter", role: "search", "aria-label": "Jobs" },
    el("label", { class: "visually-hidden", for: "filter-state" }, "State"),
    state,
    el("label", { class: "visually-hidden", for: "filter-search" }, "Name, id, or label as key=value"),
    search,
  );
  const list = table("jobs", COLUMNS, { "aria-label": "Jobs, newest first" });
  const card = el("div", { class: "card table-card" }, list.element);
  const empty = el("div", { class: "empty card", hidden: true });
  const error = el("p", { class: "error", role: "alert" });
  const newer = el("button", { type: "button" }, icon("newer"), "Newer");
  const older = el("button", { type: "button" }, "Older", icon("older"));
  const paging = el("nav", { class: "paging", "aria-label": "Pages of jobs", hidden: true }, newer, older);
  const rows = new Rows(list.body, (job) => job.id, jobRow);
  let next = null;

  main.append(
    el(
      "div",
      { class: "view-head" },
      el("h1", { tabindex: "-1" }, "Jobs"),
      filter,
      may("submit") && el("a", { class: "button primary", href: "#/submit" }, "Submit a job"),
    ),
    error,
    card,
    empty,
    paging,
  );

  const go = (changes) => {
    location.hash = hashOf(["jobs"], { ...query, ...changes });
  };
  const clear = () => {
    search.value = "";
    go({ state: "", search: "", page: "" });
    search.focus();
  };

  function showRows(jobs) {
    rows.update(jobs);
    card.hidden = jobs.length === 0;
    paging.hidden = !next && !query.page;
    newer.disabled = !query.page;
    older.disabled = !next;
    if (jobs.length > 0) {
      empty.hidden = true;
    } else if (empty.hidden) {
      empty.replaceChildren(...emptyState(Boolean(query.state || query.search || query.page), clear).filter(Boolean));
      empty.hidden = false;
    }
  }

  async function load() {
    const asked = query;
    const { id, ...words } = searchQuery(asked.search ?? "");
    try {
      let reply;
      if (id) {
        const job = await get(`jobs/${id}`).catch((problem) => (problem.status === 404 ? null : Promise.reject(problem)));
        reply = { jobs: job && (!asked.state || asked.state === job.state) ? [job] : [], next_page_token: null };
      } else {
        reply = await get("jobs", { limit: PAGE_ROWS, page_token: asked.page, state: asked.state, ...words });
      }
      if (asked !== query) return; // the reader has moved on
      next = reply.next_page_token;
      setText(error, "");
      showRows(reply.jobs);
    } catch (problem) {
      if (asked === query) setText(error, complaintOf(problem));
    }
  }

  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => go({ search: search.value.trim(), page: "" }), TYPING_MS);
  });
  state.addEventListener("change", () => go({ state: state.value, page: "" }));
  filter.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    go({ search: search.value.trim(), page: "" });
  });
  older.addEventListener("click", () => {
    trail.push(query.page ?? "");
    go({ page: next });
  });
  newer.addEventListener("click", () => go({ page: trail.pop() ?? "" }));

  const showQuery = () => {
    state.value = query.state ?? "";
    if (document.activeElement !== search) search.value = query.search ?? "";
  };
  showQuery();
  const polling = poll(load, POLL_MS);
  return {
    title: "Jobs",
    update(changed) {
      query = changed.query;
      empty.hidden = true;
      showQuery();
      polling.now();
    },
    close() {
      clearTimeout(typing);
      polling.close();
    },
  };
}
