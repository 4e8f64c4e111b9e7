// The top of a job's page: name, state, why it waits, progress with ETA, and the numbers people look for first.
import { announce } from "./announce.js";
import { el, setAttribute, setText } from "./dom.js";
import { checkpointAge, isEnded, isServing, jobTitle, progressBar, stateBadge, stepsOf } from "./job_words.js";
import { clock, compact, count, duration, fullTime, measure, percent, plural, secondsSince, UNKNOWN } from "./words.js";

function tile(title) {
  const value = el("dd", { class: "tile-value" });
  const note = el("dd", { class: "tile-note" });
  return {
    element: el("div", { class: "tile" }, el("dt", {}, title), value, note),
    update(text, more = "") {
      setText(value, text);
      setText(note, more);
    },
  };
}

function remaining(job) {
  if (isEnded(job)) return job.finished_at ? `ended ${clock(job.finished_at)}` : "";
  if (job.eta_s === null || job.eta_s === undefined) return "";
  return `ETA ${duration(job.eta_s)} · done about ${clock(Date.now() + 1000 * job.eta_s)}`;
}

// How long it has run, or ran.
function elapsed(job) {
  if (!job.started_at) return UNKNOWN;
  return duration(secondsSince(job.started_at, job.finished_at ? Date.parse(job.finished_at) : Date.now()));
}

function labels(job) {
  return Object.entries(job.labels ?? job.spec?.labels ?? {}).map(([key, value]) =>
    el("span", { class: "label" }, `${key}=${value}`),
  );
}

export function jobHead(id) {
  const title = el("h1", { tabindex: "-1" }, id);
  const badge = stateBadge();
  const reason = el("p", { class: "reason" });
  const words = el("p", { class: "job-facts" });
  const tags = el("span", { class: "labels" });
  const bar = progressBar("Progress");
  const steps = el("span");
  const eta = el("span", { class: "eta" });
  const progress = el("div", { class: "progress-line" }, steps, eta);
  const tiles = Object.fromEntries(
    ["Loss", "Tokens/s", "Workers", "Generation", "Last checkpoint", "Running for"].map((name) => [name, tile(name)]),
  );
  const actions = el("div", { class: "actions" });
  let before = null;
  let labelled = "";

  const element = el(
    "header",
    { class: "job-head" },
    el("div", { class: "view-head" }, el("div", { class: "job-title" }, title, badge.element), actions),
    words,
    reason,
    el(
      "div",
      { class: "card job-progress" },
      progress,
      bar.element,
      el(
        "dl",
        { class: "tiles" },
        Object.values(tiles).map((each) => each.element),
      ),
    ),
  );

  function updateTiles(job) {
    tiles.Loss.update(
      measure(job.loss),
      typeof job.validation_loss === "number" ? `validation ${measure(job.validation_loss)}` : "",
    );
    tiles["Tokens/s"].update(
      compact(job.tokens_per_second),
      job.refused_steps > 0 ? `${plural(job.refused_steps, "step")} refused` : "",
    );
    const { min_nodes: min, nodes, max_nodes: max } = job.wanted ?? {};
    tiles.Workers.update(count(job.world_size), nodes ? `wanted ${nodes}, ${min} to ${max}` : "");
    tiles.Generation.update(count(job.generation), plural(job.restarts, "restart"));
    tiles["Last checkpoint"].update(
      checkpointAge(job),
      job.latest_checkpoint ? `step ${count(job.latest_checkpoint.step)}` : "",
    );
    tiles["Running for"].update(elapsed(job), job.started_at ? `since ${clock(job.started_at)}` : "not started");
  }

  function updateFacts(job) {
    const text = [
      job.name ? job.id : "",
      job.spec?.model && `${job.spec.model} model`,
      `submitted ${clock(job.submitted_at)}`,
      job.priority ? `priority ${job.priority}` : "",
    ];
    const shown = JSON.stringify([text, job.labels, job.spec?.labels]);
    if (shown === labelled) return;
    labelled = shown;
    tags.replaceChildren(...labels(job));
    words.replaceChildren(text.filter(Boolean).join(" · "), tags);
    words.title = fullTime(job.submitted_at);
  }

  return {
    element,
    actions,
    update(job) {
      setText(title, jobTitle(job));
      badge.update(job.state);
      setText(reason, job.waits_for?.text || job.reason || "");
      setAttribute(reason, "data-state", job.state);
      reason.hidden = reason.textContent === "";
      bar.update(job);
      // A job that serves has no steps, losses or checkpoints.
      const serving = isServing(job);
      for (const name of ["Loss", "Tokens/s", "Last checkpoint"]) tiles[name].element.hidden = serving;
      for (const each of [bar.element, steps]) each.hidden = serving;
      progress.hidden = serving && !isEnded(job);
      setText(steps, `Step ${stepsOf(job)} · ${percent(job.step, job.total_steps)}`);
      setText(eta, remaining(job));
      updateFacts(job);
      updateTiles(job);
      if (before && before !== job.state) announce(`${jobTitle(job)} is ${job.state}${job.reason ? `: ${job.reason}` : ""}.`);
      before = job.state;
    },
  };
}
