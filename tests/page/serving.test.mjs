// The page of a job that serves: what it answers with, and how many texts each of its replicas writes while some are asked for.
import assert from "node:assert/strict";
import test from "node:test";
import { contrasts, openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import * as cluster from "./cluster.mjs";

withBrowser();

let job;
test("two workers serve", async () => {
  job = await cluster.serveByTwoWorkers();
});

const tile = (page, name) => page.locator("#section-texts .tile").filter({ hasText: name }).locator("dd");
const row = (page, worker) => page.locator("#section-texts tbody tr").filter({ hasText: worker });
const ask = (fields) => cluster.api("POST", "completions", { model: "english", prompt: "THE ", ...fields });

test("it has the replicas' load, and nothing of training", async (t) => {
  const page = await openPage(t, `#/jobs/${job}`);
  await waitText(tile(page, "Answers with"), /^step 120$/);
  assert.equal(await tile(page, "Replicas ready").innerText(), "2");
  assert.equal(await row(page, "w1").innerText().then((text) => text.replace(/\s+/g, " ")), "w1 0 texts");
  for (const absent of ["Curves", "Checkpoints"])
    assert.equal(await page.getByRole("heading", { name: absent, exact: true }).count(), 0, absent);
  assert.equal(await page.getByRole("progressbar").count(), 0);
  assert.equal(await page.getByRole("navigation", { name: "Parts of this page" }).innerText(), "Texts\nMembers\nEvents\nLogs\nSpec");
  assert.deepEqual(await page.evaluate(contrasts), []);

  await t.test("texts under way are counted where they are written, and moved when their replica dies", async () => {
    let asking = true;
    const asked = Promise.all(
      Array.from({ length: 8 }, async (_, seed) => {
        while (asking) assert.equal((await ask({ max_tokens: 60, n: 4, seed })).status, 200);
      }),
    );
    await waitText(row(page, "w1"), /[1-9]\d* text/);
    await waitText(row(page, "w2"), /[1-9]\d* text/);
    await waitText(tile(page, "Texts written now"), /^[1-9]\d*$/);
    await screenshot(page, "serving-light", { fullPage: true });
    await cluster.killWorker("w2");
    await waitText(tile(page, "Replicas ready"), /^1$/);
    await waitText(tile(page, "Texts moved"), /^[1-9]\d*$/);
    asking = false;
    await asked;
  });
});

test("its playground writes what the job's replicas write", async (t) => {
  const page = await openPage(t, `#/jobs/${job}`);
  await page.getByRole("link", { name: "Ask it in the playground" }).click();
  await page.getByLabel("Prompt").fill("THE ");
  await page.getByLabel("Tokens at most").fill("24");
  await page.getByLabel("Seed").fill("3");
  await page.getByRole("button", { name: "Write" }).click();
  const card = page.getByRole("region", { name: "english", exact: true });
  await waitText(card, /24 tokens in .*seed 3; ended: length/);
  const { json } = await ask({ max_tokens: 24, seed: 3, temperature: 1 });
  assert.equal(await card.locator(".written").evaluate((element) => element.textContent), `THE ${json.choices[0].text}`);
  await waitText(page.locator("#load"), /^0 texts, 0 waiting, \d+ tokens\/s, 0 % of the pages$/);
  await screenshot(page, "serving-playground", { fullPage: true });
});

test("one like it is submitted, and scaled beyond what it was submitted with", async (t) => {
  const page = await openPage(t, `#/jobs/${job}`);
  await page.getByRole("link", { name: "Submit one like it" }).click();
  await waitText(page.locator(".would"), /\w/);
  await page.locator("#field-name").fill("twin");
  await page.getByRole("button", { name: "Submit job" }).click();
  await page.getByRole("heading", { level: 1, name: "twin" }).waitFor();
  await page.getByRole("button", { name: "Scale" }).click();
  await page.getByLabel("Workers").fill("3");
  await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  const { jobs } = await cluster.get("jobs?name=twin");
  assert.equal((await cluster.get(`jobs/${jobs[0].id}`)).wanted.nodes, 3);
  await cluster.api("POST", `jobs/${jobs[0].id}/stop`);
});

test("on a phone in dark colours", async (t) => {
  const page = await openPage(t, `#/jobs/${job}/texts`, { width: 360, height: 740, scheme: "dark" });
  await waitText(tile(page, "Answers with"), /^step 120$/);
  assert.deepEqual(await page.evaluate(contrasts), []);
  const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${wide} px too wide`);
  await screenshot(page, "serving-phone-dark", { fullPage: true });
});
