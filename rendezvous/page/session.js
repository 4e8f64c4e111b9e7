// The person's session: the token, where it is kept, and what its role may do.
//
// The token lives in sessionStorage (until the tab is closed), or in localStorage when the reader ticked "keep me signed in".

const KEY = "holdfast.token";
const RANK = { read: 1, submit: 2, admin: 3 };

let current = "";
let identity = null; // {id, name, role}
const listeners = new Set();

function stores() {
  try {
    return [sessionStorage, localStorage];
  } catch {
    return []; // switched off: the token lasts as long as the page
  }
}

for (const store of stores()) current ||= store.getItem(KEY) ?? "";

export const token = () => current;
export const who = () => identity;

export function keepToken(value, onThisDevice) {
  const [session, local] = stores();
  session?.removeItem(KEY);
  local?.removeItem(KEY);
  current = value;
  if (value !== "") (onThisDevice ? local : session)?.setItem(KEY, value);
}

export function setIdentity(value) {
  identity = value;
  for (const fn of listeners) fn("");
}

// The token is no longer good (why), or its owner signs out ("").
export function forgetToken(why = "") {
  if (current === "" && identity === null) return;
  const known = identity !== null;
  keepToken("", false);
  identity = null;
  if (known) for (const fn of listeners) fn(why);
}

export function onSessionChange(fn) {
  listeners.add(fn);
}

export const may = (role) => (RANK[identity?.role] ?? 0) >= RANK[role];

// Why an action that takes `role` is not there for this reader; "" where it is.
export function whyNot(role, action) {
  if (may(role)) return "";
  const needed = role === "admin" ? "an admin token" : "a submit or admin token";
  return `Your token's role is ${identity?.role ?? "unknown"}: ${action} takes ${needed}.`;
}
