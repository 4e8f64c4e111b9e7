// Words for a job that several views share: its state, its progress, its newest checkpoint.
import { el, setAttribute, setText } from "./dom.js";
import { age, count, percent, UNKNOWN } from "./words.js";

export const STATES = ["running", "queued", "waiting", "paused", "succeeded", "failed", "cancelled"];
const ENDED = new Set(["succeeded", "failed", "cancelled"]);
export const isEnded = (job) => ENDED.has(job.state);

// The state in words and colour.
export function stateBadge() {
  const element = el("span", { class: "badge" });
  return {
    element,
    update(state) {
      setText(element, state);
      setAttribute(element, "data-state", state);
    },
  };
}

export function progressBar(label) {
  const fill = el("span", { class: "progress-fill" });
  const element = el("span", { class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": "0" }, fill);
  return {
    element,
    update(job) {
      setAttribute(element, "aria-valuemax", job.total_steps ?? 0);
      setAttribute(element, "aria-valuenow", job.step);
      setAttribute(element, "aria-valuetext", stepsInWords(job));
      setAttribute(element, "data-state", job.state);
      fill.style.width = `${job.total_steps > 0 ? (100 * job.step) / job.total_steps : 0}%`;
    },
  };
}

// "12 of 100 steps"; a job that counts epochs has no number of steps before a worker has seen its data.
// A job that serves does no steps.
export const isServing = (job) => job.kind === "serve";
export const stepsOf = (job) => isServing(job) ? "none" : (job.total_steps > 0 ? `${count(job.step)} of ${count(job.total_steps)}` : count(job.step));

const stepsInWords = (job) => `step ${stepsOf(job)}, ${percent(job.step, job.total_steps)}`;

export function checkpointAge(job) {
  return job.latest_checkpoint ? age(job.latest_checkpoint.age_s) : UNKNOWN;
}

export const jobTitle = (job) => job.name || job.id;
