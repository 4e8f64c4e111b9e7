// The workers: what they run on, what they do, and which are held back; drains them.
import { complaintOf, get, post } from "./api.js";
import { announce } from "./announce.js";
import { ask } from "./dialog.js";
import { el, setAttribute, setText } from "./dom.js";
import { poll } from "./poll.js";
import { hashOf } from "./router.js";
import { Rows } from "./rows.js";
import { may, whyNot } from "./session.js";
import { table, tableRow } from "./table.js";
import { age, count, duration, gibibytes, plural, share, UNKNOWN } from "./words.js";

const POLL_MS = 1000;
const ROWS_MAX = 1000;
const SEEN_LATE_S = 2; // a heartbeat comes each second
const COLUMNS = [
  ["Worker", "worker"],
  ["State", "state"],
  ["Device", "device"],
  ["Busy", "busy number"],
  ["Memory", "memory number"],
  ["Job", "job"],
  ["Step", "step number"],
  ["Last seen", "seen number"],
  ["", "action"],
];

// "212 W · 61 °C"; a worker on the CPU tells neither.
const powerInWords = (load) =>
  [load?.watts != null && `${Math.round(load.watts)} W`, load?.celsius != null && `${Math.round(load.celsius)} °C`]
    .filter(Boolean)
    .join(" · ");

const isHere = (node) => node.state === "alive" || node.state === "draining";

async function drain(node) {
  const drained = await ask({
    title: `Drain ${node.id}?`,
    content: el(
      "p",
      {},
      node.job
        ? `It finishes its step, hands over to the other workers of ${node.job}, and its process ends. ` +
            "The job goes on without it; with fewer than its min_nodes it waits."
        : "It has no job now. Its process ends, and it takes no further work.",
    ),
    confirm: "Drain",
    harmful: true,
    act: () => post(`nodes/${encodeURIComponent(node.id)}/drain`),
  });
  if (drained) announce(`${node.id} is draining.`);
}

function nodeRow(first) {
  let node = first;
  const { element, cells: cell } = tableRow(COLUMNS);
  const name = el("span", { class: "worker-name" });
  const where = el("span", { class: "secondary" });
  const badge = el("span", { class: "badge" });
  const held = el("span", { class: "secondary held" });
  const device = el("span");
  const model = el("span", { class: "secondary" });
  const busy = el("span");
  const heat = el("span", { class: "secondary" });
  const memory = el("span");
  const used = el("span", { class: "secondary" });
  const job = el("a");
  const phase = el("span", { class: "secondary" });
  const button = el("button", { type: "button", class: "small" }, "Drain");
  cell.worker.append(name, where);
  cell.state.append(badge, held);
  cell.device.append(device, model);
  cell.busy.append(busy, heat);
  cell.memory.append(memory, used);
  cell.job.append(job, phase);
  cell.action.append(button);
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-disabled") !== "true") drain(node).then(() => button.isConnected && button.focus());
  });
  if (!may("admin")) setAttribute(button, "aria-describedby", "drain-why-not");
  return {
    element,
    update(now) {
      node = now;
      setText(name, now.id);
      setText(where, `${now.node} · process ${now.pid}`);
      setText(badge, now.held_back_s ? "held back" : now.state);
      setAttribute(badge, "data-state", now.held_back_s ? "held" : now.state);
      setText(held, now.held_back_reason ? `for ${duration(now.held_back_s)} more: ${now.held_back_reason}` : "");
      setText(device, `${now.device}${now.device === "cpu" ? ` · ${plural(now.threads, "thread")}` : ""}`);
      setText(model, now.device_model ?? "");
      setText(busy, isHere(now) ? share(now.load?.busy) : UNKNOWN);
      setText(heat, isHere(now) ? powerInWords(now.load) : "");
      setText(used, isHere(now) && now.load?.memory_used_bytes != null ? `${gibibytes(now.load.memory_used_bytes)} used` : "");
      setText(memory, gibibytes(now.memory_bytes));
      setText(job, now.job ?? UNKNOWN);
      setAttribute(job, "href", now.job ? hashOf(["jobs", now.job]) : null);
      setText(phase, [now.phase, now.generation ? `generation ${now.generation}` : null].filter(Boolean).join(" · "));
      setText(cell.step, count(now.step));
      // A service that stands by does not hear the living.
      setText(cell.seen, now.last_seen_s === null ? UNKNOWN : now.last_seen_s < SEEN_LATE_S ? "now" : age(now.last_seen_s));
      setAttribute(cell.seen, "data-late", isHere(now) && now.last_seen_s >= SEEN_LATE_S ? "" : null);
      setAttribute(element, "data-gone", isHere(now) ? null : "");
      button.hidden = now.state !== "alive";
      setAttribute(button, "aria-label", `Drain ${now.id}`);
      setAttribute(button, "aria-disabled", may("admin") ? null : "true");
    },
  };
}

function summary(nodes) {
  const number = (test) => nodes.filter(test).length;
  const working = number((node) => isHere(node) && node.job);
  const idle = number((node) => isHere(node) && !node.job);
  const gone = number((node) => !isHere(node));
  return [`${count(working)} at work`, `${count(idle)} free`, gone > 0 && `${count(gone)} gone`].filter(Boolean).join(" · ");
}

export function nodesView(main) {
  const said = el("p", { class: "view-note" });
  const gone = el("input", { type: "checkbox", id: "show-gone", checked: true });
  const list = table("nodes", COLUMNS, { "aria-label": "Workers" });
  const card = el("div", { class: "card table-card", hidden: true }, list.element);
  const empty = el(
    "div",
    { class: "empty card", hidden: true },
    el("p", { class: "empty-title" }, "No workers"),
    el(
      "p",
      {},
      "On each node run ",
      el("code", {}, "holdfast-worker --server ADDRESS"),
      ", with the service's ",
      el("code", {}, "worker.token"),
      " in ",
      el("code", {}, "HOLDFAST_TOKEN"),
      ".",
    ),
  );
  const why = whyNot("admin", "draining a worker");
  const error = el("p", { class: "error", role: "alert" });
  const rows = new Rows(list.body, (node) => node.id, nodeRow);
  const states = new Map();
  let nodes = [];

  main.append(
    el(
      "div",
      { class: "view-head" },
      el("h1", { tabindex: "-1" }, "Nodes"),
      said,
      el("label", { class: "check" }, gone, "Show those that are gone"),
    ),
    error,
    el("p", { class: "why-not", id: "drain-why-not", hidden: why === "" }, why),
    card,
    empty,
  );

  const show = () => {
    const shown = nodes.filter((node) => isHere(node) || gone.checked);
    rows.update([...shown.filter(isHere), ...shown.filter((node) => !isHere(node))]);
    card.hidden = shown.length === 0;
    empty.hidden = nodes.length > 0;
    setText(said, nodes.length > 0 ? summary(nodes) : "");
  };
  const tellChanges = () => {
    for (const node of nodes) {
      const before = states.get(node.id);
      if (before && before !== node.state) announce(`${node.id} is ${node.state}.`);
      states.set(node.id, node.state);
    }
  };
  gone.addEventListener("change", show);
  const polling = poll(async () => {
    try {
      nodes = (await get("nodes", { limit: ROWS_MAX })).nodes;
      setText(error, "");
      tellChanges();
      show();
    } catch (problem) {
      setText(error, complaintOf(problem));
    }
  }, POLL_MS);
  return { title: "Nodes", close: polling.close };
}
