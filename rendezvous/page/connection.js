// Whether the service answers. One that went away is asked for a sign of life after growing pauses, and at once when the
// network or the reader comes back.

const FIRST_PAUSE_MS = 500;
const PAUSE_MS_MAX = 10000;
const PATIENCE_MS = 5000;

const listeners = new Set();
let away = false;
let pauseMs = FIRST_PAUSE_MS;
let timer = 0;
let nextTry = 0;

export const isAway = () => away;
export const nextTryAt = () => nextTry;

// fn() at each change; returns what forgets it.
export function onConnectionChange(fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

function change(value) {
  if (away === value) return;
  away = value;
  for (const fn of [...listeners]) fn();
}

function plan() {
  clearTimeout(timer);
  nextTry = Date.now() + pauseMs;
  timer = setTimeout(probe, pauseMs);
  pauseMs = Math.min(PAUSE_MS_MAX, pauseMs * 1.7);
}

async function probe() {
  const stop = new AbortController();
  const late = setTimeout(() => stop.abort(), PATIENCE_MS);
  try {
    const reply = await fetch("readyz", { cache: "no-store", signal: stop.signal });
    if (reply.ok || reply.headers.has("Holdfast-Leader")) return serviceAnswered(); // the second: it stands by
  } catch {
    // still away
  } finally {
    clearTimeout(late);
  }
  if (away) plan();
}

export function serviceAnswered() {
  pauseMs = FIRST_PAUSE_MS;
  clearTimeout(timer);
  change(false);
}

export function serviceLost() {
  if (away) return;
  change(true);
  plan();
}

export function tryNow() {
  if (!away) return;
  pauseMs = FIRST_PAUSE_MS;
  clearTimeout(timer);
  probe();
}

// Resolves when the service is there (at once, where it is).
export function serviceThere() {
  if (!away) return Promise.resolve();
  return new Promise((resolve) => {
    const forget = onConnectionChange(() => {
      if (away) return;
      forget();
      resolve();
    });
  });
}

addEventListener("online", tryNow);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) tryNow();
});
