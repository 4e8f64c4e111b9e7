// The points of a run's curves, kept few enough to draw however long the run is.
//
// Promises: steps ascend strictly; a point that comes again at a step that is there, or below it, voids what stood from that
// step on (the job went back to a checkpoint); at most `most` points are held: when there are more, neighbours become one that
// stands for both (means weighted by the steps they stand for; the extremes of the loss are kept). Each change of generation is
// kept as a mark, whatever is thinned.
import { finite } from "./words.js";

const MEANS = ["loss", "learning_rate", "gradient_norm", "tokens_per_second", "step_s", "communication_s"];
const MARKS_MAX = 500;

function pointOf(row) {
  const loss = finite(row.loss);
  const point = {
    step: row.step,
    steps: row.steps ?? 1,
    generation: row.generation ?? null,
    world_size: finite(row.world_size),
    validation_loss: finite(row.validation_loss),
    loss_min: finite(row.loss_min) ?? loss,
    loss_max: finite(row.loss_max) ?? loss,
  };
  for (const name of MEANS) point[name] = finite(row[name]);
  return point;
}

function mean(a, b, name) {
  if (a[name] === null || b[name] === null) return a[name] ?? b[name];
  return (a[name] * a.steps + b[name] * b.steps) / (a.steps + b.steps);
}

const extreme = (choose, a, b) => (a === null || b === null ? (a ?? b) : choose(a, b));

function merged(a, b) {
  const point = { ...b, steps: a.steps + b.steps };
  for (const name of MEANS) point[name] = mean(a, b, name);
  point.validation_loss = b.validation_loss ?? a.validation_loss;
  point.loss_min = extreme(Math.min, a.loss_min, b.loss_min);
  point.loss_max = extreme(Math.max, a.loss_max, b.loss_max);
  return point;
}

export class CurvePoints {
  constructor(most = 3000) {
    this.most = most;
    this.points = [];
    this.marks = []; // {step, generation, world_size}: the first step of each generation
  }

  get last() {
    return this.points.at(-1) ?? null;
  }

  append(row) {
    const point = pointOf(row);
    this.#voidFrom(point.step);
    // A service need not say it again with each step.
    if (point.world_size === null && this.last?.generation === point.generation) point.world_size = this.last.world_size;
    if (point.generation !== null && point.generation !== this.marks.at(-1)?.generation) {
      this.marks.push({ step: point.step, generation: point.generation, world_size: point.world_size });
      if (this.marks.length > MARKS_MAX) this.marks.shift();
    }
    this.points.push(point);
    if (this.points.length > this.most) this.#thin();
  }

  #voidFrom(step) {
    while (this.last && this.last.step >= step) this.points.pop();
    while (this.marks.length > 0 && this.marks.at(-1).step >= step) this.marks.pop();
  }

  // The older half only, again and again: the newest points stay as fine as they came.
  #thin() {
    const older = Math.floor(this.points.length / 2);
    const kept = [];
    for (let i = 0; i + 1 < older; i += 2) kept.push(merged(this.points[i], this.points[i + 1]));
    if (older % 2 === 1) kept.push(this.points[older - 1]);
    this.points = kept.concat(this.points.slice(older));
  }

  // [[steps…], [values of names[0]…], …], as the plotting library takes them.
  columns(names) {
    return [this.points.map((point) => point.step), ...names.map((name) => this.points.map((point) => point[name]))];
  }

  indexOf(step) {
    let low = 0;
    let high = this.points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.points[middle].step < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
