/**
 * The ways back on the fleet's page in a real browser. People of other fleet pages report that a list has forgotten
 * their search, their place in it or their organization when they return from one of its items.
 */

import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Keys, newKeySecret } from "../../lib/cloud/access/keys.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { uploadMap } from "../cloud/rover.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, type WatchedPage } from "./browser.ts";
import { signInByKey } from "./fleet_steps.ts";

interface BackShared {
  readonly served: ServedCloud;
  readonly world: World;
  readonly other: World;
  readonly watched: WatchedPage;
}

type BackStep = readonly [name: string, run: (shared: BackShared) => Promise<void>];

const MACHINES = 80;

const rows = (page: Page) => page.getByRole("rowgroup", { name: "Rows" });
const search = (page: Page) => page.getByRole("searchbox").first();

const STEPS: readonly BackStep[] = [
  ["the list of machines keeps its search and its place", async ({ served, world, watched: { page } }) => {
    await page.goto(served.url);
    await signInByKey(page, world.owner);
    await search(page).fill("crowd");
    await page.getByText(new RegExp(`^${MACHINES} of`)).waitFor();
    await rows(page).evaluate((one) => one.scrollTop = 1500);
    await page.getByRole("link", { name: "crowd 40" }).click();
    await page.getByRole("heading", { level: 1, name: "crowd 40" }).waitFor();
    await page.goBack();
    assertEquals(await search(page).inputValue(), "crowd");
    await until(async () => await rows(page).evaluate((one) => one.scrollTop) === 1500);
    await page.getByRole("link", { name: "crowd 40" }).click();
    await page.getByRole("main").getByRole("link", { name: "Machines" }).click();
    await page.getByText(new RegExp(`^${MACHINES} of`)).waitFor();
    await page.getByLabel("Search").fill("");
  }],
  ["the registry and the fragments keep their searches", async ({ watched: { page } }) => {
    await page.getByRole("link", { name: "Registry" }).click();
    await page.getByLabel("Kind").selectOption("maps");
    await search(page).fill("yard");
    await page.getByRole("link", { name: "yard" }).click();
    await page.getByRole("link", { name: "of this map" }).click();
    await page.getByText("All maps").waitFor();
    await page.goBack();
    await page.getByText("1 item", { exact: true }).waitFor();
    assertEquals(await search(page).inputValue(), "yard");
    await page.getByRole("link", { name: "Fragments" }).click();
    await search(page).fill("drive");
    await page.getByRole("link", { name: "drive" }).click();
    await page.getByRole("heading", { name: "drive" }).waitFor();
    await page.goBack();
    await page.getByText("1 fragment", { exact: true }).waitFor();
    assertEquals(await search(page).inputValue(), "drive");
  }],
  ["the chosen organization stays from view to view", async ({ other, watched: { page } }) => {
    const choice = page.getByRole("combobox", { name: /^Organization/ });
    await choice.selectOption(other.organization);
    await page.getByRole("link", { name: "Registry" }).click();
    await until(async () => await choice.inputValue() === other.organization);
    await page.getByRole("link", { name: "People" }).click();
    await until(async () => await choice.inputValue() === other.organization);
  }],
  ["another person begins anew", async ({ served, other, watched }) => {
    const { page } = watched;
    await page.goto(served.url);
    await search(page).fill("crowd");
    await page.getByRole("button", { name: "Sign out" }).click();
    await signInByKey(page, other.owner);
    await page.getByRole("row", { name: /rover/ }).waitFor();
    assertEquals(await search(page).inputValue(), "");
    assertEquals([watched.foreign, watched.errors], [[], []]);
  }],
];

needingTest(
  "the ways back on the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const [first, other] = [await newWorld(store), await newWorld(store)];
        await withCloud(database, async (served) => {
          const secret = await newKeySecret();
          const grants = [first, other].map(({ organization }) => (
            { role: "owner", kind: "organization", resourceId: organization } as const
          ));
          const owner = await store.transaction((sql) => new Keys(sql).create(secret, "owner", grants, 0));
          const world = { ...first, owner };
          await store.transaction(async (sql) => {
            for (let at = 0; at < MACHINES; at++) {
              await new Machines(sql).create(world.location, `crowd ${at}`, Date.now());
            }
          });
          const channel = await served.channel(owner);
          await uploadMap(channel, world.organization, ["yard", "1"], { "note.txt": new Uint8Array(3) });
          const app = await served.app(owner);
          await app.createFragment({ name: "drive", organizationId: world.organization, config: {} });
          const watched = await openPage(browser, served.url);
          await runPageSteps(t, STEPS, { served, world, other, watched });
        }, { page: builtPage(new DenoHost(), FLEET_PAGE) });
      });
    } finally {
      await browser.close();
    }
  },
);
