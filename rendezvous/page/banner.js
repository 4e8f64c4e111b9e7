// The bar that says that the service does not answer, and what that means for the runs: nothing.
import { isAway, nextTryAt, onConnectionChange, tryNow } from "./connection.js";
import { el, setText } from "./dom.js";
import { clock } from "./words.js";

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
