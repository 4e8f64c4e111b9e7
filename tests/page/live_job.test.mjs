// A job while it trains: the list and the job's page follow it, a killed worker shows, and the service may go away meanwhile.
import assert from "node:assert/strict";
import test from "node:test";
import { isDeepStrictEqual } from "node:util";
import { openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import * as cluster from "./cluster.mjs";

withBrowser();

const stepOf = (text) => Number(/step ([\d,]+)/i.exec(text)[1].replaceAll(",", ""));
const progressLine = (page) => page.locator(".progress-line span").first();

test("a job is followed from the list to its end", async (t) => {
  let page;
  let job;

  await t.test("with no job the list says how to begin", async (t2) => {
    const empty = await openPage(t2, "#/jobs");
    await waitText(empty.locator(".empty"), /No jobs yet/);
    await empty.getByRole("link", { name: "Submit a job" }).first().waitFor();
    await screenshot(empty, "jobs-empty");
  });

  await cluster.startWorkers(["a", "b"], { slow_ms: 60 });
  job = await cluster.submit(
    await cluster.smallSpec({
      name: "books",
      nodes: 2,
      total_steps: 300,
      checkpoint_every: 25,
      eval_every: 25,
      labels: { team: "nlp" },
    }),
  );
  page = await openPage(t, "#/jobs");

  await t.test("the list shows it move, without loading again", async () => {
    const row = page.getByRole("row").filter({ hasText: "books" });
    await waitText(row.locator(".badge"), /running/);
    await waitText(row.locator(".loss"), /\d\.\d{4}/);
    await waitText(row.locator(".world"), /2/);
    const first = await row.getByRole("progressbar").getAttribute("aria-valuenow");
    await cluster.waitFor(
      async () => Number(await row.getByRole("progressbar").getAttribute("aria-valuenow")) > Number(first),
      "the bar to move",
    );
    await screenshot(page, "jobs-wide");
  });

  await t.test("its page has its members, its curves, its events and its logs, and they move", async () => {
    await page.getByRole("link", { name: "books" }).click();
    await page.getByRole("heading", { name: "books", level: 1 }).waitFor();
    await waitText(progressLine(page), /step [\d,]+ of 300/i);
    const before = stepOf(await progressLine(page).innerText());
    await cluster.waitFor(async () => stepOf(await progressLine(page).innerText()) > before, "the step to move");
    await waitText(page.locator(".eta"), /ETA .* done about/);
    for (const name of ["a", "b"]) await page.locator(".members").getByText(name, { exact: true }).waitFor();
    for (const title of ["Loss", "Tokens per second", "Gradient norm", "Learning rate", "Step time", "World size"]) {
      const chart = page.locator(".chart").filter({ has: page.getByRole("heading", { name: title }) });
      await chart.locator("canvas").waitFor();
      await waitText(chart.locator(".chart-reading"), /\d/);
    }
    const loss = page.getByRole("slider", { name: "Loss by step" });
    const end = Number(await loss.getAttribute("aria-valuemax"));
    await cluster.waitFor(async () => Number(await loss.getAttribute("aria-valuemax")) > end, "the curve to grow");
    await waitText(page.locator(".timeline"), /generation formed/i);
    await page.locator(".log").scrollIntoViewIfNeeded();
    await waitText(page.locator(".log"), /\w/);
    await page.locator(".checkpoints").getByRole("row").nth(1).waitFor();
    await screenshot(page, "job-live-light", { fullPage: true });
  });

  await t.test("a curve is read with the keys", async () => {
    const loss = page.getByRole("slider", { name: "Loss by step" });
    await loss.focus();
    await page.keyboard.press("Home");
    assert.match(await loss.getAttribute("aria-valuetext"), /^step 1: training \d/);
    await page.keyboard.press("ArrowRight");
    assert.match(await loss.getAttribute("aria-valuetext"), /^step 2: /);
    await page.keyboard.press("Tab");
  });

  await t.test("a worker that is killed shows, and the next generation with it", async () => {
    await cluster.crawl();
    await cluster.waitFor(async () => (await cluster.get(`jobs/${job}`)).world_size === 2, "both to be there");
    await cluster.killWorker("b");
    await waitText(page.locator('.timeline li[data-tone="bad"]'), /\bb\b/, 15);
    await cluster.waitFor(
      async () => (await page.locator(".members").getByText("b", { exact: true }).count()) === 0,
      "b to leave the members",
      15,
    );
    await waitText(page.locator(".timeline"), /generation 2 forms of a/);
    await cluster.hurry();
    await waitText(page.locator(".legend-generation"), /2/);
    await waitText(page.locator(".legend-checkpoint"), /\d/);
  });

  await t.test("while the service is away the page says so, and then goes on where it was", async () => {
    page.expected.push(
      /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/,
      /answer: 503|status of 503/,
    );
    await cluster.killService();
    await waitText(page.locator("#banner"), /The service is away; the workers go on/);
    await screenshot(page, "job-service-away");
    await cluster.startService();
    await cluster.waitFor(async () => page.locator("#banner").isHidden(), "the banner to go", 20);
    const before = stepOf(await progressLine(page).innerText());
    await cluster.waitFor(async () => stepOf(await progressLine(page).innerText()) > before, "the step to move again", 40);
  });

  await t.test("at its end every log line and event is there once", async () => {
    await cluster.waitState(job, "succeeded");
    await waitText(page.locator(".job-title .badge"), /succeeded/);
    await waitText(progressLine(page), /300 of 300 · 100%/);
    await page.locator(".log").scrollIntoViewIfNeeded();
    // The last lines may come after the end, so both sides are read until they say the same.
    let shown;
    let kept;
    const same = async () => {
      shown = await page.locator(".log .line-text").evaluateAll((all) => all.map((each) => each.textContent));
      kept = (await cluster.get(`jobs/${job}/logs?limit=1000`)).logs.map((row) => row.text);
      return isDeepStrictEqual(shown, kept);
    };
    await cluster.waitFor(same, "the log to be whole", 20).catch(() => assert.deepEqual(shown, kept));
    const { events } = await cluster.get(`jobs/${job}/events?limit=1000`);
    await cluster.waitFor(
      async () => (await page.locator(".timeline li").count()) === events.length,
      `${events.length} events`,
    );
    await page.getByRole("link", { name: "Submit again" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Stop" }).count(), 0);
  });

  await t.test("it is found by state, name, id and not by what it is not", async () => {
    const list = await openPage(t, "#/jobs?state=succeeded");
    const rows = list.locator("tbody tr");
    await waitText(rows, /books/);
    for (const text of ["books", job]) {
      await list.getByLabel(/^Name, id/).fill(text);
      await waitText(rows, /books/);
    }
    await list.getByLabel(/^Name, id/).fill("no such job");
    await waitText(list.locator(".empty"), /No job matches/);
    await list.getByRole("button", { name: "Show all jobs" }).click();
    await waitText(rows, /books/);
    assert.equal(await list.getByLabel(/^Name, id/).inputValue(), "");
    await list.getByLabel("State").selectOption("failed");
    await waitText(list.locator(".empty"), /No job matches/);
  });
});

test("a log that is scrolled up stays where it is, and follows again on request", async (t) => {
  await cluster.startWorkers(["c"], { slow_ms: 30 });
  const job = await cluster.submit(await cluster.smallSpec({ total_steps: 2000, checkpoint_every: 2 }));
  const page = await openPage(t, `#/jobs/${job}/logs`);
  const box = page.locator(".log");
  await cluster.waitFor(
    async () => box.evaluate((element) => element.scrollHeight > element.clientHeight + 100),
    "more lines than fit",
    60,
  );
  await box.evaluate((element) => element.scrollTo(0, 0));
  const again = page.getByRole("button", { name: /Follow again/ });
  await again.waitFor();
  const lines = await box.locator(".line").count();
  await cluster.waitFor(async () => (await box.locator(".line").count()) > lines, "more lines", 60);
  assert.equal(await box.evaluate((element) => element.scrollTop), 0);
  await again.click();
  await cluster.waitFor(
    async () => box.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 30),
    "the end",
  );
  await again.waitFor({ state: "hidden" });
  await cluster.api("POST", `jobs/${job}/stop`, {});
  await cluster.waitState(job, "cancelled");
});

test("a job that could not be shown for a moment is shown", async (t) => {
  const job = await cluster.submit(await cluster.smallSpec({ name: "patient", requires: { zone: "nowhere" } }));
  const page = await openPage(t, "#/jobs");
  page.expected.push(/503/);
  const refused = new Map();
  await page.route(/\/v1\/jobs\/j\d+(\/events)?(\?.*)?$/, (route) => {
    const { pathname } = new URL(route.request().url());
    refused.set(pathname, (refused.get(pathname) ?? 0) + 1);
    if (refused.get(pathname) > 2) return route.continue();
    return route.fulfill({ status: 503, json: { status: 503, title: "full", detail: "the disk is full, for a moment" } });
  });
  await page.evaluate((hash) => (location.hash = hash), `#/jobs/${job}`);
  await waitText(page.locator("main"), /the disk is full, for a moment/);
  await page.getByRole("heading", { level: 1, name: "patient" }).waitFor();
  await page.locator(".timeline li").first().waitFor();
  await cluster.api("POST", `jobs/${job}/stop`, {});
});

test("an unknown job and an unknown address are told", async (t) => {
  const page = await openPage(t, "#/jobs/j999");
  page.expected.push(/404/);
  await page.getByRole("heading", { name: "There is no job j999" }).waitFor();
  const link = page.getByRole("link", { name: "All jobs" });
  await link.focus();
  await page.waitForTimeout(2500); // longer than a job is left unasked
  assert.ok(await link.evaluate((element) => element === document.activeElement), "the focus stays where the reader put it");
  await page.goto(`${cluster.url}/#/jobs/..%2Fnodes`);
  await page.getByRole("heading", { name: /There is no job/ }).waitFor();
});
