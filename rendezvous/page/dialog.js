// Asks before something is done that cannot be taken back, and shows what came of it.
import { el, setText } from "./dom.js";

let serial = 0;

// Shows `title` over `content` (nodes or text) with a button called `confirm` that runs `act()`. What act throws is shown, and
// the question stays. Resolves to what act returned, or to undefined when the reader thought better of it. Escape and Cancel
// leave; the focus begins on `focus`, else on Cancel for what does harm, and goes back where it was. `leave` is another word
// for Cancel. Without `confirm` there is nothing to decide, only something to read.
export function ask({ title, content, confirm = "", leave = "Cancel", harmful = false, focus = null, act }) {
  serial += 1;
  const heading = `dialog-title-${serial}`;
  const error = el("p", { class: "error", role: "alert" });
  const cancel = el("button", { type: "button" }, leave);
  const yes = el("button", { type: "submit", class: harmful ? "harmful" : "primary" }, confirm);
  const form = el(
    "form",
    { novalidate: true },
    el("h2", { id: heading }, title),
    el("div", { class: "dialog-content" }, content),
    error,
    el("div", { class: "dialog-buttons" }, cancel, confirm ? yes : null),
  );
  const dialog = el("dialog", { "aria-labelledby": heading }, form);
  let result;
  let busy = false;

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy || !confirm) return;
    busy = true;
    yes.setAttribute("aria-disabled", "true");
    setText(error, "");
    try {
      result = await act();
      dialog.close();
    } catch (problem) {
      setText(error, problem.message);
    } finally {
      busy = false;
      yes.removeAttribute("aria-disabled");
    }
  });
  cancel.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  (focus ?? (harmful || !confirm ? cancel : yes)).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
  });
}
