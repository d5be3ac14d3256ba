/** The page by keyboard alone, and for those who see little: WCAG 2.2 AA, wide and light, narrow and dark. */

import { assert, assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { openPage, violations } from "./browser.ts";
import type { PageStep } from "./page_steps.ts";

/** Other steps look at the configuration, the scene and dashboards, wide and light. */
const WIDE_VIEWS = ["resources", "resources/graph", "logs", "activity", "diagnostics", "connect"];
/** With a dashboard of this name. */
const DASHBOARDS = ["control/dashboard/Drive", "screen/Drive"];
const NARROW_VIEWS = ["control", ...DASHBOARDS, "scene", "configuration", ...WIDE_VIEWS];
/** Far more than stops on any way of this tour. */
const STOPS_MAX = 80;

/** What has the focus, by its name for people. */
const FOCUSED = `(() => {
  const one = document.activeElement;
  return (one?.getAttribute("aria-label") ?? one?.labels?.[0]?.textContent ?? one?.textContent ?? "").trim();
})()`;
const OUTLINE = `getComputedStyle(document.activeElement).outlineStyle`;

/** Goes on by Tab to what has this name; every stop shows that it has the focus. */
async function tabTo(page: Page, wanted: RegExp): Promise<void> {
  const passed: string[] = [];
  for (let stop = 0; stop < STOPS_MAX; stop++) {
    await page.keyboard.press("Tab");
    // Behind the last stop is none, before the first begins.
    if (await page.evaluate("document.activeElement === document.body")) continue;
    const name: string = await page.evaluate(FOCUSED);
    assert(await page.evaluate(OUTLINE) !== "none", `nothing shows the focus on "${name}"`);
    if (wanted.test(name)) return;
    passed.push(name);
  }
  throw new Error(`the keyboard does not reach ${wanted}; it passes ${passed.join(", ")}`);
}

export const ACCESS_STEPS: readonly PageStep[] = [
  ["a person drives the machine by keyboard alone", async ({ machine, browser }) => {
    const { page, errors } = await openPage(browser, machine.url, { bare: true });
    await page.goto(`${machine.url}/#/control`);
    await page.locator("aside button.entry").first().waitFor();
    await tabTo(page, /^Skip to the content/);
    await page.keyboard.press("Enter");
    await tabTo(page, /^Filter the resources/);
    await page.keyboard.type("switch1");
    await tabTo(page, /switch1$/);
    await page.keyboard.press("Space");
    const card = page.locator('article[data-name="switch1"]');
    await card.getByRole("button", { name: "high" }).waitFor();
    await tabTo(page, /^high$/);
    await page.keyboard.press("Enter");
    await card.locator("button[aria-pressed=true]", { hasText: "high" }).waitFor();
    await page.keyboard.press("Shift+Escape");
    await page.getByText("Everything was told to stop").waitFor();

    for (
      const [tab, heading] of [["Activity", "Sessions"], ["Diagnostics", "Versions"], ["Connect", "Run it"]]
    ) {
      await page.evaluate("document.activeElement.blur()");
      await tabTo(page, new RegExp(`^${tab}`));
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: heading }).waitFor();
    }
    assertEquals(errors, []);
    await page.context().close();
  }],
  ["no view violates WCAG 2.2 AA: wide and light, narrow and dark", async ({ machine, browser }) => {
    const found: string[] = [];
    const look = async (page: Page, shown: string) => {
      found.push(...(await violations(page)).map((one) => `${shown}: ${one}`));
      const excess = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
      if (excess !== 0) found.push(`${shown}: it is ${excess} pixels too wide`);
    };
    for (const dark of [false, true]) {
      const size = dark ? { width: 390, height: 844 } : {};
      const { page } = await openPage(browser, machine.url, { ...size, dark, bare: true });
      for (const view of dark ? NARROW_VIEWS : WIDE_VIEWS) {
        await page.goto(`${machine.url}/#/${view}`);
        await page.locator("main > *").first().waitFor();
        if (DASHBOARDS.includes(view)) await page.locator("article").first().waitFor();
        await look(page, `${view}${dark ? " (narrow and dark)" : ""}`);
      }
      await page.context().close();
    }
    // The colours are the same for all cards; the rest is looked at once.
    const { page } = await openPage(browser, machine.url, { bare: true });
    await page.goto(machine.url);
    for (const { name } of machine.runtime.machine.nodes) {
      await page.locator("aside button.entry", { has: page.getByText(name.short, { exact: true }) }).first()
        .click();
    }
    await page.locator("article").nth([...machine.runtime.machine.nodes].length - 1).waitFor();
    await look(page, "all cards");
    await page.context().close();
    assertEquals(found, []);
  }],
];
