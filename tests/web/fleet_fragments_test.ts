/** Fragments and the comparison of configurations on the fleet's page in a real browser, by hand and keyboard. */

import { assertEquals } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, type WatchedPage } from "./browser.ts";
import { assertEveryLook, assertTextOnly, MARKUP, signInByKey } from "./fleet_steps.ts";

const HIDDEN = "hidden-word";

interface FragmentsShared {
  readonly served: ServedCloud;
  readonly world: World;
  /** Another tenant. */
  readonly other: World;
  readonly browser: Browser;
  readonly watched: WatchedPage;
}

type FragmentsStep = readonly [name: string, run: (shared: FragmentsShared) => Promise<void>];

/** Puts a text in place of that of an editor. */
async function write(page: Page, label: string, text: string): Promise<void> {
  await page.getByLabel(label, { exact: true }).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

async function fragmentsOf({ app }: ServedCloud, { owner, organization: organizationId }: World) {
  return (await (await app(owner)).listFragments({ organizationId })).fragments;
}

async function configOf({ app }: ServedCloud, { owner, part: id }: World) {
  return JSON.parse((await (await app(owner)).getRobotPart({ id })).configJson);
}

const CONTENT = JSON.stringify({
  components: [{
    name: "arm",
    api: "rdk:component:arm",
    model: "fake",
    attributes: { note: MARKUP, speed: { $variable: { name: "speed", default_value: 5 } }, api_key: HIDDEN },
  }],
});

const STEPS: readonly FragmentsStep[] = [
  ["a fragment is made, written, compared and saved", async (shared) => {
    const { served, world, watched: { page } } = shared;
    await page.goto(served.url);
    await signInByKey(page, world.owner);
    await page.getByRole("link", { name: "Fragments" }).press("Enter");
    await page.getByText(/^There is no fragment yet/).waitFor();
    await page.getByRole("button", { name: "New fragment…" }).click();
    await page.getByLabel("Name").fill(MARKUP);
    await page.getByRole("button", { name: "Create" }).press("Enter");
    await page.getByRole("heading", { level: 1, name: MARKUP }).waitFor();
    await write(page, "Text of the fragment", CONTENT);
    await page.getByRole("region", { name: "Variables" }).getByText("components.0.attributes.speed")
      .waitFor();
    await page.getByRole("button", { name: "Differences" }).click();
    await page.getByLabel("Differences", { exact: true }).getByText("fake").first().waitFor();
    await page.getByLabel("Name").fill("arm");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("status").getByText(/^Saved\./).waitFor();
    const [fragment] = await fragmentsOf(served, world);
    assertEquals([fragment.name, fragment.revision], ["arm", "2"]);
    await assertEveryLook(page);
    await assertTextOnly(page);
  }],
  ["a change by somebody else is not overwritten", async ({ served, world, watched: { page } }) => {
    const [{ id }] = await fragmentsOf(served, world);
    await (await served.app(world.owner)).updateFragment({ id, name: "arms" });
    await page.getByLabel("Name").fill("mine");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("was changed after you last read it").waitFor();
    await page.getByRole("button", { name: "Read it again, without your changes" }).press("Enter");
    await until(async () => await page.getByLabel("Name").inputValue() === "arms");
  }],
  [
    "a machine uses it with variables and overrides, and the page shows what it becomes before it is saved",
    async ({ served, world, watched: { page } }) => {
      await page.getByRole("link", { name: "On a machine" }).click();
      await page.getByLabel("Machine", { exact: true }).selectOption("rover");
      await page.getByText("This part does not use the fragment yet.").waitFor();
      await page.getByLabel("speed").fill("42");
      await write(page, "Overrides", '[{"$set": {"components.arm.attributes.limit": 77}}]');
      await page.getByRole("button", { name: "Show what it becomes" }).press("Enter");
      const becomes = page.getByLabel("What it becomes", { exact: true });
      await becomes.getByText("42").waitFor();
      await becomes.getByText("77").waitFor();
      await page.getByRole("button", { name: "Differences" }).click();
      await page.getByRole("heading", { name: "Changes of the part's configuration" }).waitFor();
      await page.getByRole("button", { name: "Add to this machine" }).click();
      await page.getByRole("status").getByText(/^Saved\./).waitFor();
      const [{ id }] = await fragmentsOf(served, world);
      assertEquals(await configOf(served, world), {
        fragments: [{ id, variables: { speed: 42 } }],
        fragment_mods: [{ fragment_id: id, mods: [{ $set: { "components.arm.attributes.limit": 77 } }] }],
      });
      await assertEveryLook(page);
      await page.getByRole("link", { name: "Uses" }).click();
      const uses = page.getByRole("region", { name: "Uses" });
      await uses.getByRole("row", { name: /rover rover-main newest/ }).waitFor();
      await assertEveryLook(page);
      await uses.getByRole("link", { name: /^What it becomes/ }).click();
      await page.getByRole("heading", { name: "What it becomes on this machine" }).waitFor();
      assertEquals(await page.getByLabel("speed").inputValue(), "42");
      await assertTextOnly(page);
    },
  ],
  ["revisions are compared, tagged and taken back", async ({ served, world, watched: { page } }) => {
    await page.getByRole("link", { name: "Revisions" }).click();
    const list = page.getByRole("region", { name: "Revisions", exact: true });
    await list.getByRole("button", { name: /^2 / }).press("Enter");
    await page.getByRole("heading", { name: "What revision 2 changed" }).waitFor();
    await page.getByLabel("Tag", { exact: true }).fill("stable");
    await page.getByRole("button", { name: "Set the tag" }).click();
    await list.getByText("stable").waitFor();
    await assertEveryLook(page);
    await page.getByRole("button", { name: "Take this text back" }).click();
    await page.getByText("The text of revision 2 is back, as a new revision.").waitFor();
    await list.getByRole("button", { name: /^4 / }).waitFor();
    await page.getByRole("button", { name: "Remove the tag stable" }).click();
    await list.getByText("stable").waitFor({ state: "detached" });
    assertEquals((await fragmentsOf(served, world))[0].revision, "4");
    await assertTextOnly(page);
  }],
  [
    "two machines are compared as written and as they get it",
    async ({ served, world, watched: { page } }) => {
      const second = await served.store.transaction((sql) =>
        new Machines(sql).create(world.location, MARKUP, Date.now())
      );
      const [{ id: part }] = await new Parts(served.store).ofMachine(second.id);
      const motor = { name: "left", api: "rdk:component:motor", model: "fake" };
      const robotConfig = { components: [motor] };
      await (await served.app(world.owner)).updateRobotPart({ id: part, name: MARKUP, robotConfig });
      await page.goto(`${served.url}/#/machine/${world.machine}/configuration`);
      await page.getByRole("link", { name: "Compare…" }).press("Enter");
      await page.getByText("Choose two machines, or two parts of one.").waitFor();
      const first = page.getByLabel("First machine", { exact: true });
      await until(async () => await first.inputValue() === world.part);
      await page.getByLabel("Search: Second machine").fill("onerror");
      await page.getByLabel("Second machine", { exact: true }).selectOption(part);
      await page.getByRole("status").getByText("They differ.").waitFor();
      await page.locator(".cm-merge-b .cm-line").getByText("left").waitFor();
      await page.getByLabel("Form").selectOption("as the machines get them");
      await page.locator(".cm-merge-a .cm-line").getByText("42").waitFor();
      await assertEveryLook(page);
      await page.getByRole("button", { name: "Exchange" }).press("Enter");
      await page.waitForURL(`**/compare/${part}/${world.part}`);
      await first.selectOption(world.part);
      await page.getByRole("status").getByText("The two are equal.").waitFor();
      await assertTextOnly(page);
    },
  ],
  ["an operator reads without secrets, and changes nothing", async ({ served, world, browser, watched }) => {
    const operator = await openPage(browser, served.url);
    const { page } = operator;
    const [{ id }] = await fragmentsOf(served, world);
    await page.goto(`${served.url}/#/fragments/${id}/machine/${world.part}`);
    await signInByKey(page, world.operator);
    await page.getByText("Secrets are shown as stars.").waitFor();
    await page.getByLabel("What it becomes", { exact: true }).getByText("42").waitFor();
    assertEquals(await page.getByText(HIDDEN).count(), 0);
    assertEquals(await page.getByRole("button", { name: "Save" }).isDisabled(), true);
    await page.getByRole("link", { name: "Text", exact: true }).click();
    await page.getByText("Read only: only an owner of its organization").waitFor();
    assertEquals(await page.getByRole("button", { name: "Delete…" }).isDisabled(), true);
    for (const { foreign, errors } of [operator, watched]) assertEquals([foreign, errors], [[], []]);
    await page.context().close();
  }],
  [
    "more variables, places, versions and problems than a list draws at first are counted, and drawn by keyboard",
    async ({ served, world, watched: { page } }) => {
      const place = (name: string) => ({ $variable: { name, default_value: 1 } });
      const many = Array.from(
        { length: 205 },
        (_, at) => [`v${at}`, place(`v${String(at).padStart(3, "0")}`)],
      );
      const often = Array.from({ length: 12 }, () => place("often"));
      const owner = await served.app(world.owner);
      const config = { components: [{ name: "c", attributes: { ...Object.fromEntries(many), often } }] };
      const { fragment } = await owner.createFragment({
        name: "wide",
        organizationId: world.organization,
        config,
      });
      const id = fragment!.id;
      for (let at = 0; at < 105; at++) await owner.updateFragment({ id, config: { ...config, at } });
      await page.goto(`${served.url}/#/fragments/${id}`);
      const variables = page.getByRole("region", { name: "Variables" });
      await variables.getByText("200 of 206 variables").waitFor();
      await variables.getByText("5 of 12 places of often").waitFor();
      await page.getByRole("button", { name: "Show 5 more places of often" }).press("Enter");
      await page.getByRole("button", { name: "Show 2 more places of often" }).press("Enter");
      await variables.getByText("all 12 places of often").waitFor();
      assertEquals(await page.evaluate("document.activeElement.textContent"), "all 12 places of often");
      await variables.getByText("components.0.attributes.often.11").waitFor();
      await page.getByRole("button", { name: "Show 6 more variables" }).press("Enter");
      await variables.getByText("v204", { exact: true }).waitFor();
      await assertEveryLook(page);
      await page.goto(`${served.url}/#/fragments/${id}/machine/${world.part}`);
      await page.getByText("100 of 106 versions").waitFor();
      await page.getByRole("button", { name: "Show 6 more versions" }).press("Enter");
      await page.getByLabel("Version").selectOption("1");
      await page.getByLabel("Version").selectOption("newest, always");
      await assertEveryLook(page);
      await owner.deleteFragment({ id });
    },
  ],
  ["another tenant finds neither fragment nor part", async ({ served, world, other, browser }) => {
    const stranger = await openPage(browser, served.url);
    const [{ id }] = await fragmentsOf(served, world);
    await stranger.page.goto(`${served.url}/#/fragments`);
    await signInByKey(stranger.page, other.owner);
    await stranger.page.getByText(/^There is no fragment yet/).waitFor();
    await stranger.page.goto(`${served.url}/#/fragments/${id}`);
    await stranger.page.getByText("This fragment cannot be read").waitFor();
    await stranger.page.goto(`${served.url}/#/compare/${world.part}/${other.part}`);
    await stranger.page.getByText("They cannot be compared").waitFor();
    await stranger.page.context().close();
  }],
  ["what nobody uses is deleted", async ({ served, world, watched: { page } }) => {
    const [{ id }] = await fragmentsOf(served, world);
    await page.goto(`${served.url}/#/fragments/${id}`);
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("button", { name: "Delete it" }).click();
    await page.getByRole("alert").getByText("used by 1 part").waitFor();
    await page.goto(`${served.url}/#/fragments/${id}/machine/${world.part}`);
    await page.getByRole("button", { name: "Take out of this machine" }).click();
    await page.getByText("This part does not use the fragment yet.").waitFor();
    assertEquals(await configOf(served, world), {});
    await page.getByRole("link", { name: "Text", exact: true }).click();
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("button", { name: "Delete it" }).press("Enter");
    await page.getByText(/^There is no fragment yet/).waitFor();
  }],
];

needingTest(
  "fragments on the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const [world, other] = [await newWorld(store), await newWorld(store)];
        await withCloud(database, async (served) => {
          const watched = await openPage(browser, served.url);
          const shared = { served, world, other, browser, watched };
          await runPageSteps(t, STEPS, shared);
        }, { page: builtPage(new DenoHost(), FLEET_PAGE) });
      });
    } finally {
      await browser.close();
    }
  },
);
