/** What a page shows of a machine whose clock is not that of the browser's computer. */

import { assertEquals, assertMatch } from "@std/assert";
import { openPage } from "./browser.ts";
import { cardOf, type PageShared, type PageStep } from "./page_steps.ts";

/** The browser's computer is so far ahead of the machine; behind it if negative. */
function withClockAhead(ms: number): string {
  return `{ const now = Date.now; Date.now = () => now() + ${ms}; }`;
}

const HOUR_MS = 3_600_000;

async function looksAt(
  { machine, browser }: PageShared,
  aheadMs: number,
): Promise<{ readonly operation: string; readonly since: string }> {
  const { page, errors } = await openPage(browser, machine.url, { bare: true });
  await page.addInitScript(withClockAhead(aheadMs));
  await page.goto(`${machine.url}/#/control`);
  const card = await cardOf(page, "motor1");
  await card.getByLabel("Turns").fill("500");
  await card.getByRole("button", { name: "Go for" }).click();
  await page.goto(`${machine.url}/#/activity`);
  const operation = page.locator("li", { hasText: "GoFor" }).locator("span.label").first();
  await operation.filter({ hasText: /^\d+(\.\d)?\u202f(ms|s)$/ }).waitFor();
  const text = await operation.innerText();
  await page.goto(`${machine.url}/#/resources`);
  const since = page.locator("tr", { hasText: "motor1" }).locator("td").last();
  await since.filter({ hasText: /^\d+(\.\d)?\u202f(ms|s|min)$/ }).waitFor();
  const found = { operation: text, since: await since.innerText() };
  await page.getByRole("button", { name: "STOP", exact: true }).click();
  assertEquals(errors, []);
  await page.context().close();
  return found;
}

export const STALE_STEPS: readonly PageStep[] = [
  ["what takes long is shown by a browser whose clock is behind the machine's", async (shared) => {
    const { operation } = await looksAt(shared, -HOUR_MS);
    assertMatch(operation, /s$/);
  }],
  ["ages are the machine's in a browser whose clock is years ahead", async (shared) => {
    const { since } = await looksAt(shared, 3 * 365 * 24 * HOUR_MS);
    assertMatch(since, /(s|min)$/);
  }],
];
