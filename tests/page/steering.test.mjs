// The buttons of a job and of a worker: each asks before it harms, does what it says, and is closed to roles that may not.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { focused, openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import * as cluster from "./cluster.mjs";

withBrowser();

const badge = (page) => page.locator(".job-title .badge");
const button = (page, name) => page.locator(".actions").getByRole("button", { name, exact: true });
const dialog = (page) => page.getByRole("dialog");

test("a job is paused, resumed, scaled, stopped and begun again from a checkpoint", async (t) => {
  await cluster.startWorkers(["a", "b"], { slow_ms: 80 });
  const job = await cluster.submit(
    await cluster.smallSpec({ name: "steered", nodes: 2, total_steps: 2000, checkpoint_every: 20 }),
  );
  const page = await openPage(t, `#/jobs/${job}`);
  await cluster.waitStep(job, 21);
  await waitText(badge(page), /running/);

  await t.test("pause asks, and Escape leaves everything as it is", async () => {
    await button(page, "Pause").focus();
    await page.keyboard.press("Enter");
    await dialog(page).waitFor();
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
    assert.equal(await focused(page), "Pause");
    assert.equal((await cluster.get(`jobs/${job}`)).state, "running");
  });

  await t.test("pause pauses", async () => {
    await button(page, "Pause").click();
    await dialog(page).getByRole("button", { name: "Pause" }).click();
    await waitText(badge(page), /paused/, 30);
    assert.equal((await cluster.get(`jobs/${job}`)).state, "paused");
    assert.equal(await button(page, "Pause").count(), 0);
    await waitText(page.locator("#announcer"), /paused|pause/);
  });

  await t.test("resume resumes", async () => {
    await button(page, "Resume").click();
    await waitText(badge(page), /running/, 30);
    await cluster.waitFor(async () => (await cluster.get(`jobs/${job}`)).world_size === 2, "both workers");
  });

  await t.test("scale refuses what is no number, and what the service refuses, and keeps what was typed", async () => {
    await button(page, "Scale").click();
    assert.equal(await focused(page), "scale-nodes");
    await page.getByLabel("Workers", { exact: true }).fill("many");
    await dialog(page).getByRole("button", { name: "Scale" }).click();
    await waitText(dialog(page).getByRole("alert"), /whole numbers/);
    page.expected.push(/status of 400|answer: 400/);
    await page.getByLabel("Workers", { exact: true }).fill("500");
    await dialog(page).getByRole("button", { name: "Scale" }).click();
    await waitText(dialog(page).getByRole("alert"), /from 1 to 6/);
    await screenshot(page, "dialog-scale");
  });

  await t.test("scale scales", async () => {
    await page.getByLabel("Workers", { exact: true }).fill("1");
    await dialog(page).getByRole("button", { name: "Scale" }).click();
    await dialog(page).waitFor({ state: "detached" });
    await cluster.waitFor(async () => (await page.locator(".members tbody tr").count()) === 1, "one member to be left", 30);
    assert.equal((await cluster.get(`jobs/${job}`)).wanted.nodes, 1);
    await waitText(page.locator(".tile").filter({ hasText: "Workers" }), /wanted 1/);
  });

  await t.test("stop asks with the focus on Cancel, then stops for good", async () => {
    await button(page, "Stop").click();
    assert.equal(await focused(page), "Cancel");
    await screenshot(page, "dialog-stop");
    await dialog(page).getByRole("button", { name: "Stop job" }).click();
    await waitText(badge(page), /cancelled/, 30);
    assert.equal((await cluster.get(`jobs/${job}`)).state, "cancelled");
    for (const name of ["Pause", "Resume", "Scale", "Stop"]) assert.equal(await button(page, name).count(), 0, name);
  });

  await t.test("a job begins from one of its checkpoints", async () => {
    const link = page.getByRole("link", { name: /Resume from the checkpoint of step/ }).first();
    const step = /step ([\d,]+)/.exec(await link.getAttribute("aria-label"))[1].replaceAll(",", "");
    await link.click();
    await page.getByRole("heading", { name: "Submit a job" }).waitFor();
    assert.equal(await page.getByLabel("resume_from").inputValue(), `job:${job}@${step}`);
    await page.getByLabel("total_steps").fill(String(Number(step) + 30));
    await page.getByRole("button", { name: "Submit job" }).click();
    await page.getByRole("heading", { level: 1, name: `steered-from-${step}` }).waitFor();
    const next = /jobs\/(\w+)/.exec(page.url())[1];
    assert.notEqual(next, job);
    await cluster.waitState(next, "succeeded");
    assert.equal((await cluster.get(`jobs/${next}/metrics?limit=1`)).metrics[0].step, Number(step) + 1);
  });
});

