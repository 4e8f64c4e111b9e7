// The actions on a job: pause, resume, scale, profile, stop, submit again. Each asks first where it does harm, and says what it
// does.
import { post } from "./api.js";
import { announce } from "./announce.js";
import { ask } from "./dialog.js";
import { el, setAttribute } from "./dom.js";
import { profileJob } from "./job_profile.js";
import { isEnded, isServing, jobTitle, stepsOf } from "./job_words.js";
import { hashOf } from "./router.js";
import { may, whyNot } from "./session.js";
import { count } from "./words.js";

const paragraph = (text) => el("p", {}, text);

function pauseQuestion(job) {
  return {
    title: `Pause ${jobTitle(job)}?`,
    content: paragraph(
      "It writes a checkpoint of its step and frees its workers, which other jobs may take. Resume goes on from there.",
    ),
    confirm: "Pause",
  };
}

function stopQuestion(job) {
  return {
    title: `Stop ${jobTitle(job)}?`,
    content: [
      paragraph(
        `It has come to step ${stepsOf(job)}. It ends for good, as “cancelled”, ` +
          "with a checkpoint where it has trained.",
      ),
      paragraph("To go on later, pause it instead, or begin a new job from that checkpoint."),
    ],
    confirm: "Stop job",
    harmful: true,
  };
}

// A whole number of workers from `low` to `high`; null, with the reason shown, where it is none.
function numberOf(field, low, high) {
  const value = /^\d+$/.test(field.value.trim()) ? Number(field.value) : Number.NaN;
  const wrong = Number.isNaN(value) || value < low || value > high;
  setAttribute(field, "aria-invalid", wrong ? "true" : null);
  if (wrong) throw new Error(`Enter whole numbers from ${low} to ${count(high)}.`);
  return value;
}

function scaleQuestion(job) {
  const { min_nodes: min, nodes, max_nodes: max } = job.wanted;
  const most = 65536;
  const field = (id, label, value, help) => {
    const input = el("input", {
      id,
      inputmode: "numeric",
      value: String(value),
      autocomplete: "off",
      "aria-describedby": `${id}-help`,
    });
    return {
      input,
      element: el(
        "div",
        { class: "field" },
        el("label", { for: id }, label),
        input,
        el("p", { class: "hint", id: `${id}-help` }, help),
      ),
    };
  };
  const wanted = field(
    "scale-nodes",
    "Workers",
    nodes,
    `It has ${job.world_size} now. It takes as many as these where they are there.`,
  );
  const least = field("scale-min", "At least", min, "With fewer it waits.");
  const highest = field("scale-max", "At most", max, "Idle workers join by themselves up to this.");
  // Whoever asks for so many workers means so many, as the command line does, until they say otherwise.
  const touched = new Set();
  for (const each of [least, highest]) each.input.addEventListener("input", () => touched.add(each));
  wanted.input.addEventListener("input", () => {
    const value = Number(wanted.input.value);
    if (!(value >= 1)) return;
    if (!touched.has(highest)) highest.input.value = String(value);
    if (!touched.has(least)) least.input.value = String(Math.min(min, value));
  });
  return {
    title: `Scale ${jobTitle(job)}`,
    content: [
      paragraph(
        isServing(job)
          ? "Texts of a replica that goes are written on by the others, and are the same."
          : "The global batch stays the same: workers share it out anew, and the bits of the result do not change.",
      ),
      el("div", { class: "fields-three" }, wanted.element, least.element, highest.element),
    ],
    focus: wanted.input,
    confirm: "Scale",
    body: () => ({
      nodes: numberOf(wanted.input, 1, most),
      min_nodes: numberOf(least.input, 1, most),
      max_nodes: numberOf(highest.input, 1, most),
    }),
  };
}

// Resume asks nothing: it takes nothing from anybody. `itself`: the action asks and shows everything by itself.
const ACTIONS = [
  {
    verb: "pause",
    label: "Pause",
    question: pauseQuestion,
    fits: (job) => !isEnded(job) && job.state !== "paused",
    said: "is asked to pause",
  },
  { verb: "resume", label: "Resume", question: null, fits: (job) => job.state === "paused", said: "is asked to go on" },
  { verb: "scale", label: "Scale", question: scaleQuestion, fits: (job) => !isEnded(job), said: "is asked to change its size" },
  { verb: "profile", label: "Profile", itself: profileJob, fits: (job) => job.state === "running" },
  { verb: "stop", label: "Stop", question: stopQuestion, fits: (job) => !isEnded(job), said: "is asked to stop" },
];

// Buttons for `current()`, put into `place`; changed(job) gets what the service answers.
export function jobActions(place, id, current, changed) {
  const why = whyNot("submit", "steering or submitting jobs");
  const note = el("p", { class: "why-not", id: "actions-why-not" }, why);
  const error = el("p", { class: "error", role: "alert" });
  const allowed = may("submit");

  async function run({ verb, question, said, itself }) {
    const job = current();
    if (itself) return itself(job);
    const asked = question?.(job);
    const act = () => post(`jobs/${id}/${verb}`, asked?.body?.() ?? {});
    try {
      error.textContent = "";
      const shown = asked ? await ask({ ...asked, act }) : await act();
      if (!shown) return;
      announce(`${jobTitle(job)} ${said}.`);
      changed(shown);
    } catch (problem) {
      error.textContent = problem.message;
    }
  }

  const described = { "aria-describedby": allowed ? null : "actions-why-not", "aria-disabled": allowed ? null : "true" };
  const buttons = ACTIONS.map((action) => {
    const button = el(
      "button",
      { type: "button", class: action.verb === "stop" ? "harmful-quiet" : "", ...described },
      action.label,
    );
    button.addEventListener("click", () => allowed && run(action));
    return { action, button };
  });
  const again = el("a", { class: "button", href: hashOf(["submit"], { from: id }), hidden: true }, "Submit again");
  place.append(...buttons.map(({ button }) => button), again);

  return {
    messages: el("div", { class: "action-messages" }, why ? note : null, error),
    update(job) {
      for (const { action, button } of buttons) {
        const fits = action.fits(job);
        // A button that goes away must not take the focus with it.
        if (!fits && document.activeElement === button) document.querySelector("h1")?.focus({ preventScroll: true });
        button.hidden = !fits;
      }
      again.hidden = !allowed || !isEnded(job);
    },
  };
}
