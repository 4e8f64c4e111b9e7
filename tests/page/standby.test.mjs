// The page of a service that stands by: it says so, shows what goes on, and is the leader's page once that has died.
import assert from "node:assert/strict";
import test from "node:test";
import { openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import { killLeader, smallSpec, standbyUrl, startWorkers, submit, url, waitFor, waitStep } from "./cluster.mjs";

withBrowser();

const stands = () =>
  waitFor(
    async () => (await (await fetch(`${standbyUrl}/healthz`)).json()).status === "standing_by",
    "the second service to stand by",
  );

test("it says that it stands by, for whom, and shows the jobs", async (t) => {
  await stands();
  await startWorkers(["w1"], { slow_ms: 50 });
  const job = await submit(await smallSpec({ nodes: 1, min_nodes: 1, total_steps: 2000, name: "seen from beside" }));
  await waitStep(job, 3);
  const page = await openPage(t, "#/jobs", { base: standbyUrl });
  await waitText(page.locator("#standby"), /This service stands by/);
  await waitText(page.locator("#standby"), /What you see is/);
  const leader = page.locator("#standby a");
  assert.equal(await leader.getAttribute("href"), `${url}/#/jobs`);
  await page.getByRole("link", { name: "seen from beside" }).waitFor();
  await screenshot(page, "standby");
});

test("a job's events come without a stream", async (t) => {
  const page = await openPage(t, "#/jobs/j1/events", { base: standbyUrl });
  const committed = page.locator('.timeline li[data-kind="checkpoint_committed"]');
  await committed.first().waitFor();
  const before = await committed.count();
  await waitFor(async () => (await committed.count()) > before, "a later checkpoint to be told of");
});

test("a job's page has what the database has", async (t) => {
  const page = await openPage(t, "#/jobs/j1", { base: standbyUrl });
  await waitText(page.locator("main"), /seen from beside/);
  await waitText(page.locator("main"), /unknown/); // the worker's phase
});

test("the leader's page names the one that stands by", async (t) => {
  const page = await openPage(t, "#/jobs");
  await waitText(page.locator("#services"), new RegExp(`leads, in term 1; ${standbyUrl} stands by`));
  assert.equal(await page.locator("#standby").isHidden(), true);
});

test("once the leader is dead it leads, and the bar goes", async (t) => {
  const page = await openPage(t, "#/jobs", { base: standbyUrl });
  page.expected.push(/503/);
  await waitText(page.locator("#standby"), /This service stands by/);
  await killLeader();
  await page.locator("#standby").waitFor({ state: "hidden" });
  await page.getByRole("link", { name: "seen from beside" }).waitFor();
});
