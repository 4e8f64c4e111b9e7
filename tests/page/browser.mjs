// Debian's Chromium, and a page in it that notes whatever goes wrong: errors on the console (a broken Content-Security-Policy
// is one), exceptions, requests that failed or were answered with an error.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { after, before } from "node:test";
import { chromium } from "playwright-core";
import { adminToken, PATIENCE, url } from "./cluster.mjs";

const ARTIFACTS = process.env.HOLDFAST_PAGE_ARTIFACTS ?? "page-artifacts";
const WAIT_MS = 30000;
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

// The contrast of WCAG 2, of each text against what is painted behind it: those that are too low. To be run in the page.
export const contrasts = () => {
  const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const luminance = ({ r, g, b }) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.a === 1) return colour;
    }
    return { r: 255, g: 255, b: 255 };
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "");
    if (
      !own ||
      element.closest("[hidden], .visually-hidden, [aria-disabled=true], :disabled, noscript") ||
      element.offsetParent === null
    )
      continue;
    const [light, dark] = [luminance(parse(getComputedStyle(element).color)), luminance(behind(element))].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < 4.5)
      poor.push(`${ratio.toFixed(2)}: ${element.className || element.tagName} “${element.textContent.trim().slice(0, 30)}”`);
  }
  return [...new Set(poor)];
};
