// The plan of the job in the form: what several nodes would do beside one, and settings that train the same and lose less to
// the network. The service plans; its settings are taken when the reader says so.
import { announce } from "./announce.js";
import { complaintOf, request } from "./api.js";
import { el, setAttribute, setText } from "./dom.js";
import { complaint } from "./spec_values.js";
import { table, tableRow } from "./table.js";
import { bytes, count, duration } from "./words.js";

const COLUMNS = [
  ["Compared", "setting"],
  ["Microbatch × accumulation, wire", "settings"],
  ["Tokens/s", "rate number"],
  ["Of one node", "share number"],
];
const POSITIVE = { type: "number", default: "", min: 0, max: 1e9, above_min: true, range: "above 0, at most 1e9" };

// The fields for the speed that the service may be told: {element, input, text, wrong}.
function numberField(name, label, help) {
  const id = `plan-${name}`;
  const input = el("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false" });
  const error = el("p", { class: "field-error", id: `${id}-error` });
  input.setAttribute("aria-describedby", `${id}-error ${id}-help`);
  const self = {
    name,
    input,
    element: el(
      "div",
      { class: "field" },
      el("label", { for: id }, label),
      input,
      error,
      el("p", { class: "hint", id: `${id}-help` }, help),
    ),
    text: () => input.value.trim(),
    wrong() {
      const said = complaint(POSITIVE, input.value);
      setText(error, said);
      setAttribute(input, "aria-invalid", said ? "true" : null);
      return said !== "";
    },
  };
  input.addEventListener("input", () => self.wrong());
  return self;
}

// The change of a setting in words: "batch_size 64".
const inWords = (changes) =>
  Object.entries(changes)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");

function comparison(rows) {
  const label = "One node alone, the settings as asked, and settings that train the same";
  const { element, body } = table("plan-rows", COLUMNS, { "aria-label": label });
  for (const row of rows) {
    const { element: line, cells } = tableRow(COLUMNS);
    setText(cells.setting, row.name);
    setText(cells.settings, row.settings);
    setText(cells.rate, count(row.tokens_per_s));
    setText(cells.share, `${row.of_one_node.toFixed(2)}×`);
    body.append(line);
  }
  return element;
}

function sources(plan) {
  const lines = [
    ["Device", `${duration(plan.microbatch_s)} a microbatch: ${plan.device_source}`],
    plan.nodes > 1 && ["Link", `${bytes(plan.link_bytes_per_s)}/s each way: ${plan.link_source}`],
    plan.device_memory_bytes && ["Memory", `${bytes(plan.device_memory_bytes)}: ${plan.memory_source}`],
  ].filter(Boolean);
  return el(
    "dl",
    { class: "plan-sources" },
    lines.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))),
  );
}

// specOf(): the JSON text of the form's spec, or null where the reader must mend it first. onProblem(error): a Problem about its
// fields. take(changes): puts settings, {name: value}, into the form.
export function submitPlan({ specOf, onProblem, take }) {
  const numbers = [
    numberField(
      "microbatch_s",
      "Seconds a microbatch",
      "Of one device, forward and backward. Empty: as a job here has measured it.",
    ),
    numberField(
      "link_mb_s",
      "Link, MB/s each way",
      "As holdfast netcheck measures it. Empty: as a job here has measured it, else 1 Gbit/s.",
    ),
  ];
  const button = el("button", { type: "button", class: "small" }, "Plan");
  const problem = el("p", { class: "error", role: "alert" });
  const status = el("p", { class: "hint", role: "status" });
  const result = el("div", { class: "plan-result" });
  const element = el(
    "section",
    { class: "card group plan", "aria-label": "Plan" },
    el("div", { class: "section-head" }, el("h2", {}, "Plan"), button),
    el(
      "p",
      { class: "hint" },
      "What several nodes would do beside one, and settings that train the same and lose less to the network.",
    ),
    el(
      "div",
      { class: "fields" },
      numbers.map((each) => each.element),
    ),
    problem,
    status,
    result,
  );
  let asking = null;

  function outdated() {
    if (!result.hasChildNodes()) return;
    result.replaceChildren();
    setText(status, "The form has changed: plan again.");
  }

  function show(plan) {
    const { changes } = plan.same_training;
    const some = Object.keys(changes).length > 0;
    const takeButton = el("button", { type: "button", class: "primary" }, "Take these settings");
    takeButton.addEventListener("click", () => {
      take(changes);
      setText(status, `Taken: ${inWords(changes)}.`);
      button.focus();
    });
    result.replaceChildren(
      el("p", { class: "plan-verdict" }, plan.verdict),
      ...(plan.nodes > 1 ? [comparison(plan.comparison)] : []),
      sources(plan),
      el(
        "ul",
        { class: "plan-notes" },
        plan.notes.map((note) => el("li", {}, `${note}.`)),
      ),
      ...(plan.nodes < 2
        ? []
        : [
            el(
              "div",
              { class: "plan-take" },
              el("p", {}, some ? `The same training, faster: ${inWords(changes)}` : "Nothing trains the same and is faster."),
              some && takeButton,
            ),
          ]),
    );
    announce(plan.verdict);
  }

  async function plan() {
    const wrong = numbers.filter((each) => each.wrong());
    if (wrong.length > 0) return wrong[0].input.focus();
    const spec = specOf();
    if (spec === null) return;
    const given = numbers.filter((each) => each.text() !== "").map((each) => `,"${each.name}":${Number(each.text())}`);
    asking?.abort();
    asking = new AbortController();
    setText(problem, "");
    setText(status, "");
    try {
      const { json } = await request("POST", "plan", { body: `{"spec":${spec}${given.join("")}}`, signal: asking.signal });
      show(json);
    } catch (error) {
      result.replaceChildren();
      const text = complaintOf(error);
      if (text !== "" && error.status === 400) onProblem(error);
      else setText(problem, text);
    }
  }
  button.addEventListener("click", plan);
  return { element, outdated, close: () => asking?.abort() };
}
