// A profile of a running job: asks for how many steps, shows that they are recorded, saves the trace and shows what a step costs.
import { announce } from "./announce.js";
import { Away, blobOf, get, post, Problem } from "./api.js";
import { ask } from "./dialog.js";
import { el, setAttribute, setText } from "./dom.js";
import { jobTitle } from "./job_words.js";
import { table, tableRow } from "./table.js";
import { count, duration, plural } from "./words.js";

const STEPS = 20;
const STEPS_MAX = 200;
const POLL_MS = 400;
const ALIKE = 1.1; // a rank that takes longer than this part of the mean is named

const COLUMNS = [
  ["Cost", "cost"],
  ["Thread", "thread"],
  ["A step", "seconds number"],
  ["Share", "share number"],
  ["Where", "where"],
];

function stepsOf(input) {
  const value = /^\d+$/.test(input.value.trim()) ? Number(input.value) : Number.NaN;
  const wrong = !(value >= 1 && value <= STEPS_MAX);
  setAttribute(input, "aria-invalid", wrong ? "true" : null);
  if (wrong) throw new Error(`Enter a whole number of steps from 1 to ${STEPS_MAX}.`);
  return value;
}

function stateInWords(profile) {
  if (profile.state === "merging") return "All parts are here; they are put together.";
  const here = profile.ranks.filter((rank) => rank.part !== "awaited").length;
  const steps = `steps ${count(profile.from_step)} to ${count(profile.from_step + profile.steps - 1)}`;
  return here === 0 ? `Recording ${steps}…` : `Recording ${steps}: ${here} of ${plural(profile.ranks.length, "rank")} done…`;
}

// The profile with this id when it is done; undefined when nobody looks at `status` any more.
async function untilDone(job, id, status) {
  while (status.isConnected) {
    const profile = await get(`jobs/${job}/profile`);
    if (profile.id !== id) throw new Error("Somebody has begun another profile, and this one is gone.");
    if (profile.state === "done") return profile;
    if (profile.state === "failed") throw new Error(`There is no profile: ${profile.reason}.`);
    setText(status, stateInWords(profile));
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return undefined;
}

function question(job) {
  const input = el("input", { id: "profile-steps", inputmode: "numeric", value: String(STEPS), autocomplete: "off" });
  const status = el("p", { class: "hint", role: "status" });
  return {
    title: `Profile ${jobTitle(job)}`,
    content: [
      el("p", {}, "Its workers record what they do for some steps: ops, the reduction, waits, copies, checkpoints. Training goes on."),
      el("div", { class: "field" }, el("label", { for: "profile-steps" }, "Steps"), input),
      status,
    ],
    focus: input,
    confirm: "Record",
    async act() {
      const begun = await post(`jobs/${job.id}/profile`, { steps: stepsOf(input) });
      setText(status, stateInWords(begun));
      return untilDone(job.id, begun.id, status);
    },
  };
}

async function saveTrace(job, profile) {
  const url = URL.createObjectURL(await blobOf(`jobs/${job.id}/profile/trace?id=${profile.id}`));
  el("a", { href: url, download: `${job.id}-profile.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// "all ranks", "rank 0", "rank 1 the longest: 14 ms".
function where(cost, ranks) {
  if (cost.ranks.length === 1) return `rank ${cost.ranks[0].rank}`;
  const longest = cost.ranks.reduce((most, rank) => (rank.seconds > most.seconds ? rank : most));
  if (longest.seconds > ALIKE * cost.seconds) return `rank ${longest.rank} the longest: ${duration(longest.seconds)}`;
  return cost.ranks.length === ranks ? "all ranks" : `${cost.ranks.length} ranks`;
}

function costTable(profile) {
  const list = table("costs", COLUMNS, { "aria-label": "The ten largest costs" });
  for (const cost of profile.result.costs) {
    const { element, cells } = tableRow(COLUMNS);
    cells.cost.append(cost.name);
    cells.thread.append(cost.thread);
    cells.seconds.append(duration(cost.seconds));
    cells.share.append(`${(100 * cost.share).toFixed(1)}%`);
    cells.where.append(where(cost, profile.ranks.length));
    list.body.append(element);
  }
  return list.element;
}

function answer(job, profile, saved) {
  const { result } = profile;
  const file = el("code", {}, `${job.id}-profile.json`);
  const notes = profile.ranks.flatMap((rank) => [
    rank.reason && `Rank ${rank.rank} (${rank.worker}): ${rank.reason}`,
    rank.dropped_spans > 0 &&
      `Rank ${rank.rank} had no room for ${plural(rank.dropped_spans, "span")}: its costs are of the steps before.`,
  ]);
  return {
    title: `${jobTitle(job)}: a step takes ${duration(result.step_s)}`,
    content: [
      el(
        "p",
        {},
        `The mean of ${plural(result.steps, "step")}, ${count(result.first_step)} to ${count(result.last_step)}. ` +
          "Times are without what is listed within them, and threads run side by side.",
      ),
      ...notes.filter(Boolean).map((note) => el("p", { class: "hint" }, note)),
      costTable(profile),
      saved
        ? el("p", { class: "hint" }, "The trace is saved as ", file, "; ui.perfetto.dev opens it.")
        : el("p", { class: "hint" }, "The trace could not be saved: try again."),
    ],
    leave: "Close",
    confirm: saved ? "Save again" : "Save the trace",
    act: async () => {
      await saveTrace(job, profile);
      return true;
    },
  };
}

export async function profileJob(job) {
  const profile = await ask(question(job));
  if (!profile) return;
  announce(`${jobTitle(job)} is profiled.`);
  let saved = true;
  try {
    await saveTrace(job, profile);
  } catch (error) {
    if (!(error instanceof Problem || error instanceof Away)) throw error; // the costs are shown all the same
    saved = false;
  }
  await ask(answer(job, profile, saved));
}
