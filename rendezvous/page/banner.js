// The bar that says that the service does not answer, and what that means for the runs: nothing. And the bar that says that it
// stands by: who leads, and how old is what it shows.
import { isAway, nextTryAt, onConnectionChange, tryNow } from "./connection.js";
import { el, setText } from "./dom.js";
import { leaderPage, onStandingByChange, standingBy } from "./standing_by.js";
import { clock, duration } from "./words.js";

export function startBanner(banner) {
  const since = el("span");
  const countdown = el("span", { class: "banner-next", "aria-hidden": "true" });
  const button = el("button", { type: "button", class: "small", onclick: tryNow }, "Try now");
  let timer = 0;

  const tick = () => {
    const seconds = Math.max(0, Math.ceil((nextTryAt() - Date.now()) / 1000));
    setText(countdown, seconds > 0 ? `Next try in ${seconds} s` : "Trying…");
  };
  onConnectionChange(() => {
    clearInterval(timer);
    banner.hidden = !isAway();
    document.documentElement.toggleAttribute("data-away", isAway());
    if (!isAway()) return banner.replaceChildren();
    setText(since, `What you see is as of ${clock(Date.now())}.`);
    banner.replaceChildren(el("strong", {}, "The service is away; the workers go on."), since, countdown, button);
    tick();
    timer = setInterval(tick, 500);
  });
}

export function startStandbyBar(bar) {
  const age = el("span");
  const leader = el("span");
  onStandingByChange(() => {
    const now = standingBy();
    bar.hidden = now === null;
    if (now === null) return bar.replaceChildren();
    setText(age, now.ageS > 0 ? `What you see is ${duration(now.ageS)} old.` : "What you see is of this moment.");
    const href = leaderPage();
    leader.replaceChildren(
      href === "" ? "No service leads just now; one takes the lead within seconds." : "Changes are made at the service that leads: ",
      ...(href === "" ? [] : [el("a", { href }, now.leader)]),
    );
    if (bar.childElementCount === 0) bar.replaceChildren(el("strong", {}, "This service stands by."), age, leader);
  });
}