test("workers are listed, drained after a question, and shown when they are gone", async (t) => {
  await cluster.startWorkers(["d"]);
  const page = await openPage(t, "#/nodes");
  const row = (name) => page.locator(".nodes tbody tr").filter({ has: page.getByText(name, { exact: true }) });
  for (const name of ["a", "b", "d"]) await waitText(row(name).locator(".state"), /alive/);
  await waitText(row("a").locator(".memory"), /GiB/);
  await waitText(row("a").locator(".seen"), /now/);
  await waitText(page.locator(".view-note"), /3 free/);

  await row("d").getByRole("button", { name: "Drain d" }).click();
  assert.equal(await focused(page), "Cancel");
  await dialog(page).getByRole("button", { name: "Cancel" }).click();
  assert.equal(await focused(page), "Drain d");
  await row("d").getByRole("button", { name: "Drain d" }).click();
  await dialog(page).getByRole("button", { name: "Drain" }).click();
  await waitText(row("d").locator(".state"), /left/, 30);

  await cluster.killWorker("b");
  await waitText(row("b").locator(".state"), /lost/, 30);
  await screenshot(page, "nodes");
  await page.getByLabel("Show those that are gone").uncheck();
  assert.equal(await row("b").count(), 0);
});

test("whoever may only read sees the buttons closed, with the reason", async (t) => {
  const job = await cluster.submit(await cluster.smallSpec({ name: "watched", min_nodes: 3, nodes: 3 }));
  const token = await cluster.tokenOf("read");
  const page = await openPage(t, `#/jobs/${job}`, { token });
  await waitText(badge(page), /queued|waiting/);
  await waitText(page.locator(".why-not"), /role is read/);
  for (const name of ["Pause", "Scale", "Stop"]) {
    assert.equal(await button(page, name).getAttribute("aria-disabled"), "true");
    await button(page, name).click({ force: true });
    assert.equal(await dialog(page).count(), 0, name);
  }
  await page.goto(`${cluster.url}/#/submit`);
  await waitText(page.getByRole("alert"), /takes a submit or admin token/);
  await page.goto(`${cluster.url}/#/nodes`);
  await waitText(page.locator(".why-not"), /takes an admin token/);
  await cluster.api("POST", `jobs/${job}/stop`, {});
});

test("a submitter steers jobs and drains nobody", async (t) => {
  const token = await cluster.tokenOf("submit");
  const page = await openPage(t, "#/nodes", { token });
  await waitText(page.locator(".why-not"), /takes an admin token/);
  await page.getByRole("link", { name: "Submit", exact: true }).click();
  await page.getByLabel("train_data_path").waitFor();
});

test("a running job is profiled: its costs are shown, and the trace is saved", async (t) => {
  await cluster.startWorkers(["p", "q"], { slow_ms: 20 });
  const job = await cluster.submit(await cluster.smallSpec({ name: "profiled", nodes: 2, total_steps: 5000 }));
  const page = await openPage(t, `#/jobs/${job}`);
  await cluster.waitStep(job, 5);
  await waitText(badge(page), /running/);
  await button(page, "Profile").click();
  assert.equal(await focused(page), "profile-steps");
  await page.getByLabel("Steps", { exact: true }).fill("201");
  await dialog(page).getByRole("button", { name: "Record" }).click();
  await waitText(dialog(page).getByRole("alert"), /from 1 to 200/);
  await page.getByLabel("Steps", { exact: true }).fill("10");
  const download = page.waitForEvent("download");
  await cluster.crawl();
  await dialog(page).getByRole("button", { name: "Record" }).click();
  await waitText(dialog(page).getByRole("status"), /Recording steps \d+ to \d+/);
  await cluster.hurry();
  await screenshot(page, "dialog-profile-recording");
  const saved = await download;
  assert.equal(saved.suggestedFilename(), `${job}-profile.json`);
  const trace = JSON.parse(await readFile(await saved.path(), "utf8"));
  assert.ok(trace.traceEvents.some((event) => event.name === "matmul backward"));
  await waitText(page.locator("dialog h2"), /a step takes/);
  assert.equal(await page.locator(".costs tbody tr").count(), 10);
  await screenshot(page, "dialog-profile");
  await dialog(page).getByRole("button", { name: "Close" }).click();
  assert.equal(await focused(page), "Profile");
  await cluster.api("POST", `jobs/${job}/stop`, {});
});
