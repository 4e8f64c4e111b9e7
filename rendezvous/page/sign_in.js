// The view that asks for a token, and finds out whose it is.
import { get, Problem } from "./api.js";
import { el, setText } from "./dom.js";
import { keepToken, setIdentity, token } from "./session.js";

// Throws Problem (401: nobody's token) or Away.
export async function identify() {
  try {
    const { token: identity } = await get("whoami");
    if (identity.role === "worker") {
      keepToken("", false);
      throw new Problem(403, { detail: "This is a worker's token. People sign in with a read, submit or admin token." });
    }
    setIdentity(identity);
  } catch (error) {
    if (error.status !== 404) throw error;
    await get("jobs", { limit: 1 }); // a service that knows one kind of people: those with its admin token
    setIdentity({ id: "admin", name: "admin", role: "admin" });
  }
}

export function signInView(main, { message, done }) {
  const error = el("p", { class: "error", role: "alert", id: "sign-in-error" }, message);
  const field = el("input", {
    id: "token",
    type: "password",
    autocomplete: "current-password",
    spellcheck: "false",
    required: true,
    "aria-describedby": "token-help sign-in-error",
  });
  const keep = el("input", { type: "checkbox", id: "keep" });
  const button = el("button", { type: "submit", class: "primary" }, "Sign in");
  let busy = false;

  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    const value = field.value.trim();
    // A header can carry no other characters; a token has none.
    const wrong =
      value === "" ? "Enter a token." : /[^\x21-\x7e]/.test(value) ? "A token has no spaces and no letters with accents." : "";
    setText(error, wrong);
    if (wrong) return field.focus();
    busy = true;
    setText(button, "Signing in…");
    keepToken(value, keep.checked);
    try {
      await identify();
      done();
    } catch (problem) {
      if (token() !== "") keepToken("", false);
      field.setAttribute("aria-invalid", "true");
      setText(error, problem.status === 401 ? "The service does not know this token." : problem.message);
      field.select();
      field.focus();
    } finally {
      busy = false;
      setText(button, "Sign in");
    }
  };

  main.replaceChildren(
    el(
      "section",
      { class: "sign-in card" },
      el("h1", { tabindex: "-1" }, "Sign in"),
      el(
        "form",
        { novalidate: true, onsubmit: submit },
        // For password managers, which file a password under a name.
        el("input", {
          class: "visually-hidden",
          autocomplete: "username",
          value: "holdfast",
          tabindex: "-1",
          "aria-hidden": "true",
          readonly: true,
        }),
        el("label", { for: "token" }, "Access token"),
        field,
        el(
          "p",
          { class: "hint", id: "token-help" },
          "The administrator's is in the file ",
          el("code", {}, "admin.token"),
          " of the service's data directory; ",
          el("code", {}, "holdfast tokens"),
          " makes others.",
        ),
        error,
        el("label", { class: "check" }, keep, "Keep me signed in on this device"),
        button,
      ),
    ),
  );
  field.focus();
}
