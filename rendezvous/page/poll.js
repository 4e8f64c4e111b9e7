// Asks again and again, politely: not while the page is hidden or the service is away, never twice at once.
import { isAway, onConnectionChange } from "./connection.js";

// `ask` is async; now() has it asked again at once, or as soon as the question under way is answered.
export function poll(ask, everyMs) {
  let timer = 0;
  let asking = false;
  let again = false;
  let closed = false;

  const plan = (delayMs) => {
    clearTimeout(timer);
    if (!closed) timer = setTimeout(run, delayMs);
  };
  async function run() {
    if (closed || asking || document.hidden || isAway()) return;
    asking = true;
    again = false;
    try {
      await ask();
    } finally {
      asking = false;
      plan(again ? 0 : typeof everyMs === "function" ? everyMs() : everyMs);
    }
  }
  const wake = () => {
    if (!document.hidden && !isAway()) plan(0);
  };
  document.addEventListener("visibilitychange", wake);
  const forget = onConnectionChange(wake);
  run();
  return {
    now() {
      again = true;
      if (!asking) plan(0);
    },
    close() {
      closed = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
      forget();
    },
  };
}
