// The real service under test, seen from a test: its API with the administrator's token, and what test_page.py does on request.
import assert from "node:assert/strict";

const { HOLDFAST_PAGE_URL, HOLDFAST_PAGE_TOKEN, HOLDFAST_PAGE_WORKER_TOKEN, HOLDFAST_PAGE_CONTROL } = process.env;
assert.ok(HOLDFAST_PAGE_CONTROL, "run these tests through tests/page/test_page.py");

export const url = HOLDFAST_PAGE_URL;
export const standbyUrl = process.env.HOLDFAST_PAGE_STANDBY_URL; // for standby.test.mjs
export const adminToken = HOLDFAST_PAGE_TOKEN;
export const workerToken = HOLDFAST_PAGE_WORKER_TOKEN;
export const PATIENCE = Number(process.env.HOLDFAST_E2E_PATIENCE ?? 1);

async function ask(verb, args, named = {}) {
  const reply = await fetch(`${HOLDFAST_PAGE_CONTROL}/${verb}`, { method: "POST", body: JSON.stringify([args, named]) });
  const said = await reply.json();
  assert.equal(reply.status, 200, `${verb}: ${said}`);
  return said;
}

export const startWorkers = (names, named) => ask("start_workers", names, named);
export const killWorker = (name) => ask("kill_worker", [name]);
export const stopWorkers = () => ask("stop_workers", []);
export const killService = () => ask("kill_service", []);
export const killLeader = () => ask("kill_leader", []);
export const startService = () => ask("start_service", []);
export const smallSpec = (changes) => ask("small_spec", [], changes);
export const serveTwoCheckpoints = () => ask("serve_two_checkpoints", []);
export const serveByTwoWorkers = () => ask("serve_by_two_workers", []);
export const crawl = () => ask("crawl", []);
export const hurry = () => ask("hurry", []);

export async function api(method, path, body) {
  const reply = await fetch(`${url}/v1/${path}`, {
    method,
    headers: { Authorization: `Bearer ${adminToken}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const text = await reply.text();
  return { status: reply.status, json: text ? JSON.parse(text) : null };
}

export async function get(path) {
  const { status, json } = await api("GET", path);
  assert.equal(status, 200, `GET ${path}: ${JSON.stringify(json)}`);
  return json;
}

export async function submit(spec) {
  const { status, json } = await api("POST", "jobs", spec);
  assert.equal(status, 201, JSON.stringify(json));
  return json.id;
}

// Puts an object of a job's checkpoints, as a worker does; returns the status.
export async function putObject(job, key, body) {
  const headers = { Authorization: `Bearer ${adminToken}` };
  return (await fetch(`${url}/v1/jobs/${job}/objects/${key}`, { method: "PUT", headers, body })).status;
}

// The first true value of condition(), polled until a deadline.
export async function waitFor(condition, what, seconds = 30) {
  const deadline = Date.now() + 1000 * seconds * PATIENCE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `waited ${seconds} s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const waitState = (job, state) =>
  waitFor(async () => (await get(`jobs/${job}`)).state === state, `${job} to be ${state}`, 60);
export const waitStep = (job, step) =>
  waitFor(async () => (await get(`jobs/${job}`)).step >= step, `${job} to reach step ${step}`, 60);

// A token of that role.
export async function tokenOf(role) {
  const { status, json } = await api("POST", "tokens", { name: `${role} for a test`, role });
  assert.equal(status, 201, JSON.stringify(json));
  return json.token;
}
