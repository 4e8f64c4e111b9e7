// A job's curves: the whole run as far as it has come, then each point as it is made.
//
// The service thins the run to POINTS; what comes live is thinned here (curve_points.js). The curves are drawn a few times a
// second at most, and not while nobody sees them.
import { get } from "./api.js";
import { Chart } from "./chart.js";
import { CurvePoints } from "./curve_points.js";
import { el, setText } from "./dom.js";
import { follow } from "./follow.js";
import { isEnded } from "./job_words.js";
import { watchSight } from "./sight.js";
import { axisNumber, compact, count, duration, measure, plural } from "./words.js";

const POINTS = 1200;
const DRAW_MS = 250;

const rate = (value) => (value === 0 ? "0" : value.toExponential(2));
const CURVES = [
  {
    title: "Loss",
    read: measure,
    axis: measureAxis,
    band: [1, 2],
    logarithmic: true,
    marksNamed: true,
    series: [
      { name: "loss_max", label: "largest", colour: "--band", faint: true },
      { name: "loss_min", label: "smallest", colour: "--band", faint: true },
      { name: "loss", label: "training", colour: "--curve-1" },
      { name: "validation_loss", label: "validation", colour: "--curve-2", dots: true },
    ],
  },
  {
    title: "Tokens per second",
    read: compact,
    zero: true,
    series: [{ name: "tokens_per_second", label: "tokens/s", colour: "--curve-3" }],
  },
  {
    title: "Gradient norm",
    read: measure,
    axis: measureAxis,
    zero: true,
    series: [{ name: "gradient_norm", label: "norm", colour: "--curve-4" }],
  },
  {
    title: "Learning rate",
    read: rate,
    axis: rateAxis,
    zero: true,
    series: [{ name: "learning_rate", label: "rate", colour: "--curve-1" }],
  },
  {
    title: "Step time",
    read: duration,
    axis: secondsAxis,
    zero: true,
    series: [
      { name: "step_s", label: "step", colour: "--curve-1" },
      { name: "communication_s", label: "communication", colour: "--curve-2" },
    ],
  },
  {
    title: "World size",
    read: count,
    axis: wholeAxis,
    zero: true,
    series: [{ name: "world_size", label: "workers", colour: "--curve-3", stepped: true }],
  },
];

function measureAxis(value) {
  return value >= 1000 ? axisNumber(value) : String(Number(value.toPrecision(4)));
}
function rateAxis(value) {
  return value === 0 ? "0" : Number(value.toPrecision(3)).toExponential().replace("e+0", "");
}
function secondsAxis(value) {
  return value === 0 ? "0" : value < 1 ? `${Number((1000 * value).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`;
}
function wholeAxis(value) {
  return Number.isInteger(value) ? String(value) : "";
}

// The run so far, and the id after which its stream goes on.
async function loadRun(job, take, signal) {
  const reply = await get(`jobs/${job}/metrics`, { points: POINTS }, signal);
  reply.metrics.forEach(take);
  return reply.last_id;
}

export function jobCurves(id, current) {
  const points = new CurvePoints();
  const stop = new AbortController();
  let checkpoints = [];
  let stream = null;
  let drawn = 0;
  let planned = 0;
  let seen = true;
  let stale = false;

  const generations = el("span", { class: "legend-generation" });
  const kept = el("span", { class: "legend-checkpoint" });
  const whole = el("button", { type: "button", class: "small", hidden: true, onclick: () => zoom(null) }, "Whole run");
  // Where the first generation began, nothing changed.
  const shared = {
    sync: `job-${id}`,
    marks: () => ({ generations: points.marks.slice(1), checkpoints }),
    onZoom: (range) => zoom(range),
  };
  const charts = CURVES.map((curve) => new Chart(curve, shared));
  const grid = el(
    "div",
    { class: "charts" },
    charts.map((chart) => chart.element),
  );
  const element = el(
    "section",
    { class: "job-section", id: "section-curves", "aria-labelledby": "heading-curves" },
    el(
      "div",
      { class: "section-head" },
      el("h2", { id: "heading-curves" }, "Curves"),
      el("p", { class: "legend" }, generations, kept),
      whole,
    ),
    grid,
  );

  function zoom(range) {
    whole.hidden = range === null;
    for (const chart of charts) chart.zoom(range);
  }

  // One curve a frame, so that no task is long.
  function drawFrom(number) {
    if (stop.signal.aborted) return;
    const { curve } = charts[number];
    charts[number].show(points.columns(curve.series.map(({ name }) => name)));
    if (number + 1 < charts.length) requestAnimationFrame(() => drawFrom(number + 1));
    else planned = 0;
  }
  function draw() {
    if (!seen || document.hidden) {
      planned = 0;
      stale = true;
      return;
    }
    stale = false;
    drawn = performance.now();
    setText(generations, plural(points.marks.length, "generation"));
    setText(kept, plural(checkpoints.length, "checkpoint"));
    drawFrom(0);
  }
  const plan = () => {
    planned ||= setTimeout(() => requestAnimationFrame(draw), Math.max(0, drawn + DRAW_MS - performance.now()));
  };
  const drawIfStale = () => stale && plan();

  const endSight = watchSight(grid, "300px", (now) => {
    seen = now;
    drawIfStale();
  });
  const sizes = new ResizeObserver(() => requestAnimationFrame(() => charts.forEach((chart) => chart.resize())));
  sizes.observe(grid);
  const repaint = () => charts.forEach((chart) => chart.redraw());
  document.addEventListener("themechange", repaint);
  document.addEventListener("visibilitychange", drawIfStale);

  // Where the points of the service do not tell the world size, the job does, of its generation.
  function take(row) {
    const job = current();
    points.append(row.generation === job.generation ? { world_size: job.world_size || null, ...row } : row);
  }

  async function start() {
    const after = await loadRun(id, take, stop.signal);
    plan();
    if (stop.signal.aborted) return;
    stream = follow(`jobs/${id}/metrics`, {
      after,
      isOver: () => isEnded(current()),
      onRows(rows) {
        rows.forEach(take);
        plan();
      },
    });
  }

  return {
    element,
    start,
    markCheckpoints(steps) {
      checkpoints = steps;
      plan();
    },
    close() {
      stop.abort();
      stream?.close();
      clearTimeout(planned);
      endSight();
      sizes.disconnect();
      document.removeEventListener("themechange", repaint);
      document.removeEventListener("visibilitychange", drawIfStale);
      for (const chart of charts) chart.close();
    },
  };
}
