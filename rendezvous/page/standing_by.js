// Whether the service that this page comes from stands by: then it shows the database of another one, which leads, as of a moment
// ago, and takes no changes.

const listeners = new Set();
let now = null; // {leader, ageS}: the leader's address or "", and the age of what was shown last, in seconds; null: it leads

export const standingBy = () => now;

// fn() at each change; returns what forgets it.
export function onStandingByChange(fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

// The age by the clock of the service alone: its header Date has whole seconds.
function ageOf(headers) {
  const [asOf, date] = [Date.parse(headers.get("Holdfast-As-Of")), Date.parse(headers.get("Date"))];
  return Number.isNaN(asOf) || Number.isNaN(date) ? 0 : Math.max(0, Math.round((date - asOf) / 1000));
}

// To be told of the headers of every answer.
export function noteAnswer(headers) {
  const before = now;
  if (headers.has("Holdfast-As-Of")) now = { leader: headers.get("Holdfast-Leader") ?? "", ageS: ageOf(headers) };
  else if (headers.has("Holdfast-Leader")) now = { ageS: 0, ...before, leader: headers.get("Holdfast-Leader") };
  else if (headers.has("Holdfast-Term")) now = null;
  if (before?.leader === now?.leader && before?.ageS === now?.ageS) return;
  for (const fn of [...listeners]) fn();
}

// A page that a browser may open: the leader's address is what its operator said, or what a stranger wrote.
export function leaderPage() {
  return /^https?:\/\//.test(now?.leader ?? "") ? `${now.leader.replace(/\/+$/, "")}/${location.hash}` : "";
}
