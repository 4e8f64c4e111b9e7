// Requests to the service, with the token in the Authorization header (never in an address) and errors as problems.
import { serviceAnswered, serviceLost } from "./connection.js";
import { forgetToken, token } from "./session.js";
import { noteAnswer } from "./standing_by.js";

const PATIENCE_MS = 20000;

// An answer that says no: RFC 9457's members, and the fields that are wrong.
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `the service answered ${status}`);
    this.status = status;
    this.code = body?.code ?? "";
    this.errors = body?.errors ?? [];
    this.requestId = body?.request_id ?? "";
  }
}

// The service could not be reached; the banner says so.
export class Away extends Error {
  constructor() {
    super("The service cannot be reached. What you asked for may not have arrived.");
  }
}

// The text to show for an error that ended a request: "" where the banner says it already, or nobody waits for it any more.
export function complaintOf(error) {
  if (error instanceof Problem) return error.message;
  if (error instanceof Away || error.name === "AbortError") return "";
  throw error;
}

export function withToken(headers = {}) {
  return { ...headers, Authorization: `Bearer ${token()}` };
}

export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return `v1/${path}${given.length === 0 ? "" : `?${new URLSearchParams(given)}`}`;
}

async function decode(reply) {
  const text = await reply.text();
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null; // a proxy's own error page
  }
}

// {status, json, headers}. Throws Problem, Away, or AbortError when `signal` says so. `body` is JSON text or a value. `patience`:
// the time for the answer, of what takes the service longer than a moment.
export async function request(method, path, { query, body, headers, signal, patience = PATIENCE_MS } = {}) {
  const stop = new AbortController();
  const abort = () => stop.abort(signal.reason);
  signal?.addEventListener("abort", abort);
  const late = setTimeout(() => stop.abort(), patience);
  let reply;
  let json;
  try {
    const all = withToken(headers);
    if (body !== undefined) all["Content-Type"] = "application/json";
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    reply = await fetch(address(path, query), { method, headers: all, body: text, cache: "no-store", signal: stop.signal });
    json = await decode(reply);
  } catch (error) {
    if (signal?.aborted) throw error;
    serviceLost();
    throw new Away();
  } finally {
    clearTimeout(late);
    signal?.removeEventListener("abort", abort);
  }
  if (reply.status === 502 || reply.status === 504) {
    serviceLost(); // a reverse proxy speaks for a service that is not there
    throw new Away();
  }
  serviceAnswered();
  noteAnswer(reply.headers);
  if (reply.status === 401) forgetToken(json?.detail);
  if (!reply.ok && reply.status !== 304) throw new Problem(reply.status, json);
  return { status: reply.status, json, headers: reply.headers };
}

export const get = async (path, query, signal) => (await request("GET", path, { query, signal })).json;
export const post = async (path, body = {}, more = {}) => (await request("POST", path, { body, ...more })).json;

// A large answer as it is, to be saved. Throws Problem or Away.
export async function blobOf(path) {
  let reply;
  try {
    reply = await fetch(address(path), { headers: withToken(), cache: "no-store" });
  } catch {
    serviceLost();
    throw new Away();
  }
  if (!reply.ok) throw new Problem(reply.status, await decode(reply));
  return reply.blob();
}

const PAGE_ROWS = 1000;

// The last `keep` rows of a list that is kept oldest first. A service that knows no `tail` sends its first page instead, and
// the rest is read through.
export async function lastRows(path, list, keep, signal) {
  let reply = await get(path, { tail: keep, limit: Math.min(keep, PAGE_ROWS) }, signal);
  let rows = reply[list];
  while (reply.next_page_token) {
    reply = await get(path, { limit: PAGE_ROWS, page_token: reply.next_page_token }, signal);
    rows = rows.concat(reply[list]).slice(-keep);
  }
  return rows.slice(-keep);
}
