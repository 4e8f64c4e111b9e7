// One curve card: a heading with what the curve reads, and the curve (uPlot), which takes keys and touch as well as a mouse.
//
// All charts of a page share their cursor and their zoom. Colours come from the styles, so that light and dark are one drawing.
import { drawMarks } from "./chart_marks.js";
import { el, setAttribute, setText } from "./dom.js";
import { axisNumber, count } from "./words.js";

const HEIGHT = 190;
const STYLES = getComputedStyle(document.documentElement);
export const colour = (name) => STYLES.getPropertyValue(name).trim();

const FONT = '11px ui-sans-serif, system-ui, "Segoe UI", Roboto, sans-serif';

// Between two ticks of the axis of steps: there is no half a step.
const WHOLE_STEPS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

function axis(values, size) {
  return {
    stroke: () => colour("--muted"),
    font: FONT,
    values: (_, splits) => splits.map((value) => (value === null ? "" : values(value))),
    size,
    gap: 4,
    grid: { stroke: () => colour("--grid"), width: 1 },
    ticks: { show: false },
  };
}

function seriesOf({ label, colour: name, dash, dots, stepped, faint }) {
  return {
    label,
    dash,
    spanGaps: Boolean(dots),
    width: faint ? 0 : 1.5,
    stroke: () => (faint ? "transparent" : colour(name)),
    points: dots ? { show: true, size: 5, fill: () => colour(name), stroke: () => colour(name) } : { show: false },
    paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
  };
}

// From zero to a little above the largest; whole numbers where the values are.
function fromZero(u, _, max) {
  return [0, max > 0 ? max * 1.08 : 1];
}

