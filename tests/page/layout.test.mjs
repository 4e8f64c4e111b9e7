// How it looks and feels: no sideways scrolling on a phone, light and dark, enough contrast, and everything within reach of the
// keys.
import assert from "node:assert/strict";
import test from "node:test";
import { contrasts, focused, openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import * as cluster from "./cluster.mjs";

withBrowser();

let job;
test("a job to look at", async () => {
  await cluster.startWorkers(["worker-with-a-rather-long-name-on-rack-7", "b"], { slow_ms: 40 });
  await cluster.submit(await cluster.smallSpec({ total_steps: 10 }));
  job = await cluster.submit(
    await cluster.smallSpec({
      name: "a-name-as-long-as-people-make-them-when-they-put-every-setting-into-it-lr-3e-3-bs-12",
      nodes: 2,
      total_steps: 4000,
      checkpoint_every: 20,
      eval_every: 20,
      labels: { team: "nlp", "project.example/stage": "trial" },
    }),
  );
  await cluster.submit(await cluster.smallSpec({ name: "waits", min_nodes: 6, nodes: 6 }));
  await cluster.waitStep(job, 60);
});

for (const width of [360, 768]) {
  test(`nothing is wider than a screen of ${width} px`, async (t) => {
    for (const [hash, name, there] of [
      ["#/jobs", "jobs", "tbody tr"],
      [`#/jobs/${job}`, "job", ".chart canvas"],
      ["#/nodes", "nodes", "tbody tr"],
      ["#/submit", "submit", "[data-field]"],
    ]) {
      const page = await openPage(t, hash, { width, height: 740 });
      page.expected.push(/dry_run=1/);
      if (name === "job") await page.locator(".charts").scrollIntoViewIfNeeded(); // they are drawn when they can be seen
      await page.locator(there).first().waitFor();
      await waitText(page.locator("main"), /\w/);
      const wide = await page.evaluate(() => ({
        scroll: document.scrollingElement.scrollWidth,
        inner: innerWidth,
        culprits: [...document.querySelectorAll("main *")]
          .filter(
            (element) =>
              element.getBoundingClientRect().right > innerWidth + 1 &&
              !element.closest(".section-links, .visually-hidden, .rows thead"),
          )
          .slice(0, 5)
          .map((element) => element.outerHTML.slice(0, 120)),
      }));
      assert.ok(
        wide.scroll <= wide.inner,
        `${name} is ${wide.scroll} px wide on a screen of ${wide.inner}: ${wide.culprits.join("\n")}`,
      );
      assert.deepEqual(wide.culprits, [], name);
      if (width === 360) await screenshot(page, `${name}-phone`, { fullPage: true });
    }
  });
}

for (const scheme of ["light", "dark"]) {
  test(`in ${scheme} colours all text can be read`, async (t) => {
    for (const [hash, there] of [
      ["#/jobs", "tbody tr"],
      [`#/jobs/${job}`, ".chart canvas"],
      ["#/nodes", "tbody tr"],
      ["#/submit", "[data-field]"],
    ]) {
      const page = await openPage(t, hash, { scheme });
      await page.locator(there).first().waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), scheme);
      assert.deepEqual(await page.evaluate(contrasts), [], hash);
      if (hash.includes(job)) {
        await page.locator(".checkpoints tbody tr").first().waitFor();
        await screenshot(page, `job-${scheme}`, { fullPage: true });
      }
      if (hash === "#/jobs") await screenshot(page, `jobs-${scheme}`);
    }
  });
}

test("the colours follow the system until the reader chooses", async (t) => {
  const page = await openPage(t, "#/jobs", { scheme: "dark" });
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await theme(), "dark");
  const dark = await ground();
  await page.emulateMedia({ colorScheme: "light" });
  await cluster.waitFor(async () => (await theme()) === "light", "the page to follow the system");
  assert.notEqual(await ground(), dark);
  const button = page.locator("#theme");
  await button.click(); // from the system's to light
  await button.click(); // to dark
  assert.equal(await theme(), "dark");
  assert.equal(await ground(), dark);
  await page.reload();
  await page.locator("tbody tr").first().waitFor();
  assert.equal(await theme(), "dark");
  await button.click();
  assert.equal(await theme(), "light", "back to the system's");
});

test("the keys alone lead from the top of the list to a job's buttons", async (t) => {
  const page = await openPage(t, "#/jobs");
  await page.locator("tbody tr").first().waitFor();
  await page.keyboard.press("Tab");
  assert.match(await focused(page), /skip/i);
  await page.keyboard.press("Enter");
  assert.equal(await focused(page), "main");
  const seen = [];
  for (let i = 0; i < 12 && !seen.at(-1)?.startsWith("waits"); i += 1) {
    await page.keyboard.press("Tab");
    seen.push(await focused(page));
  }
  assert.deepEqual(seen.slice(0, 3), ["filter-state", "filter-search", "Submit a job"], seen.join(" > "));
  assert.equal(seen.at(-1), "waits");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, "solid", "where the focus is can be seen");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "waits" }).waitFor();
  assert.equal(await focused(page), "waits");
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "Pause");
});

test("each view has one heading, landmarks, and a name for everything that can be used", async (t) => {
  for (const hash of ["#/jobs", `#/jobs/${job}`, "#/nodes", "#/submit"]) {
    const page = await openPage(t, hash);
    await page.locator("main h1").waitFor();
    await page.locator("tbody tr, [data-field]").first().waitFor();
    assert.equal(await page.locator("h1:visible").count(), 1, hash);
    assert.equal(await page.getByRole("main").count(), 1);
    assert.equal(await page.getByRole("banner").count(), 1);
    assert.ok((await page.getByRole("navigation").count()) >= 1);
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll("main :is(a, button, input, select, [tabindex='0']), header :is(a, button)")]
        .filter((element) => element.offsetParent !== null)
        .filter(
          (element) =>
            !(
              element.textContent.trim() ||
              element.getAttribute("aria-label") ||
              element.getAttribute("aria-labelledby") ||
              element.labels?.length
            ),
        )
        .map((element) => element.outerHTML.slice(0, 100)),
    );
    assert.deepEqual(nameless, [], hash);
    assert.match(await page.title(), /Holdfast$/);
  }
});
