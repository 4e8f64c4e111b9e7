// A checkpoint's model is downloaded from the page: prepared by the service, saved by the browser, refused in words.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { stat } from "node:fs/promises";
import test from "node:test";
import { focused, openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import * as cluster from "./cluster.mjs";

withBrowser();

const dialog = (page) => page.getByRole("dialog");
const button = (page) => page.getByRole("button", { name: "Download the model of step 20", exact: true });

test("a model is downloaded by the keys alone, and by whoever may only read", async (t) => {
  await cluster.startWorkers(["a"]);
  const job = await cluster.submit(await cluster.smallSpec({ name: "exported", total_steps: 20 }));
  await cluster.waitState(job, "succeeded");
  const page = await openPage(t, `#/jobs/${job}/checkpoints`, { token: await cluster.tokenOf("read") });
  await button(page).focus();
  await page.keyboard.press("Enter");
  await dialog(page).waitFor();
  assert.equal(await focused(page), "export-format");

  await t.test("what cannot be exported here is said, with the command that can", async () => {
    page.expected.push(/status of 409|answer: 409/);
    await page.getByLabel("Format").selectOption("gguf");
    await dialog(page).getByRole("button", { name: "Download" }).click();
    await waitText(dialog(page).getByRole("alert"), new RegExp(`holdfast ckpt export job:${job}@20 --format gguf .*--tokenizer DIR`));
    await screenshot(page, "dialog-export-refused");
  });

  await t.test("numpy is offered no bfloat16", async () => {
    const types = page.getByLabel("Type of the parameters");
    await types.selectOption("bfloat16");
    await page.getByLabel("Format").selectOption("npz");
    assert.equal(await types.inputValue(), "float32");
  });

  await t.test("the browser saves the file, whole and under its name", async () => {
    await page.getByLabel("Format").selectOption("safetensors");
    await page.getByLabel("Type of the parameters").selectOption("float16");
    const download = page.waitForEvent("download");
    await dialog(page).getByRole("button", { name: "Download" }).focus();
    await page.keyboard.press("Enter");
    const saved = await download;
    assert.equal(saved.suggestedFilename(), `${job}-step-20-float16-safetensors.tar`);
    assert.equal(await saved.failure(), null);
    const path = await saved.path();
    const folder = `${job}-step-20-float16`;
    assert.deepEqual(execFileSync("tar", ["tf", path], { encoding: "utf8" }).trim().split("\n"), [
      `${folder}/config.json`,
      `${folder}/generation_config.json`,
      `${folder}/model.safetensors`,
    ]);
    assert.ok((await stat(path)).size > 100000);
    await waitText(page.locator("dialog h2"), /The browser saves it/);
    await waitText(page.locator("dialog .commands"), new RegExp(`from_pretrained\\("${folder}"\\)`));
    await screenshot(page, "dialog-export-saved");
    assert.equal(await focused(page), "Close");
    await page.keyboard.press("Enter");
    await dialog(page).waitFor({ state: "detached" });
    assert.equal(await focused(page), "Download the model of step 20");
  });

  await t.test("a damaged checkpoint is named, and nothing is saved", async () => {
    page.expected.push(/status of 422|answer: 422/);
    const shard = (await cluster.get(`jobs/${job}/objects?prefix=step-0000000020/shard`)).keys[0];
    assert.equal(await cluster.putObject(job, shard, "damaged"), 204);
    let downloads = 0;
    page.on("download", () => (downloads += 1));
    await button(page).click();
    await dialog(page).getByRole("button", { name: "Download" }).click();
    await waitText(dialog(page).getByRole("alert"), new RegExp(shard.split("/")[1]));
    assert.equal(downloads, 0);
    await dialog(page).getByRole("button", { name: "Cancel" }).click();
  });
});
