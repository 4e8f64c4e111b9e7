// One job: what it does now, its curves, and everything that is known of it; alive while it is looked at.
import { Away, complaintOf, get } from "./api.js";
import { el } from "./dom.js";
import { jobActions } from "./job_actions.js";
import { jobCheckpoints } from "./job_checkpoints.js";
import { jobCurves } from "./job_curves.js";
import { jobEvents } from "./job_events.js";
import { jobHead } from "./job_head.js";
import { jobLogs } from "./job_logs.js";
import { jobMembers } from "./job_members.js";
import { jobSpecList } from "./job_spec_list.js";
import { jobTexts } from "./job_texts.js";
import { isEnded, isServing, jobTitle } from "./job_words.js";
import { onConnectionChange, isAway } from "./connection.js";
import { poll } from "./poll.js";
import { hashOf } from "./router.js";

const POLL_MS = 1000;
const POLL_ENDED_MS = 10000;
const SECTIONS = ["curves", "members", "events", "logs", "checkpoints", "spec"];
const SECTIONS_OF_SERVING = ["texts", "members", "events", "logs", "spec"];

function missing(main, id, status, text, focusHeading) {
  main.replaceChildren(
    el(
      "section",
      { class: "empty card" },
      el("h1", { tabindex: "-1" }, status === 404 ? `There is no job ${id}` : "This job cannot be shown"),
      el("p", {}, text),
      el("a", { class: "button", href: "#/jobs" }, "All jobs"),
    ),
  );
  focusHeading();
}

function sectionLinks(id, sections, reveal) {
  const link = (name) => {
    const href = hashOf(["jobs", id, name]);
    // The address that is there already makes no event.
    return el(
      "a",
      { href, onclick: () => location.hash === href && reveal(name, true) },
      name[0].toUpperCase() + name.slice(1),
    );
  };
  return el("nav", { class: "section-links", "aria-label": "Parts of this page" }, sections.map(link));
}

// The same request may be answered in a moment.
const passes = (problem) => problem instanceof Away || problem.status === 429 || problem.status >= 500;

// Starts the parts of the page. again(): those that could not be loaded, for a reason that passes.
function startEach(parts) {
  const waiting = new Set(parts);
  const start = async (part) => {
    waiting.delete(part);
    try {
      await part();
    } catch (problem) {
      if (passes(problem)) waiting.add(part);
      else complaintOf(problem);
    }
  };
  const again = () => [...waiting].forEach(start);
  again();
  return { again, forget: onConnectionChange(() => !isAway() && again()) };
}

export function jobView(main, route, focusHeading) {
  const id = route.parts[1];
  if (!/^\w+$/.test(id)) {
    missing(main, id, 404, "A job's id is a letter and a number, such as j1.", focusHeading);
    return { title: id };
  }
  let job = null;
  let shownState = "";

  const head = jobHead(id);
  const actions = jobActions(
    head.actions,
    id,
    () => job,
    (answer) => update(answer),
  );
  const curves = jobCurves(id, () => job);
  const texts = jobTexts(id);
  const members = jobMembers();
  const checkpoints = jobCheckpoints(id, (all) => curves.markCheckpoints(all));
  const events = jobEvents(id, () => job, onEvents);
  const logs = jobLogs(id, () => job);
  const spec = jobSpecList(id);
  const links = el("div");
  const page = el(
    "div",
    { class: "job-page", hidden: true },
    head.element,
    actions.messages,
    links,
    texts.element,
    curves.element,
    el("div", { class: "side-by-side" }, members.element, events.element),
    logs.element,
    checkpoints.element,
    spec.element,
  );
  main.append(page);

  let sections = SECTIONS;
  function reveal(section, smooth) {
    const target = sections.includes(section) && document.getElementById(`section-${section}`);
    if (!target) return;
    target.scrollIntoView({ behavior: smooth && !matchMedia("(prefers-reduced-motion: reduce)").matches ? "smooth" : "auto" });
    const heading = target.querySelector("h2");
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }

  // The parts of the page depend on what the job does, which never changes.
  function arrange() {
    const serving = isServing(job);
    if (serving) sections = SECTIONS_OF_SERVING;
    links.replaceWith(sectionLinks(id, sections, reveal));
    texts.element.hidden = !serving;
    curves.element.hidden = serving;
    checkpoints.element.hidden = serving;
    return serving ? [texts.start, events.start] : [curves.start, events.start, checkpoints.load];
  }

  function update(now) {
    job = now;
    head.update(job);
    actions.update(job);
    members.update(job);
    spec.update(job);
    if (shownState !== job.state + job.name) document.title = `${jobTitle(job)}: ${job.state} · Holdfast`;
    shownState = job.state + job.name;
  }

  function onEvents(rows) {
    polling.now();
    if (!isServing(job) && rows.some((row) => row.kind.startsWith("checkpoint_"))) checkpoints.load().catch(complaintOf);
  }

  let parts = { again() {}, forget() {} };
  let told = ""; // why there is no job to be seen yet
  let closed = false;
  const polling = poll(
    async () => {
      try {
        const answer = await get(`jobs/${id}`);
        if (closed) return;
        const first = job === null;
        update(answer);
        if (!first) return parts.again();
        const arranged = arrange();
        if (told) main.replaceChildren(page);
        page.hidden = false;
        if (route.parts[2]) reveal(route.parts[2], false);
        else focusHeading();
        parts = startEach(arranged);
      } catch (problem) {
        const complaint = complaintOf(problem);
        if (job !== null || !complaint || closed || complaint === told) return;
        told = complaint;
        missing(main, id, problem.status, complaint, focusHeading);
        if (problem.status === 404) polling.close();
      }
    },
    () => (job && isEnded(job) ? POLL_ENDED_MS : POLL_MS),
  );

  return {
    title: id,
    update: (changed) => reveal(changed.parts[2], true),
    close() {
      closed = true;
      parts.forget();
      polling.close();
      for (const part of [curves, texts, checkpoints, events, logs]) part.close();
    },
  };
}
