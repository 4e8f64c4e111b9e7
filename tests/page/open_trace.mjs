// Opens a trace in speedscope, a viewer of such traces from npm, in Debian's Chromium, and prints as JSON what it shows: each
// thread by the name that it gives it, and of its spans by name the milliseconds in all.
//
//   HOLDFAST_PAGE_CHROMIUM=/usr/bin/chromium node open_trace.mjs TRACE.json SCREENSHOT.png
//
// The trace is handed over as speedscope's own command line does it: as a script that calls speedscope.loadFileFromBase64.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [trace, screenshot] = process.argv.slice(2);
const viewer = path.join(path.dirname(createRequire(import.meta.url).resolve("speedscope/package.json")), "dist", "release");
const folder = mkdtempSync(path.join(tmpdir(), "trace-"));
const script = path.join(folder, "trace.js");
writeFileSync(script, `speedscope.loadFileFromBase64("trace.json", ${JSON.stringify(readFileSync(trace).toString("base64"))})`);

const UNITS = { ns: 1e-6, "µs": 1e-3, ms: 1, s: 1000, min: 60000 };

// "12.00ms (60%)" in milliseconds.
function milliseconds(text) {
  const [, value, unit] = /^([\d.]+)(ns|µs|ms|s|min) /.exec(text);
  return Number(value) * UNITS[unit];
}

// The thread that is shown, and of its spans by name the milliseconds in all. A name has its arguments behind it.
async function shownThread(page) {
  const rows = await page.$$eval("table tr", (all) => all.map((row) => [...row.children].map((cell) => cell.innerText)));
  const total_ms = {};
  for (const [total, , name] of rows.slice(1)) {
    const [bare] = name.split(" {");
    total_ms[bare] = (total_ms[bare] ?? 0) + milliseconds(total);
  }
  return { thread: await page.getByText(COUNT).locator("..").innerText(), total_ms };
}

const COUNT = /\(\d+\/\d+\)$/;
const args = ["--allow-file-access-from-files"];
const browser = await chromium.launch({ executablePath: process.env.HOLDFAST_PAGE_CHROMIUM, args });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(String(error)));
  await page.goto(`${pathToFileURL(path.join(viewer, "index.html"))}#localProfilePath=${script}`);
  const first = await page.getByText(COUNT).innerText();
  await page.screenshot({ path: screenshot });
  await page.setViewportSize({ width: 1280, height: 6000 }); // only rows that can be seen are there
  await page.keyboard.press("3");
  const threads = [];
  const many = Number(/\/(\d+)\)$/.exec(first)[1]);
  for (let number = 1; number <= many; number += 1) {
    await page.getByText(`(${number}/${many})`).waitFor();
    await page.locator("table tr").nth(1).waitFor();
    threads.push(await shownThread(page));
    await page.keyboard.press("n");
  }
  console.log(JSON.stringify({ threads, wrong }));
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
