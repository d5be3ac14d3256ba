/** Rollouts on the fleet's page in a real browser, over a control plane with simulated machines. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { RolloutService } from "../../proto/gen/rollouts_pb.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { FLEET_NOW_MS, SimulatedFleet, tally } from "../cloud/simulated_fleet.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, violations, type WatchedPage } from "./browser.ts";
import { MARKUP, signInByKey } from "./fleet_steps.ts";

interface RolloutShared {
  readonly served: ServedCloud;
  readonly world: World;
  /** Another tenant. */
  readonly other: World;
  readonly fleet: SimulatedFleet;
  readonly calls: ServiceClient<typeof RolloutService>;
  readonly browser: Browser;
  readonly watched: WatchedPage;
}

type RolloutStep = readonly [name: string, run: (shared: RolloutShared) => Promise<void>];

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });

/** With the keyboard alone. */
async function press(page: Page, name: string): Promise<void> {
  await button(page, name).focus();
  await page.keyboard.press("Enter");
}

/** Lets the machines live until the page shows the rollout in this state. */
async function shows(page: Page, state: string, { fleet }: RolloutShared): Promise<void> {
  const status = page.getByRole("status");
  await until(async () => (await status.innerText()).trim() === state, {
    meanwhile: fleet.live,
    found: () => page.locator("main").innerText(),
  });
}

