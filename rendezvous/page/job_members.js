// The workers of a job now: members of the generation by rank, those that are getting ready, and those that were refused.
import { el, setAttribute, setText } from "./dom.js";
import { isEnded } from "./job_words.js";
import { Rows } from "./rows.js";
import { table, tableRow } from "./table.js";
import { bytes, count } from "./words.js";

const COLUMNS = [
  ["Rank", "rank number"],
  ["Worker", "worker"],
  ["Device", "device"],
  ["Phase", "phase"],
  ["Step", "step number"],
  ["Owns", "owns number"],
];

const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

// "Each part of the state is on 2 workers of 2 nodes."; and what the loss of these would cost, where they are fewer than were
// asked for.
function divisionText({ division, latest_checkpoint: checkpoint }) {
  const { copies, copies_wanted: wanted, nodes, bytes_to_come: toCome } = division;
  const coming = toCome > 0 ? `, ${bytes(toCome)} to come` : "";
  const where = `Each part of the state is on ${counted(copies, "worker")} of ${counted(nodes, "node")}${coming}`;
  if (copies >= wanted) return `${where}.`;
  const before = checkpoint === null ? "the beginning" : `step ${count(checkpoint.step)}`;
  return `${where}, ${wanted} asked for: ${copies === 1 ? "its" : "their"} loss would take the job back to ${before}.`;
}

function memberRow() {
  const { element, cells: cell } = tableRow(COLUMNS);
  const name = el("span", { class: "worker-name" });
  const node = el("span", { class: "secondary" });
  const phase = el("span", { class: "badge" });
  cell.worker.append(name, node);
  cell.phase.append(phase);
  return {
    element,
    update(member) {
      setText(cell.rank, member.rank === null ? "" : String(member.rank));
      setText(name, member.id);
      setText(node, member.node);
      setText(cell.device, member.device);
      setText(phase, member.phase);
      setAttribute(phase, "data-state", member.phase);
      setText(cell.step, member.step < 0 ? "" : count(member.step));
      setText(cell.owns, member.owned_bytes === null ? "" : bytes(member.owned_bytes));
    },
  };
}

export function jobMembers() {
  const list = table("members", COLUMNS, { "aria-labelledby": "heading-members" });
  const division = el("p", { class: "quiet division" });
  const none = el("p", { class: "quiet" });
  const refused = el("ul", { class: "refused" });
  const members = new Rows(list.body, (member) => member.id, memberRow);
  const refusals = new Rows(
    refused,
    (row) => row.worker,
    () => {
      const element = el("li");
      return { element, update: (row) => setText(element, `${row.worker} is refused: ${row.reason}`) };
    },
  );
  return {
    element: el(
      "section",
      { class: "job-section card", id: "section-members", "aria-labelledby": "heading-members" },
      el("h2", { id: "heading-members" }, "Members"),
      list.element,
      division,
      none,
      refused,
    ),
    update(job) {
      members.update(job.workers);
      refusals.update(job.refused ?? []);
      list.element.hidden = job.workers.length === 0;
      list.element.classList.toggle("divided", job.division !== null);
      division.hidden = job.division === null;
      setText(division, job.division === null ? "" : divisionText(job));
      none.hidden = job.workers.length > 0;
      refused.hidden = refusals.shown.size === 0;
      setText(
        none,
        isEnded(job)
          ? "The job has ended; its workers are free."
          : job.state === "paused"
            ? "Paused: it has no workers."
            : "No worker has it yet.",
      );
    },
  };
}
