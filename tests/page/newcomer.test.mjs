// The newcomer's part of test_documents_run.py in the browser: sign in with the token of the service's folder, and watch the job.
import test from "node:test";
import { openPage, screenshot, waitText, withBrowser } from "./browser.mjs";
import { adminToken, waitFor } from "./cluster.mjs";

withBrowser();

const stepOf = (text) => Number(/step ([\d,]+)/i.exec(text)?.[1].replaceAll(",", "") ?? 0);

test("signs in, opens the job and sees it train", async (t) => {
  const page = await openPage(t, "", { token: null });
  await page.getByLabel("Access token").fill(adminToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("row").getByRole("link").first().click();
  const progress = page.locator(".progress-line span").first();
  await waitText(progress, /step [1-9][\d,]* of 1,?000/i, 90);
  const first = stepOf(await progress.innerText());
  await waitFor(async () => stepOf(await progress.innerText()) > first, "the step to move", 60);
  const loss = page.locator(".chart").filter({ has: page.getByRole("heading", { name: "Loss", exact: true }) });
  await loss.locator("canvas").waitFor();
  await screenshot(page, "newcomer");
});