export class Chart {
  // curve: {title, unit, series: [{name, label, colour, …}], read(value), zero: from zero on, band: [upper, lower] series
  // numbers, logarithmic: may be shown so}. `shared` is what all charts of the page have: {sync: a name, marks(),
  // onZoom(range)}.
  constructor(curve, shared) {
    this.curve = curve;
    this.shared = shared;
    this.logarithmic = false;
    this.data = [[], ...curve.series.map(() => [])];
    this.reading = el("span", { class: "chart-reading" });
    this.place = el("div", {
      class: "chart-place",
      tabindex: "0",
      role: "slider",
      "aria-label": `${curve.title} by step`,
      "aria-valuemin": "0",
      "aria-valuemax": "0",
      "aria-valuenow": "0",
    });
    this.none = el("p", { class: "chart-none" }, "Nothing yet");
    const scale =
      curve.logarithmic &&
      el("button", { type: "button", class: "tiny", "aria-pressed": "false", onclick: () => this.#toggleScale(scale) }, "Log");
    this.element = el(
      "figure",
      { class: "chart card" },
      el(
        "figcaption",
        {},
        el("h3", {}, curve.title, curve.unit ? el("span", { class: "unit" }, curve.unit) : null),
        this.reading,
        scale,
      ),
      el("div", { class: "chart-frame" }, this.place, this.none),
    );
    this.place.addEventListener("keydown", (event) => this.#onKey(event));
    this.place.addEventListener("blur", () => this.plot?.setCursor({ left: -10, top: -10 }, true, true));
  }

  #toggleScale(button) {
    this.logarithmic = !this.logarithmic;
    button.setAttribute("aria-pressed", String(this.logarithmic));
    this.#make();
  }

  #options(width) {
    const { curve, shared } = this;
    return {
      width,
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 10, 0, 0],
      cursor: {
        sync: { key: shared.sync, setSeries: false },
        drag: { x: true, y: false, setScale: false },
        y: false,
        points: { size: 7, width: 2 },
        bind: { dblclick: () => () => shared.onZoom(null) },
      },
      scales: { x: { time: false }, y: { range: curve.zero ? fromZero : undefined, distr: this.logarithmic ? 3 : 1 } },
      axes: [{ ...axis(axisNumber, 26), incrs: WHOLE_STEPS }, axis(curve.axis ?? axisNumber, 48)],
      series: [{}, ...curve.series.map(seriesOf)],
      bands: curve.band ? [{ series: curve.band, fill: () => colour("--band") }] : [],
      hooks: {
        setCursor: [() => this.#read()],
        drawAxes: [(u) => drawMarks(u, shared.marks(), colour, Boolean(curve.marksNamed))],
        setSelect: [(u) => this.#zoomToSelection(u)],
      },
    };
  }

  #zoomToSelection(u) {
    const { left, width } = u.select;
    if (width === 0) return;
    this.shared.onZoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  #make() {
    const range = this.plot && this.zoomed;
    this.plot?.destroy();
    this.plot = null;
    const width = this.place.clientWidth;
    if (width === 0 || this.data[0].length === 0) return;
    this.plot = new uPlot(this.#options(width), this.data, this.place);
    if (range) this.zoom(range);
  }

  show(data) {
    this.data = data;
    const some = data.slice(1).some((column) => column.some((value) => value !== null));
    this.none.hidden = some;
    setAttribute(this.place, "data-empty", some ? null : "");
    if (!some) return;
    if (!this.plot) this.#make();
    else if (this.zoomed) {
      this.plot.setData(data, false);
      this.plot.redraw();
    } else this.plot.setData(data);
    setAttribute(this.place, "aria-valuemax", data[0].at(-1));
    this.#read();
  }

  resize() {
    const width = this.place.clientWidth;
    if (!this.plot) return this.#make();
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  // [first step, last step], or null for the whole run.
  zoom(range) {
    this.zoomed = range;
    const steps = this.data[0];
    if (this.plot && steps.length > 0)
      this.plot.setScale("x", range ? { min: range[0], max: range[1] } : { min: steps[0], max: steps.at(-1) });
  }

  redraw() {
    this.plot?.redraw(false, true);
  }

  // The values under the cursor, else the newest there are.
  #read() {
    const steps = this.data[0];
    const under = this.plot?.cursor.idx;
    const pointed = under !== null && under !== undefined && this.plot.cursor.left >= 0;
    const at = pointed ? Math.min(under, steps.length - 1) : steps.length - 1;
    const parts = [];
    this.curve.series.forEach(({ label, colour: name, faint }, i) => {
      if (faint) return;
      const column = this.data[i + 1];
      const value = pointed ? column[at] : column.findLast((each) => each !== null);
      if (value === null || value === undefined) return;
      parts.push({
        label: this.curve.series.filter((series) => !series.faint).length > 1 ? label : "",
        name,
        text: this.curve.read(value),
      });
    });
    const values = parts.map(({ label, text }) => `${label} ${text}`.trim()).join(", ");
    const spoken = `step ${count(steps[at])}: ${values || "no value"}`;
    this.#write(pointed ? `step ${count(steps[at])}` : "", parts);
    setAttribute(this.place, "aria-valuenow", steps[at] ?? 0);
    setAttribute(this.place, "aria-valuetext", spoken);
  }

  #write(where, parts) {
    const words = [where && { label: where, name: "", text: "" }, ...parts].filter(Boolean);
    while (this.reading.children.length > words.length) this.reading.lastElementChild.remove();
    words.forEach(({ label, name, text }, i) => {
      let item = this.reading.children[i];
      if (!item)
        this.reading.append(
          (item = el("span", {}, el("span", { class: "chart-label" }), el("span", { class: "chart-value" }))),
        );
      setAttribute(item, "data-colour", name ? name.replace("--", "") : null);
      setText(item.firstElementChild, label);
      setText(item.lastElementChild, text);
    });
  }

  #onKey(event) {
    const steps = this.data[0];
    if (!this.plot || steps.length === 0) return;
    const far = Math.max(1, Math.round(steps.length / 10));
    const now = this.plot.cursor.left >= 0 ? this.plot.cursor.idx : steps.length - 1;
    const to = {
      ArrowLeft: now - 1,
      ArrowRight: now + 1,
      PageDown: now - far,
      PageUp: now + far,
      Home: 0,
      End: steps.length - 1,
    }[event.key];
    if (event.key === "Escape") this.shared.onZoom(null);
    if (to === undefined) return;
    event.preventDefault();
    const at = Math.max(0, Math.min(steps.length - 1, to));
    this.plot.setCursor({ left: this.plot.valToPos(steps[at], "x"), top: 20 }, true, true);
  }

  close() {
    this.plot?.destroy();
    this.plot = null;
  }
}
