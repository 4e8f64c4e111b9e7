// Debian's Chromium, and a page in it that notes whatever goes wrong: errors on the console (a broken Content-Security-Policy
// is one), exceptions, requests that failed or were answered with an error.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { after, before } from "node:test";
import { chromium } from "playwright-core";
import { adminToken, PATIENCE, url } from "./cluster.mjs";

const ARTIFACTS = process.env.HOLDFAST_PAGE_ARTIFACTS ?? "page-artifacts";
const WAIT_MS = 15000;
let browser;

// To be called once by each file of tests.
export function withBrowser() {
  before(async () => {
    mkdirSync(ARTIFACTS, { recursive: true });
    browser = await chromium.launch({
      executablePath: process.env.HOLDFAST_PAGE_CHROMIUM,
      args: ["--font-render-hinting=none"],
    });
  });
  after(() => browser?.close());
}

function watch(page) {
  const wrong = [];
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    wrong.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => wrong.push(`exception: ${error.stack}`));
  page.on("requestfailed", (request) => {
    const why = request.failure()?.errorText;
    if (why === "net::ERR_ABORTED") return; // by the page itself
    wrong.push(`request: ${request.method()} ${request.url()}: ${why}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400)
      wrong.push(`answer: ${response.status()} to ${response.request().method()} ${response.url()}`);
  });
  return wrong;
}

// A page in a context of its own, closed after test `t`, which fails if anything went wrong that page.expected (patterns) does
// not name. `token` null: not signed in.
export async function openPage(
  t,
  hash = "",
  { token = adminToken, width = 1280, height = 900, scheme = "light", base = url } = {},
) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: "reduce",
    deviceScaleFactor: 1,
  });
  context.setDefaultTimeout(WAIT_MS * PATIENCE);
  if (token) {
    // Only where there is none yet: signing out must hold.
    await context.addInitScript((value) => {
      if (!sessionStorage.getItem("begun")) sessionStorage.setItem("holdfast.token", value);
      sessionStorage.setItem("begun", "yes");
    }, token);
  }
  const page = await context.newPage();
  const wrong = watch(page);
  page.expected = [];
  t.after(async () => {
    await context.close();
    const surprising = wrong.filter((line) => !page.expected.some((pattern) => pattern.test(line)));
    assert.deepEqual(surprising, [], `what went wrong on the page in “${t.name}”`);
  });
  await page.goto(`${base}/${hash}`);
  return page;
}

export async function screenshot(page, name, options = {}) {
  if (options.fullPage) await page.evaluate(() => scrollTo(0, 0)); // what sticks to the screen belongs at its top
  await page.screenshot({ path: path.join(ARTIFACTS, `${name}.png`), ...options });
}

// The text of an element, once it is as wanted.
export async function waitText(locator, pattern, seconds = 15) {
  const deadline = Date.now() + 1000 * seconds * PATIENCE;
  let text = "";
  do {
    text = (await locator.count()) > 0 ? (await locator.first().innerText()).trim() : "(it is not there)";
    if (pattern.test(text)) return text;
    await new Promise((resolve) => setTimeout(resolve, 30));
  } while (Date.now() < deadline);
  assert.match(text, pattern);
  return text;
}

export const focused = (page) =>
  page.evaluate(() => {
    const element = document.activeElement;
    return element.id || element.getAttribute("aria-label") || element.textContent.trim().slice(0, 60);
  });
