// How smooth the page is in Debian's Chromium with 10,000 jobs, and on a run of a million steps that goes on at 50 points a
// second.
//
//   node bench/page_smoothness.mjs [SECONDS]      prints one JSON object
//
// Against the pretending service of the page's tests, so that only the page is measured. A long task is the browser's word for
// one that holds up everything else for more than 50 ms.
import { chromium } from "../tests/page/node_modules/playwright-core/index.mjs";
import { fakeService } from "../tests/page/fake_service.mjs";

const SECONDS = Number(process.argv[2] ?? 20);
const PAGES = 30;
const OPTIONS = { jobs: 10000, points: 1_000_000, live: 50 };

const server = fakeService(OPTIONS).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const url = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium" });
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
await context.addInitScript(() => {
  sessionStorage.setItem("holdfast.token", "any");
  window.longTasks = [];
  new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration))).observe({
    type: "longtask",
  });
});
const page = await context.newPage();
const quantile = (values, share) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))];

// From asking for the page to its first rows.
const began = performance.now();
await page.goto(`${url}/#/jobs`);
await page.locator("tbody tr").nth(49).waitFor();
const listMs = performance.now() - began;

// From a click on "Older" to the next rows on the screen, as the page itself sees it.
const turns = await page.evaluate(async (pages) => {
  const taken = [];
  const first = () => document.querySelector("tbody tr a").textContent + document.querySelector("tbody tr .job-id").textContent;
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  for (let i = 0; i < pages; i += 1) {
    const before = first();
    const start = performance.now();
    [...document.querySelectorAll(".paging button")].at(-1).click();
    while (first() === before) await frame();
    taken.push(performance.now() - start);
  }
  return taken;
}, PAGES);

await page.goto(`${url}/#/jobs/j8`);
const openBegan = performance.now();
await page.locator(".chart canvas").first().waitFor();
const openMs = performance.now() - openBegan;
const frames = await page.evaluate(async (seconds) => {
  window.longTasks.length = 0;
  const taken = [];
  const end = performance.now() + 1000 * seconds;
  let last = performance.now();
  while (last < end) {
    const now = await new Promise((resolve) => requestAnimationFrame(resolve));
    taken.push(now - last);
    last = now;
    scrollTo(0, 300 * (1 + Math.sin(now / 500)));
  }
  return taken;
}, SECONDS);
const longTasks = await page.evaluate(() => window.longTasks);
const session = await context.newCDPSession(page);
await session.send("HeapProfiler.collectGarbage");
await session.send("Performance.enable");
const { metrics } = await session.send("Performance.getMetrics");
const metric = (name) => metrics.find((each) => each.name === name).value;

console.log(
  JSON.stringify({
    list_ms: listMs,
    turn_p50_ms: quantile(turns, 0.5),
    turn_p99_ms: quantile(turns, 0.99),
    job_ms: openMs,
    frame_p50_ms: quantile(frames, 0.5),
    frame_p99_ms: quantile(frames, 0.99),
    long_tasks: longTasks.length,
    longest_task_ms: Math.max(0, ...longTasks),
    heap_mb: metric("JSHeapUsedSize") / 1e6,
    elements: metric("Nodes"),
  }),
);
await browser.close();
server.closeAllConnections();
server.close();
