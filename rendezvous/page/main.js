// The page's beginning: who is there, which view is shown, and the bar above it.
import { announce } from "./announce.js";
import { Away } from "./api.js";
import { startBanner, startStandbyBar } from "./banner.js";
import { isAway, onConnectionChange, serviceThere } from "./connection.js";
import { el, icon } from "./dom.js";
import { jobView } from "./job_view.js";
import { jobsView } from "./jobs_view.js";
import { nodesView } from "./nodes_view.js";
import { parseHash, startRouter } from "./router.js";
import { startServicesLine } from "./services_line.js";
import { forgetToken, onSessionChange, token, who } from "./session.js";
import { identify, signInView } from "./sign_in.js";
import { submitView } from "./submit_view.js";
import { startThemeButton } from "./theme_button.js";

const main = document.getElementById("main");
const navigation = document.getElementById("navigation");
const VIEWS = { jobs: jobsView, nodes: nodesView, submit: submitView };

let view = null; // {key, title, update?(route), close()}
let message = ""; // for the sign-in view
let moved = false; // the reader went somewhere, and did not only load the page

function close() {
  view?.close?.();
  view = null;
}

function showAccount() {
  const account = document.getElementById("account");
  navigation.hidden = who() === null;
  if (who() === null) return account.replaceChildren();
  const { name, role } = who();
  const menu = el(
    "details",
    { class: "menu" },
    el("summary", { class: "icon-button", "aria-label": `Account: ${name || "unnamed token"}, role ${role}` }, icon("person")),
    el(
      "div",
      { class: "menu-content card" },
      el(
        "p",
        {},
        "Signed in with the token ",
        el("strong", {}, name || "(unnamed)"),
        el("br"),
        "Role: ",
        el("strong", {}, role),
      ),
      el("button", { type: "button", onclick: () => forgetToken() }, "Sign out"),
    ),
  );
  menu.addEventListener("focusout", (event) => {
    if (!menu.contains(event.relatedTarget)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  account.replaceChildren(menu);
}

function chooseView({ parts, query }) {
  if (parts[0] === "jobs" && parts.length > 1) return { key: `jobs/${parts[1]}`, make: jobView };
  const name = parts[0] ?? "jobs";
  if (!(name in VIEWS)) return { key: "jobs", make: jobsView };
  return { key: name === "submit" ? `submit?${query.from ?? ""}` : name, make: VIEWS[name] };
}

function show(route) {
  if (who() === null) return;
  for (const link of navigation.querySelectorAll("a")) {
    const here = link.dataset.route === (route.parts[0] ?? "jobs");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const { key, make } = chooseView(route);
  if (view?.key === key && view.update) return view.update(route); // another filter or section of what is shown
  close();
  main.replaceChildren();
  scrollTo(0, 0);
  view = { key, ...make(main, route, focusHeading) };
  document.title = `${view.title} · Holdfast`;
  focusHeading();
}

// Whoever has just loaded the page begins at its top, with the bar above the view.
function focusHeading() {
  if (moved) main.querySelector("h1")?.focus({ preventScroll: true });
}

function showSignIn() {
  close();
  moved = true;
  document.title = "Sign in · Holdfast";
  signInView(main, { message, done: begin });
  message = "";
}

function begin() {
  showAccount();
  show(parseHash(location.hash));
}

async function start() {
  if (token() === "") return showSignIn();
  for (;;) {
    try {
      await identify();
      return begin();
    } catch (error) {
      if (!(error instanceof Away)) {
        message = error.status === 401 ? "The token that was kept here is no longer good." : error.message;
        return showSignIn();
      }
      await serviceThere();
    }
  }
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the route's
  main.focus();
});
onConnectionChange(() => announce(isAway() ? "The service is away; the workers go on." : "The service is back."));
onSessionChange((why) => {
  if (who() !== null) return;
  message = why;
  showAccount();
  showSignIn();
});
startThemeButton(document.getElementById("theme"));
startBanner(document.getElementById("banner"));
startStandbyBar(document.getElementById("standby"));
startServicesLine(document.getElementById("services"));
addEventListener("hashchange", () => {
  moved = true;
});
startRouter(show);
start();
