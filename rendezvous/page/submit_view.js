// The submit form, made from the service's own table of the job spec. Each field is checked while it is typed, and the whole
// spec by the service whenever the reader pauses, without making a job.
import { announce } from "./announce.js";
import { complaintOf, get } from "./api.js";
import { el, setText } from "./dom.js";
import { formField } from "./form_field.js";
import { jobTitle } from "./job_words.js";
import { hashOf } from "./router.js";
import { may, whyNot } from "./session.js";
import { groupFields } from "./spec_groups.js";
import { specText, textOf } from "./spec_values.js";
import { submission } from "./submission.js";
import { submitPlan } from "./submit_plan.js";
import { plural } from "./words.js";

const TYPING_MS = 400;

// The meaning of `from`: "j1" for a job like it, "j1@300" for one that goes on from that checkpoint.
async function template(from) {
  const [, id, step] = /^(\w+)(?:@(\d+))?$/.exec(from) ?? [];
  if (!id) return null;
  const job = await get(`jobs/${id}`);
  const spec = { ...job.spec, name: step && job.name ? `${job.name}-from-${step}` : job.name };
  spec.resume_from = step ? `job:${id}@${step}` : (spec.resume_from ?? "");
  if (step) spec.init_from = spec.after = ""; // the checkpoint has these weights, and that job has ended
  return { spec, text: step ? `As ${jobTitle(job)}, beginning from its checkpoint of step ${step}.` : `As ${jobTitle(job)}.` };
}

// The fields that a job of the chosen kind has. The field `kind` chooses, and so is always among them.
function ofChosenKind(fields) {
  const kind = fields.find((each) => each.field.name === "kind")?.text() === "serve" ? "serve" : "train";
  return fields.filter(({ field }) => field.name === "kind" || field.kind === "both" || field.kind === kind);
}

function fieldGroup({ title, open, fields }) {
  const grid = el(
    "div",
    { class: "fields" },
    fields.map((field) => field.element),
  );
  const hideWhenEmpty = (element) => (element.hidden = fields.every((field) => field.element.hidden));
  if (open) {
    const section = el("section", { class: "card group", "aria-label": title }, el("h2", {}, title), grid);
    section.tend = () => hideWhenEmpty(section);
    return section;
  }
  const note = el("span", { class: "group-note" });
  const element = el("details", { class: "card group" }, el("summary", {}, el("h2", {}, title), note), grid);
  element.tend = () => {
    hideWhenEmpty(element);
    const set = fields.filter((field) => !field.element.hidden && field.text().trim() !== "").length;
    setText(note, set > 0 ? `${set} set` : "defaults");
  };
  return element;
}