const STEPS: readonly RolloutStep[] = [
  ["a form refuses what makes no sense, with the field", async ({ served, world, watched: { page } }) => {
    await page.goto(served.url);
    await signInByKey(page, world.owner);
    await page.getByRole("link", { name: "Rollouts" }).click();
    await page.getByText("There is no rollout yet.").waitFor();
    assertEquals(await violations(page), []);
    await press(page, "New rollout…");
    const form = page.getByRole("form", { name: "New rollout" });
    await form.getByLabel("Revision or tag").fill("2");
    await form.getByLabel("Healthy for").fill("soon");
    await button(page, "Start").click();
    await page.getByRole("alert").getByText(/Healthy for: found "soon"/).waitFor();
    await form.getByLabel("Healthy for").fill("1s");
    await form.getByLabel("Steps, one a line").fill("0%");
    await button(page, "Start").click();
    await page.getByRole("alert").getByText(/plan\.steps\[0\]/).waitFor();
    await form.getByLabel("Steps, one a line").fill("50%");
    await form.getByLabel("Windows in UTC, one a line").fill("friday");
    await button(page, "Start").click();
    await page.getByRole("alert").getByText(/plan\.windows\[0\]/).waitFor();
    await form.getByLabel("Windows in UTC, one a line").fill("");
    await form.getByText(/^A machine with a maintenance sensor of its own \(maintenance/).waitFor();
    assertEquals(await violations(page), []);
    await form.getByLabel("Goes to").selectOption("a new revision");
    await form.getByText("New revision (JSON)").waitFor();
    assertStringIncludes(await form.getByLabel("New revision (JSON)").inputValue(), '"debug"');
    assertEquals(await violations(page), []);
    await form.getByLabel("Goes to").selectOption("a revision that it has");
  }],
  [
    "a fragment goes to 20 machines of which 3 turn unhealthy: it halts at the first step and reverts those",
    haltStep,
  ],
  ["the view is whole on a narrow screen and in the dark", async ({ served, world, browser, watched }) => {
    const { page } = watched;
    const path = new URL(page.url()).hash;
    await page.getByRole("button", { name: "Dark colours" }).click();
    assertEquals(await violations(page), []);
    const narrow = await openPage(browser, served.url, { width: 390, height: 844, dark: true });
    await narrow.page.goto(`${served.url}/${path}`);
    await signInByKey(narrow.page, world.owner);
    await narrow.page.getByRole("heading", { name: "Unhealthy" }).waitFor();
    for (const hash of [path, "#/rollouts"]) {
      await narrow.page.goto(`${served.url}/${hash}`);
      await narrow.page.getByText(/halted/).first().waitFor();
      assertEquals(await violations(narrow.page), []);
      assertEquals(await narrow.page.evaluate("document.documentElement.scrollWidth"), 390);
      assertEquals(await narrow.page.evaluate("document.querySelector('main').scrollWidth"), 390);
    }
    await press(narrow.page, "New rollout…");
    await narrow.page.getByRole("form", { name: "New rollout" }).waitFor();
    assertEquals(await violations(narrow.page), []);
    assertEquals(await narrow.page.evaluate("document.querySelector('main').scrollWidth"), 390);
    assertEquals([narrow.foreign, narrow.errors], [[], []]);
    await narrow.page.context().close();
  }],
  ["an operator sees it and cannot steer it; another tenant sees nothing", async (shared) => {
    const { served, world, other, browser, watched } = shared;
    const path = new URL(watched.page.url()).hash;
    const operator = await openPage(browser, served.url);
    await operator.page.goto(`${served.url}/${path}`);
    await signInByKey(operator.page, world.operator);
    await operator.page.getByText("Only an owner of the organization may do this.").waitFor();
    for (const name of ["Resume", "Abort…"]) assert(await button(operator.page, name).isDisabled());
    await operator.page.getByRole("link", { name: "Rollouts", exact: true }).first().click();
    await press(operator.page, "New rollout…");
    assert(await button(operator.page, "Start").isDisabled());
    assertEquals(await violations(operator.page), []);
    const stranger = await openPage(browser, served.url);
    await stranger.page.goto(`${served.url}/${path}`);
    await signInByKey(stranger.page, other.owner);
    await stranger.page.getByText(/The rollout cannot be read: this needs an API key/).waitFor();
    await stranger.page.getByRole("link", { name: "Rollouts", exact: true }).first().click();
    await stranger.page.getByText("There is no rollout yet.").waitFor();
    for (const { page, foreign, errors } of [operator, stranger]) {
      assertEquals([foreign, errors], [[], []]);
      await page.context().close();
    }
  }],
  ["it is resumed, paused, and taken back everywhere, by keyboard", async (shared) => {
    const { fleet, calls, world, watched: { page, foreign, errors } } = shared;
    await press(page, "Resume");
    await shows(page, "running", shared);
    await press(page, "Pause");
    await button(page, "Resume").waitFor();
    await press(page, "Abort…");
    await page.getByRole("region", { name: "Abort" }).waitFor();
    assertEquals(await violations(page), []);
    await press(page, "Take it back everywhere");
    await shows(page, "aborted", shared);
    await until(async () => tally(await fleet.versions())["1"] === 20, { meanwhile: fleet.live });
    const { rollouts } = await calls.listRollouts({ organizationId: world.organization });
    assertEquals(rollouts.map(({ name, state }) => [name, state]), [[MARKUP, "aborted"]]);
    await page.getByRole("main").getByRole("link", { name: "Rollouts" }).click();
    await page.getByRole("row", { name: /aborted/ }).getByText(MARKUP).waitFor();
    assertEquals(await page.locator("img[src=x]").count(), 0);
    assertEquals(await violations(page), []);
    assertEquals([foreign, errors], [[], []]);
  }],
];

async function haltStep(shared: RolloutShared): Promise<void> {
  const { fleet, calls, world, watched: { page } } = shared;
  const form = page.getByRole("form", { name: "New rollout" });
  await form.getByLabel("Revision or tag").fill("2");
  await form.getByLabel("Name").fill(MARKUP);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: MARKUP, exact: true }).waitFor();
  await page.getByText("0 of 10 healthy, 10 waiting").first().waitFor();

  const [{ id }] = (await calls.listRollouts({ organizationId: world.organization })).rollouts;
  const first = (await calls.listRolloutParts({ id })).parts.filter(({ step }) => step === 0);
  const bad = first.slice(2, 5).map(({ machineName }) => machineName);
  for (const name of bad) fleet.bad.add(name);
  await shows(page, "halted", shared);
  await page.getByText("3 machines turned unhealthy in 50%, wanted none").waitFor();
  const isBack = async () => await page.getByText("unhealthy, reverted").count() === 6;
  await until(isBack, { meanwhile: fleet.live, found: () => page.locator("main").innerText() });
  await until(async () => tally(await fleet.versions())["2"] === 7, { meanwhile: fleet.live });

  const unhealthy = page.getByRole("region", { name: "Unhealthy machines" });
  const rows = await unhealthy.getByRole("row").allInnerTexts();
  assertEquals(rows.slice(1).map((row) => row.split(/\s/)[0]).sort(), bad.toSorted());
  for (const row of rows.slice(1)) assertStringIncludes(row, "rdk:component:arm/left: no such file");
  await page.getByText("7 of 10 healthy, 3 unhealthy").waitFor();
  const plan = await page.getByRole("region", { name: "Plan" }).innerText();
  for (const fact of ["fragment arm 2", "1s", "1h", "a whole step", "more than 0 unhealthy"]) {
    assertStringIncludes(plan, fact);
  }
  await page.getByText("0 of 10 healthy, 10 waiting").waitFor();
  assertEquals(await page.getByRole("region", { name: "Machines of step 1" }).getByRole("row").count(), 11);
  assertEquals(await violations(page), []);
}

needingTest("rollouts in Chromium", await browserWithPage(FLEET_PAGE), async (chromium, t) => {
  const browser = await launch(chromium);
  const clock = new FakeClock(FLEET_NOW_MS);
  try {
    await withDatabase("sqlite", async (database) => {
      const store = await database.open();
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const fleet = new SimulatedFleet(store, world, clock);
      await fleet.create(20, "1");
      await fleet.live();
      await withCloud(database, async (served) => {
        const watched = await openPage(browser, served.url);
        const calls = client(RolloutService, await served.channel(world.owner));
        const shared = { served, world, other, fleet, calls, browser, watched };
        await runPageSteps(t, STEPS, shared);
      }, { clock, page: builtPage(new DenoHost(), FLEET_PAGE) });
    });
  } finally {
    await browser.close();
  }
});
