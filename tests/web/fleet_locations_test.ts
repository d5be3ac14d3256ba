/**
 * Locations and the places of machines on the fleet's page, in a real browser: from an empty organization to a machine
 * that is renamed, moved and deleted, without a command. And: a slow answer about a right swallows no press.
 */

import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newKey, newWorld, type ServedCloud, withCloud } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage } from "./browser.ts";
import { assertEveryLook, assertTextOnly, MARKUP, signInByKey } from "./fleet_steps.ts";

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const places = (page: Page) => page.getByRole("form", { name: "Name and place" });

/** Answers the next question or the next request for a text. */
function answerNext(page: Page, text?: string): void {
  page.once("dialog", (dialog) => void dialog.accept(text));
}

async function createLocation(page: Page, name: string, parent?: string): Promise<void> {
  const form = page.getByRole("form", { name: "New location" });
  await form.getByLabel("Name").fill(name);
  if (parent) await form.getByLabel("In").selectOption(parent);
  await form.getByLabel("Name").press("Enter");
  await page.getByRole("row", { name }).first().waitFor();
}

/** From nothing to a machine in the second of two locations, and back to nothing. */
async function liveWithoutCommands(
  page: Page,
  { app }: ServedCloud,
  owner: Parameters<ServedCloud["app"]>[0],
) {
  await button(page, "Create the first machine").press("Enter");
  await page.getByRole("link", { name: "Create a location" }).press("Enter");
  await page.getByText("There is no location yet.").waitFor();
  await assertEveryLook(page);
  await createLocation(page, "north");
  await createLocation(page, MARKUP, "north");
  await assertTextOnly(page);
  await assertEveryLook(page);

  answerNext(page, "hall 2");
  await button(page, `Rename ${MARKUP}`).press("Enter");
  await page.getByLabel("hall 2 is in", { exact: true }).waitFor();
  // It may not move into itself.
  const choices = await page.getByLabel("north is in", { exact: true }).getByRole("option").allTextContents();
  assertEquals(choices, ["the organization"]);

  await page.getByRole("link", { name: "Machines", exact: true }).first().press("Enter");
  await button(page, "Create the first machine").press("Enter");
  const form = page.getByRole("form", { name: "New machine" });
  await form.getByLabel("Name").fill("cart");
  await form.getByLabel("Location").selectOption("north");
  await form.getByLabel("Name").press("Enter");
  await page.getByRole("heading", { name: "cart", exact: true }).waitFor();

  await places(page).getByLabel("Name").fill("trolley");
  await places(page).getByLabel("Location").selectOption("hall 2");
  answerNext(page);
  await places(page).getByLabel("Name").press("Enter");
  await page.getByRole("heading", { name: "trolley", exact: true }).waitFor();
  await assertEveryLook(page);
  const calls = await app(owner);
  const { organizations: [{ id: organizationId }] } = await calls.listOrganizations({});
  const { locations } = await calls.listLocations({ organizationId });
  const [hall, north] = ["hall 2", "north"].map((name) => locations.find((one) => one.name === name)!);
  assertEquals([hall.parentLocationId, hall.robotCount, north.robotCount], [north.id, 1, 0]);

  // A location with a machine stays, and says why.
  await page.getByRole("link", { name: "Locations", exact: true }).press("Enter");
  answerNext(page);
  await button(page, "Delete hall 2").press("Enter");
  await page.getByRole("alert").getByText("machine").waitFor();

  await page.goBack();
  answerNext(page);
  await button(page, "Delete the machine…").press("Enter");
  await page.getByText("There is no machine yet.").waitFor();
  await page.getByRole("link", { name: "Locations", exact: true }).press("Enter");
  answerNext(page);
  await button(page, "Delete hall 2").press("Enter");
  await until(async () => await button(page, "Delete hall 2").count() === 0);
}

/** Whoever presses before the control plane has answered about a right is not ignored. */
async function pressEarly(page: Page): Promise<void> {
  const held = Promise.withResolvers<void>();
  await page.route("**/CheckPermissions", async (route) => {
    await held.promise;
    await route.continue();
  });
  await page.reload();
  await createLocation(page, "early");
  held.resolve();
  await page.unrouteAll({ behavior: "wait" });
}

needingTest(
  "locations and the places of machines on the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const world = await newWorld(store);
        const empty = await store.transaction((sql) => new Organizations(sql).create("empty", Date.now()));
        const owner = await newKey(store, "owner", "organization", empty);
        const viewer = await newKey(store, "viewer", "organization", empty);
        await withCloud(database, async (served) => {
          const { page, foreign, errors } = await openPage(browser, served.url);
          await page.goto(served.url);
          await signInByKey(page, owner);
          await t.step(
            "an empty organization gets locations and a machine, which moves and goes",
            () => liveWithoutCommands(page, served, owner),
          );
          await t.step("a press before the answer about a right counts", () => pressEarly(page));
          await t.step("an owner renames the organization", async () => {
            await page.getByRole("link", { name: "People", exact: true }).press("Enter");
            await page.getByText("of empty").waitFor();
            answerNext(page, MARKUP);
            await button(page, "Rename the organization…").press("Enter");
            await page.getByText(`of ${MARKUP}`).waitFor();
            await assertTextOnly(page);
            await assertEveryLook(page);
          });
          await t.step("who may only look changes nothing", async () => {
            const other = await openPage(browser, served.url);
            await other.page.goto(`${served.url}/#/locations`);
            await signInByKey(other.page, viewer);
            await other.page.getByText("Only an owner of the organization may create locations.").waitFor();
            assertEquals(await button(other.page, "Delete north").isDisabled(), true);
            assertEquals(await other.page.getByText(world.location).count(), 0);
            await other.page.context().close();
          });
          assertEquals([foreign, errors], [[], []]);
        }, { page: builtPage(new DenoHost(), FLEET_PAGE) });
      });
    } finally {
      await browser.close();
    }
  },
);