export function submitView(main, route) {
  const form = el("form", { class: "submit-form", novalidate: true, hidden: true });
  const origin = el("p", { class: "view-note" });
  const problem = el("div", { class: "error", role: "alert" });
  main.append(el("div", { class: "view-head" }, el("h1", { tabindex: "-1" }, "Submit a job"), origin), problem, form);
  const why = whyNot("submit", "submitting jobs");
  if (why) {
    setText(problem, why);
    return { title: "Submit" };
  }

  const sender = submission();
  const would = el("p", { class: "would" });
  const warnings = el("ul", { class: "warnings" });
  const status = el("p", { class: "submit-status", role: "status" });
  const button = el("button", { type: "submit", class: "primary" }, "Submit job");
  let fields = []; // of every kind of jobs
  let groups = [];
  let timer = 0;
  let sending = false;
  let attempted = false;
  let closed = false;

  const shown = () => ofChosenKind(fields);
  // Fields that are wrong by themselves are left out of the request, so that the service judges the rest meanwhile.
  const entries = () => shown().filter((each) => each.own() === "").map((each) => [each.field, each.text()]);
  const wrong = () => shown().filter((each) => each.complaint() !== "");

  function arrange() {
    const those = new Set(shown());
    for (const each of fields) each.element.hidden = !those.has(each);
    for (const group of groups) group.tend();
    planning.element.hidden = !fields.some((each) => each.field.name === "train_data_path" && those.has(each));
  }

  function showOutcome(answer) {
    setText(would, answer?.would ?? "");
    warnings.replaceChildren(
      ...(answer?.warnings ?? []).map((text) => el("li", {}, typeof text === "string" ? text : text.message)),
    );
  }
  function showErrors(error) {
    const unknown = [];
    for (const { field, message } of error.errors ?? []) {
      const target = shown().find((each) => each.field.name === field);
      if (target) target.setSaid(message);
      else unknown.push(field ? `${field}: ${message}` : message);
    }
    if ((error.errors ?? []).length === 0) unknown.push(error.message);
    setText(problem, unknown.join(" "));
  }
  const summarize = () => {
    const number = wrong().length;
    setText(
      status,
      number > 0 && attempted ? `${plural(number, "field")} ${number === 1 ? "needs" : "need"} another value.` : "",
    );
  };

  async function check() {
    setText(problem, "");
    try {
      const answer = await sender.wouldDo(specText(entries()));
      for (const each of fields) each.setSaid("");
      showOutcome(shown().every((each) => each.own() === "") ? answer : null);
    } catch (error) {
      const complaint = complaintOf(error);
      if (closed || complaint === "") return;
      showOutcome(null);
      for (const each of fields) each.setSaid("");
      showErrors(error);
    }
    summarize();
  }

  const onChange = () => {
    clearTimeout(timer);
    timer = setTimeout(check, TYPING_MS);
    arrange();
    planning.outdated();
  };

  function goTo(field) {
    const group = field.element.closest("details");
    if (group) group.open = true;
    field.input.focus();
  }

  function showWrong() {
    attempted = true;
    for (const each of shown()) each.touch();
    const first = wrong()[0];
    summarize();
    if (first) goTo(first);
    return first !== undefined;
  }

  const planning = submitPlan({
    // A plan needs no required field: what is empty is left to its default.
    specOf() {
      const bad = shown().filter((each) => each.text().trim() !== "" && each.own() !== "");
      for (const each of bad) each.touch();
      if (bad.length > 0) goTo(bad[0]);
      return bad.length > 0 ? null : specText(entries());
    },
    onProblem(error) {
      showErrors(error);
      const named = fields.filter((each) => error.errors.some(({ field }) => field === each.field.name));
      for (const each of named) each.touch();
      if (named.length > 0) goTo(named[0]);
    },
    take(changes) {
      for (const [name, value] of Object.entries(changes)) {
        const target = fields.find((each) => each.field.name === name);
        target.setText(textOf(target.field, value));
        const group = target.element.closest("details");
        if (group) group.open = true;
      }
      onChange();
    },
  });

  async function submit(event) {
    event.preventDefault();
    if (sending || showWrong()) return;
    clearTimeout(timer);
    sending = true;
    button.setAttribute("aria-disabled", "true");
    setText(button, "Submitting…");
    setText(problem, "");
    try {
      const job = await sender.submit(specText(entries()));
      announce(`${jobTitle(job)} is submitted as ${job.id}.`);
      location.hash = hashOf(["jobs", job.id]);
    } catch (error) {
      if (complaintOf(error) === "") setText(problem, error.message);
      else showErrors(error);
      showWrong();
    } finally {
      sending = false;
      button.removeAttribute("aria-disabled");
      setText(button, "Submit job");
    }
  }

  async function load() {
    try {
      const [table, like] = await Promise.all([get("job_spec"), route.query.from ? template(route.query.from) : null]);
      if (closed) return;
      const groupsOf = groupFields(table.fields).map((group) => ({
        ...group,
        fields: group.fields.map((field) => formField(field, onChange)),
      }));
      fields = groupsOf.flatMap((group) => group.fields);
      if (like) for (const each of fields) each.setText(textOf(each.field, like.spec[each.field.name]));
      groups = groupsOf.map(fieldGroup);
      arrange();
      setText(origin, like?.text ?? "");
      form.replaceChildren(
        ...groups,
        planning.element,
        el("div", { class: "submit-bar card" }, el("div", { class: "submit-said" }, would, warnings, status), button),
      );
      form.hidden = false;
      if (like) check();
    } catch (error) {
      if (closed) return;
      setText(
        problem,
        error.status === 404 && !route.query.from
          ? "This service does not describe its job spec. Use the command line: holdfast submit."
          : error.message,
      );
    }
  }
  form.addEventListener("submit", submit);
  if (may("submit")) load();
  return {
    title: "Submit",
    close() {
      closed = true;
      clearTimeout(timer);
      sender.close();
      planning.close();
    },
  };
}
