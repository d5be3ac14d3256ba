/** Dashboards: kept on the machine, arranged, exported, imported, alone on the screen. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Page } from "playwright-core";
import { cardOf, closeCards, type PageStep } from "./page_steps.ts";
import { openPage, violations } from "./browser.ts";

/** The names of the cards on the screen, in the order of the keyboard. */
const CARDS = "article[data-name]";

export const DASHBOARD_STEPS: readonly PageStep[] = [
  [
    "the open cards become a dashboard, which every page of the machine has",
    async ({ machine, browser, watched }) => {
      const { page } = watched;
      await page.goto(`${machine.url}/#/control`);
      await closeCards(page);
      for (const name of ["servo1", "switch1", "motor1"]) await cardOf(page, name);
      await page.getByRole("button", { name: "Save as dashboard" }).click();
      await page.getByLabel("Name of the new dashboard").fill("Drive <b>");
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await page.getByRole("link", { name: "Drive <b>", exact: true }).and(page.locator("[aria-current]"))
        .waitFor();
      const context = await browser.newContext();
      const other = await context.newPage();
      await other.goto(`${machine.url}/#/screen/${encodeURIComponent("Drive <b>")}`);
      await other.locator(CARDS).nth(2).waitFor();
      assertEquals(await other.getByRole("navigation", { name: "Views" }).count(), 0);
      assert(await other.getByRole("button", { name: "STOP", exact: true }).isVisible());
      await context.close();
    },
  ],
  [
    "cards of a dashboard are moved, widened, added and taken away, and kept on demand",
    async ({ watched: { page } }) => {
      const names = () =>
        page.locator(CARDS).evaluateAll((all) => all.map((one) => one.getAttribute("data-name")));
      assertEquals(await names(), ["motor1", "switch1", "servo1"]);
      await page.getByRole("button", { name: "Arrange" }).click();
      await page.getByRole("button", { name: "Move motor1 later" }).click();
      await page.getByRole("button", { name: "Make servo1 wide" }).click();
      await page.getByRole("button", { name: "Take switch1 away" }).click();
      await page.locator("aside button.entry", { hasText: "sensor1" }).first().click();
      assertEquals(await violations(page), []);
      assertEquals(await names(), ["motor1", "servo1", "sensor1"]);
      await page.getByRole("button", { name: "Keep" }).click();
      await page.getByRole("button", { name: "Arrange" }).waitFor();
      await page.reload();
      await page.locator(CARDS).nth(2).waitFor();
      assertEquals(await names(), ["motor1", "servo1", "sensor1"]);
    },
  ],
  ["cards that have loaded do not move under a pointer that presses", async ({ watched: { page } }) => {
    const taken = page.getByRole("button", { name: "Take sensor1 away" });
    await page.getByRole("button", { name: "Arrange" }).click();
    await page.getByRole("button", { name: "Move motor1 later" }).click();
    await taken.hover();
    await page.mouse.down();
    // Cards that nobody uses get their places 1.2 seconds after the page has shown them.
    await page.waitForTimeout(1500);
    await page.mouse.up();
    await taken.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator(CARDS).nth(2).waitFor();
  }],
  ["an arrangement does not replace unasked what somebody else has arranged meanwhile", async (shared) => {
    const { page } = shared.watched;
    const press = (one: Page, name: string) => one.getByRole("button", { name, exact: true }).click();
    const arranged = (one: Page) => one.getByRole("button", { name: "Arrange" }).waitFor();
    const widens = async (one: Page, card: string) => {
      await press(one, "Arrange");
      await press(one, `Make ${card} wide`);
    };
    await widens(page, "motor1");
    const other = await page.context().newPage();
    await other.goto(page.url());
    await widens(other, "sensor1");
    await press(other, "Keep");
    await arranged(other);
    await other.close();
    // The page hears of the dashboards of others every five seconds.
    await page.waitForTimeout(6000);
    const asked = Promise.withResolvers<string>();
    page.once("dialog", (dialog) => {
      asked.resolve(dialog.message());
      void dialog.dismiss();
    });
    await press(page, "Keep");
    assertStringIncludes(await asked.promise, "Somebody else has changed this dashboard meanwhile");
    await press(page, "Cancel");
    // As it was before.
    await widens(page, "sensor1");
    await press(page, "Keep");
    await arranged(page);
  }],
  ["a dashboard is renamed, exported, deleted and imported again", async ({ watched: { page } }) => {
    const more = page.getByRole("button", { name: "More about dashboards" });
    await more.click();
    await page.getByRole("button", { name: "Rename…" }).click();
    await page.getByLabel("New name").fill("Drive");
    await page.getByRole("button", { name: "Rename", exact: true }).click();
    await page.getByRole("link", { name: "Drive", exact: true }).waitFor();
    await more.click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export as a file" }).click(),
    ]);
    assertEquals(download.suggestedFilename(), "Drive.dashboard.json");
    const path = await download.path();
    const text = await Deno.readTextFile(path);
    assertEquals(JSON.parse(text).dashboards[0].cards[1], { id: "rdk:component:servo/servo1", isWide: true });

    await more.click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("button", { name: "Delete for everybody?" }).click();
    await page.getByRole("link", { name: "Drive", exact: true }).waitFor({ state: "detached" });

    await more.click();
    const folder = await Deno.makeTempDir({ prefix: "svc-dashboards-" });
    const give = async (content: string) => {
      await Deno.writeTextFile(`${folder}/dashboards.json`, content);
      await page.locator("input[type=file][accept*=json]").setInputFiles(`${folder}/dashboards.json`);
    };
    await give('{"dashboards": 3}');
    await page.getByRole("alert").getByText("this is no file of dashboards").waitFor();
    await more.click();
    await give(text);
    await Deno.remove(folder, { recursive: true });
    await page.getByRole("link", { name: "Drive", exact: true }).and(page.locator("[aria-current]"))
      .waitFor();
    await page.locator(CARDS).nth(2).waitFor();
  }],
  ["an answer from before a change does not hide the change", async ({ machine, browser }) => {
    const { page, errors } = await openPage(browser, machine.url, { bare: true });
    const isKept = Promise.withResolvers<void>();
    // A question by itself, as after a change, does not go with others.
    await page.route("**/GetDashboards", async (asked) => {
      const response = await asked.fetch();
      await isKept.promise;
      await asked.fulfill({ response });
    });
    const keep = async (name: string) => {
      await page.getByRole("button", { name: "Save as dashboard" }).click();
      await page.getByLabel("Name of the new dashboard").fill(name);
      const kept = page.waitForResponse("**/SetDashboard");
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await kept;
    };
    // So seldom that every further question comes from a change.
    const motor = encodeURIComponent("rdk:component:motor/motor1");
    await page.goto(`${machine.url}/?way=direct&every=100000000#/control/${motor}`);
    const asked = page.waitForRequest("**/GetDashboards");
    await keep("Early");
    await asked;
    await page.getByRole("link", { name: "Open cards" }).click();
    await keep("Late");
    isKept.resolve();

    for (const name of ["Late", "Early"]) {
      const link = page.getByRole("link", { name, exact: true });
      await link.click();
      await page.getByRole("button", { name: "More about dashboards" }).click();
      await page.getByRole("button", { name: "Delete", exact: true }).click();
      await page.getByRole("button", { name: "Delete for everybody?" }).click();
      await link.waitFor({ state: "detached" });
    }
    assertEquals(errors, []);
    await page.context().close();
  }],
];
