// Signing in and out, and what is kept where.
import assert from "node:assert/strict";
import test from "node:test";
import { focused, openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import { adminToken, url, workerToken } from "./cluster.mjs";

withBrowser();

const stored = (page) =>
  page.evaluate(() => [sessionStorage.getItem("holdfast.token"), localStorage.getItem("holdfast.token")]);

async function enter(page, token) {
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

test("who has no token is asked for one, and sees nothing else", async (t) => {
  const page = await openPage(t, "#/jobs", { token: null });
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await focused(page), "token");
  assert.equal(await page.getByRole("navigation").count(), 0);
  await screenshot(page, "sign-in");
});

test("a wrong token is told so, and the field is ready for another", async (t) => {
  const page = await openPage(t, "#/jobs", { token: null });
  page.expected.push(/401/);
  await enter(page, "none-of-ours");
  await waitText(page.getByRole("alert"), /does not know this token/);
  assert.equal(await focused(page), "token");
  assert.deepEqual(await stored(page), [null, null]);
  await enter(page, "with blanks");
  await waitText(page.getByRole("alert"), /no spaces/);
});

test("a worker's token is refused with the reason", async (t) => {
  const page = await openPage(t, "#/jobs", { token: null });
  page.expected.push(/403/);
  await enter(page, workerToken);
  await waitText(page.getByRole("alert"), /worker/i);
  assert.deepEqual(await stored(page), [null, null]);
});

test("a token lasts as long as the tab, and is in no address", async (t) => {
  const page = await openPage(t, "#/nodes", { token: null });
  const addresses = [];
  page.on("request", (request) => addresses.push(request.url()));
  await enter(page, adminToken);
  await page.getByRole("heading", { name: "Nodes", exact: true }).waitFor();
  assert.deepEqual(await stored(page), [adminToken, null]);
  await page.reload();
  await page.getByRole("heading", { name: "Nodes", exact: true }).waitFor();
  assert.equal(page.url().includes(adminToken), false);
  assert.equal(
    addresses.some((address) => address.includes(adminToken)),
    false,
  );
});

test("a token is kept on the device on request, until its owner signs out", async (t) => {
  const page = await openPage(t, "", { token: null });
  await page.getByLabel("Keep me signed in").check();
  await enter(page, adminToken);
  await page.getByRole("heading", { name: "Jobs", exact: true }).waitFor();
  assert.deepEqual(await stored(page), [null, adminToken]);
  await page.getByLabel(/^Account/).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(await stored(page), [null, null]);
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("a token that is no longer good leads back to signing in, and says why", async (t) => {
  const page = await openPage(t, "#/jobs", { token: "was-good-once" });
  page.expected.push(/401/);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await waitText(page.getByRole("alert"), /no longer good/);
});

test("the page's files come with a strict policy, a tag, and nothing from elsewhere", async (t) => {
  const page = await openPage(t, "", { token: null });
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  const [reply] = await Promise.all([page.waitForResponse((response) => response.url().endsWith("/")), page.reload()]);
  const headers = reply.headers();
  assert.match(
    headers["content-security-policy"],
    /^default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'/,
  );
  assert.equal(headers["cache-control"], "no-cache");
  assert.match(headers.etag, /^"[0-9a-f]+"$/);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  const origin = new URL(page.url()).origin;
  assert.deepEqual(
    requests.filter((address) => !address.startsWith(origin) && !address.startsWith("data:")),
    [],
  );
});

test("a file that the browser has is not sent again, and one that is not the page's is not there", async () => {
  const first = await fetch(`${url}/page/style.css`);
  assert.match(first.headers.get("content-type"), /^text\/css/);
  const again = await fetch(`${url}/page/style.css`, { headers: { "If-None-Match": first.headers.get("etag") } });
  assert.equal(again.status, 304);
  assert.equal(await again.text(), "");
  const other = await fetch(`${url}/page/style.css`, { headers: { "If-None-Match": '"another"' } });
  assert.equal(await other.text(), await first.text());
  for (const name of ["nothing.js", "..%2Fmain.js", "CMakeLists.txt"]) {
    assert.equal((await fetch(`${url}/page/${name}`)).status, 404, name);
  }
});
