// Announcements that a screen reader speaks by itself. Several things in one moment are one announcement.

const PAUSE_MS = 400;
const waiting = [];
let timer = 0;

export function announce(text) {
  if (waiting.at(-1) !== text) waiting.push(text);
  clearTimeout(timer);
  timer = setTimeout(() => {
    document.getElementById("announcer").textContent = waiting.splice(0).slice(-4).join(" ");
  }, PAUSE_MS);
}
