// The playground of `holdfast serve-model`: two checkpoints beside each other write what their API writes, and each token tells how
// likely it was.
import assert from "node:assert/strict";
import test from "node:test";
import { contrasts, focused, openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import * as cluster from "./cluster.mjs";

withBrowser();

const PROMPT = "THE SOFTWARE";
let served;
test("two checkpoints of a job are served", async () => {
  served = await cluster.serveTwoCheckpoints();
});

const open = (t, options = {}) => openPage(t, "", { base: served.base, token: served.token, ...options });
const card = (page, model) => page.getByRole("region", { name: model, exact: true });
const write = async (page, { tokens = 24, seed = 3 } = {}) => {
  await page.getByLabel("Prompt").fill(PROMPT);
  await page.getByLabel("Tokens at most").fill(String(tokens));
  await page.getByLabel("Seed").fill(String(seed));
  await page.getByLabel("Prompt").press("Control+Enter");
};

test("both write what the API writes", async (t) => {
  const page = await open(t);
  await page.getByLabel("Beside it").selectOption(served.models[1]);
  await write(page);
  for (const model of served.models) {
    await waitText(card(page, model), /24 tokens in .*seed 3; ended: length/);
    const reply = await fetch(`${served.base}/v1/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${served.token}` },
      body: JSON.stringify({ model, prompt: PROMPT, max_tokens: 24, seed: 3, temperature: 1 }),
    });
    const text = (await reply.json()).choices[0].text;
    assert.equal(await card(page, model).locator(".written").evaluate((element) => element.textContent), PROMPT + text);
  }
  const tints = await page.locator(".answer .token").evaluateAll((all) => new Set(all.map((each) => each.dataset.tint)).size);
  assert.ok(tints > 1, "tokens differ in how likely they were");
  await waitText(page.locator("#load"), /^0 texts, 0 waiting, \d+ tokens\/s, 0 % of the pages$/);
  await screenshot(page, "playground", { fullPage: true });

  await t.test("a token tells its chances, to the pointer and to the keys", async () => {
    const written = card(page, served.models[0]).locator(".written");
    const chances = card(page, served.models[0]).locator(".chances");
    await written.locator(".token").nth(4).hover();
    assert.match(await chances.innerText(), /%/);
    await screenshot(page, "playground-chances");
    await page.mouse.move(0, 0);
    await chances.waitFor({ state: "hidden" });
    await written.focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    assert.equal(await written.locator("[data-shown]").evaluate((shown) => [...shown.parentElement.querySelectorAll(".token")].indexOf(shown)), 1);
    assert.ok((await chances.locator(".share").count()) >= 5);
    await page.keyboard.press("Escape");
    await chances.waitFor({ state: "hidden" });
  });

  await t.test("the command for a shell asks the same", async () => {
    await card(page, served.models[0]).getByText("The same from a shell").click();
    await waitText(card(page, served.models[0]).locator("pre"), /curl -s -H "Authorization: Bearer \$HOLDFAST_TOKEN" http:.*"prompt":"THE SOFTWARE".*"seed":3/);
  });
});

test("what is wrong is said where it is", async (t) => {
  const page = await open(t);
  await page.getByLabel("Temperature").fill("warm");
  await write(page);
  assert.equal(await focused(page), "option-temperature");
  await waitText(page.locator("#option-temperature-error"), /Enter a number/);
  await page.getByLabel("Temperature").fill("1");
  page.expected.push(/status of 400|answer: 400/);
  await page.getByLabel("Prompt").fill("word ".repeat(400));
  await page.getByLabel("Prompt").press("Control+Enter");
  await waitText(page.getByRole("alert").first(), /tokens/);
});

test("a token is asked for, once", async (t) => {
  const page = await open(t, { token: null });
  page.expected.push(/status of 401|answer: 401/);
  await page.getByLabel(/One that this server takes/).fill("wrong");
  await page.keyboard.press("Enter");
  await waitText(page.getByRole("alert"), /this token is not one of this server's/);
  await page.getByLabel(/One that this server takes/).fill(served.token);
  await page.keyboard.press("Enter");
  await page.getByLabel("Prompt").waitFor();
  await page.reload();
  await page.getByLabel("Prompt").waitFor();
});

for (const scheme of ["light", "dark"]) {
  test(`on a phone in ${scheme} colours`, async (t) => {
    const page = await open(t, { width: 360, height: 740, scheme });
    await page.getByLabel("Beside it").selectOption(served.models[1]);
    await write(page);
    await waitText(card(page, served.models[1]), /ended: length/);
    assert.deepEqual(await page.evaluate(contrasts), []);
    const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${wide} px too wide`);
    await screenshot(page, `playground-phone-${scheme}`, { fullPage: true });
  });
}
