// The submit form: what it says of each field, by itself and by the service's word, and that one wish makes one job.
import assert from "node:assert/strict";
import test from "node:test";
import { focused, openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import * as cluster from "./cluster.mjs";

withBrowser();

const field = (page, name) => page.locator(`[data-field="${name}"]`);
const error = (page, name) => field(page, name).locator(".field-error");
const jobs = async () => (await cluster.get("jobs?limit=100")).jobs;
// Each answer 400 to a dry run is a line on the browser's console.
const DRY_RUN = /dry_run=1/;

async function fill(page, spec) {
  const closed = page.locator("details.group:not([open]) > summary");
  while ((await closed.count()) > 0) await closed.first().click();
  for (const [name, value] of Object.entries(spec)) {
    const input = page.locator(`#field-${name}`);
    if ((await input.evaluate((element) => element.tagName)) === "SELECT") await input.selectOption(String(value));
    else await input.fill(String(value));
  }
}

test("the form has every field of the job spec, with its help", async (t) => {
  const page = await openPage(t, "#/submit");
  await page.getByLabel("train_data_path").waitFor();
  const { fields } = await cluster.get("job_spec");
  const shown = await page.locator("[data-field]").evaluateAll((all) => all.map((each) => each.dataset.field));
  assert.deepEqual([...shown].sort(), fields.map(({ name }) => name).sort());
  const hints = await page.locator("[data-field] .hint").evaluateAll((all) => all.map((each) => each.textContent));
  assert.ok(
    hints.every((text) => text.length > 3),
    hints.join("|"),
  );
});

test("what is typed is checked while it is typed", async (t) => {
  const page = await openPage(t, "#/submit", { height: 1600 });
  page.expected.push(DRY_RUN);
  await page.getByLabel("train_data_path").waitFor();
  assert.equal(await page.locator('[aria-invalid="true"]').count(), 0, "nothing is complained of before it was typed");

  await page.locator("#field-total_steps").fill("ten");
  await waitText(error(page, "total_steps"), /whole number/);
  assert.equal(await page.locator("#field-total_steps").getAttribute("aria-invalid"), "true");
  await page.locator("#field-total_steps").fill("0");
  await waitText(error(page, "total_steps"), /out of range/);
  await page.locator("#field-total_steps").fill("20");
  await waitText(error(page, "total_steps"), /^$/);
  await page.locator("#field-learning_rate").fill("11");
  await waitText(error(page, "learning_rate"), /out of range/);
  await page.locator("#field-learning_rate").fill("");

  await fill(page, { train_data_path: "data/train.bin", n_embd: 100, n_head: 6, min_nodes: 9 });
  await waitText(error(page, "n_head"), /does not divide n_embd 100/);
  await waitText(error(page, "min_nodes"), /above nodes|more than/);
  await screenshot(page, "submit-errors");
  await page.locator("#field-n_head").fill("5");
  await waitText(error(page, "n_head"), /^$/);
  await page.locator("#field-min_nodes").fill("1");
  await waitText(page.locator(".would"), /\w/);
  assert.deepEqual(await jobs(), [], "asking what would be done makes no job");
});

test("a job that begins from a checkpoint has no weights to begin with, and comes after nobody", async (t) => {
  const page = await openPage(t, "#/submit");
  page.expected.push(DRY_RUN);
  const spec = { name: "tuned", train_data_path: "/d.bin", init_from: "job:j1@20", after: "j1" };
  await page.route(/\/v1\/jobs\/j9$/, (route) => route.fulfill({ json: { id: "j9", name: "tuned", spec } }));
  await page.evaluate(() => (location.hash = "#/submit?from=j9@300"));
  await page.getByText("beginning from its checkpoint of step 300").waitFor();
  for (const [name, value] of Object.entries({ resume_from: "job:j9@300", init_from: "", after: "" }))
    assert.equal(await page.locator(`#field-${name}`).inputValue(), value, name);
});

test("the form has the fields of the kind of job that is chosen", async (t) => {
  const page = await openPage(t, "#/submit");
  page.expected.push(DRY_RUN);
  await page.getByLabel("train_data_path").waitFor();
  assert.equal(await field(page, "precision").isVisible(), false);
  await page.locator("#field-kind").selectOption("serve");
  await field(page, "precision").waitFor();
  for (const absent of ["train_data_path", "total_steps", "learning_rate"]) assert.equal(await field(page, absent).isVisible(), false, absent);
  assert.equal(await page.getByRole("button", { name: "Plan", exact: true }).isVisible(), false);
  await page.locator("#field-init_from").fill("job:j77");
  await waitText(error(page, "init_from"), /there is no job j77/);
  await page.getByRole("button", { name: "Submit job" }).click();
  assert.equal(await focused(page), "field-init_from", "nothing else is missing");
  await screenshot(page, "submit-serve");
  await page.locator("#field-kind").selectOption("");
  await field(page, "train_data_path").waitFor();
});

test("a form that is sent with errors goes to the first of them", async (t) => {
  const page = await openPage(t, "#/submit");
  page.expected.push(DRY_RUN);
  await page.getByRole("button", { name: "Submit job" }).click();
  await waitText(error(page, "train_data_path"), /required/);
  assert.equal(await focused(page), "field-train_data_path");
  await waitText(page.locator(".submit-status"), /1 field needs/);
  assert.deepEqual(await jobs(), []);
});

test("one wish makes one job: clicked twice, and asked again after the answer was lost", async (t) => {
  const spec = await cluster.smallSpec({ name: "once", total_steps: 20, seed: "9007199254740995" });
  const page = await openPage(t, "#/submit");
  page.expected.push(DRY_RUN, /ERR_FAILED/);
  await page.getByLabel("train_data_path").waitFor();
  await fill(page, spec);

  let lost = 0;
  await page.route("**/v1/jobs", async (route) => {
    if (route.request().method() !== "POST" || lost > 0) return route.continue();
    lost += 1;
    await route.fetch(); // it arrives, and its answer does not
    await route.abort("failed");
  });
  await page.getByRole("button", { name: "Submit job" }).click();
  await waitText(page.getByRole("alert"), /cannot be reached/);
  assert.equal((await jobs()).length, 1);
  await page.getByRole("button", { name: "Submit job" }).dblclick();
  await page.getByRole("heading", { level: 1, name: "once" }).waitFor();
  assert.equal((await jobs()).length, 1);
  const reply = await fetch(`${cluster.url}/v1/jobs/j1`, { headers: { Authorization: `Bearer ${cluster.adminToken}` } });
  assert.match(await reply.text(), /"seed":9007199254740995/, "all 16 digits of the seed arrive");

  await page.getByRole("link", { name: "Submit one like it" }).click();
  await waitText(page.locator(".view-note"), /As once/);
  assert.equal(await page.locator("#field-n_embd").inputValue(), String(spec.n_embd));
  assert.equal(await page.locator("#field-reduction").inputValue(), "");
});

const PLAN = /\/v1\/plan/; // an answer 4xx to it is a line on the console
const plan = (page) => page.getByRole("region", { name: "Plan" });

async function planned(page) {
  page.expected.push(DRY_RUN);
  await page.getByLabel("train_data_path").waitFor();
  await fill(page, { nodes: 2, batch_size: 16, gradient_accumulation_steps: 8 });
  await page.getByLabel("Seconds a microbatch").fill("0.03");
  await page.getByLabel("Link, MB/s each way").fill("118");
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await waitText(page.locator(".plan-verdict"), /^2 nodes .* of what one does alone/);
}

test("the form plans what is typed, and takes the settings that train the same", async (t) => {
  const page = await openPage(t, "#/submit", { height: 1600 });
  await planned(page);
  const rows = await page.locator(".plan-rows tbody tr").allInnerTexts();
  assert.deepEqual(
    rows.map((row) => row.split(/\t|\n/)[0]),
    ["one node alone", "as asked", "the same training"],
  );
  await waitText(page.locator(".plan-sources"), /Device\s+30 ms a microbatch: given\s+Link\s+118 MB\/s each way: given/);
  await screenshot(plan(page), "submit-plan");
  await page.getByRole("button", { name: "Take these settings" }).click();
  const taken = await waitText(plan(page).getByRole("status"), /^Taken: /);
  assert.match(taken, /wire_dtype int16/);
  assert.equal(await page.locator("#field-wire_dtype").inputValue(), "int16");
  const batch = Number(await page.locator("#field-batch_size").inputValue());
  const accumulation = Number((await page.locator("#field-gradient_accumulation_steps").inputValue()) || 1);
  assert.equal(batch * accumulation, 128, "as many tokens a step");
  assert.equal(await focused(page), "Plan");
  assert.equal(await page.locator(".plan-verdict").count(), 0, "the plan was of the form as it was");
  assert.deepEqual((await jobs()).filter(({ name }) => name !== "once"), [], "planning makes no job");
});

test("where no job tells the speed the form says what to give", async (t) => {
  const page = await openPage(t, "#/submit");
  page.expected.push(DRY_RUN, PLAN);
  await page.getByLabel("train_data_path").waitFor();
  await fill(page, { nodes: 2 });
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await waitText(plan(page).getByRole("alert"), /no job here has trained this model.*give microbatch_s/);
  await page.getByLabel("Seconds a microbatch").fill("fast");
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await waitText(page.locator("#plan-microbatch_s-error"), /Enter a number/);
  assert.equal(await focused(page), "plan-microbatch_s");
  await page.getByLabel("Seconds a microbatch").fill("0.03");
  await fill(page, { min_nodes: 9 });
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await waitText(error(page, "min_nodes"), /above nodes|more than/);
  assert.equal(await focused(page), "field-min_nodes");
});

for (const [name, how] of [
  ["dark", { scheme: "dark", height: 1200 }],
  ["phone", { width: 360, height: 740 }],
]) {
  test(`the plan can be read: ${name}`, async (t) => {
    const page = await openPage(t, "#/submit", how);
    await planned(page);
    assert.ok(await page.evaluate(() => document.scrollingElement.scrollWidth <= innerWidth), "nothing is wider than the screen");
    await screenshot(plan(page), `submit-plan-${name}`);
  });
}

test("at phone width the form is whole", async (t) => {
  const page = await openPage(t, "#/submit", { width: 360, height: 740 });
  page.expected.push(DRY_RUN);
  await page.locator("#field-nodes").fill("0");
  await waitText(error(page, "nodes"), /out of range/);
  await screenshot(page, "submit-phone-errors");
});
