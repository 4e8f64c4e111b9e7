// A job's spec, as it was resolved when it was submitted: every field with its value.
import { el } from "./dom.js";
import { hashOf } from "./router.js";
import { may } from "./session.js";

function valueInWords(value) {
  if (value === "" || value === null) return "–";
  if (typeof value !== "object") return String(value);
  const pairs = Object.entries(value).map(([key, text]) => `${key}=${text}`);
  return pairs.length > 0 ? pairs.join(", ") : "–";
}

export function jobSpecList(id) {
  const list = el("dl", { class: "spec" });
  let shown = false;
  return {
    element: el(
      "section",
      { class: "job-section card", id: "section-spec", "aria-labelledby": "heading-spec" },
      el(
        "div",
        { class: "section-head" },
        el("h2", { id: "heading-spec" }, "Spec"),
        may("submit") && el("a", { href: hashOf(["submit"], { from: id }) }, "Submit one like it"),
      ),
      list,
    ),
    // It never changes once the job is there.
    update(job) {
      if (shown || !job.spec) return;
      shown = true;
      list.replaceChildren(
        ...Object.entries(job.spec).map(([name, value]) =>
          el("div", {}, el("dt", {}, name), el("dd", {}, valueInWords(value))),
        ),
      );
    },
  };
}
