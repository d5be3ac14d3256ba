/**
 * The first day of a person who has never seen a control plane, with its page alone, in a real browser: from an empty
 * organization to a machine that moves, and to a rollout that halts.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Page } from "playwright-core";
import { builtPage } from "../../cli/built_page.ts";
import { createConfigThread } from "../../cli/cloud/checks/thread.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { invitationPath, Invitations } from "../../lib/cloud/accounts/invitations.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { SimulatedFleet, tally } from "../cloud/simulated_fleet.ts";
import { withDatabase } from "../cloud/stores.ts";
import { type ServedCloud, withCloud } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { type ServerProcess, startServer } from "../support/server.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, violations } from "./browser.ts";
import { assertEveryLook } from "./fleet_steps.ts";
import { cardOf, closeCards } from "./page_steps.ts";

const MACHINES = 20;
const BAD = 3;

/** How often the simulated machines poll and report. */
const POLL_MS = 500;
const clock = new SystemClock();

interface Newcomer {
  readonly served: ServedCloud;
  readonly organization: string;
  readonly page: Page;
  readonly folder: string;
  /** What runs on the device, once there is one. */
  device?: ServerProcess;
}

type NewcomerStep = readonly [name: string, run: (shared: Newcomer) => Promise<void>];

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });
const link = (page: Page, name: string) => page.getByRole("link", { name, exact: true }).first();

const STEPS: readonly NewcomerStep[] = [
  ["an invitation becomes an account", async ({ served, organization, page }) => {
    const grant = { role: "owner", kind: "organization", resourceId: organization } as const;
    const { opener } = await served.store.transaction((sql) =>
      new Invitations(sql).invite(organization, "ann@example.com", [grant], Date.now())
    );
    await page.goto(`${served.url}${invitationPath(opener)}`);
    await page.getByLabel("Your name").fill("Ann");
    await page.getByLabel("Password").fill("correct horse battery");
    await button(page, "Accept").click();
    await page.getByText("There is no machine yet.").waitFor();
  }],
  ["a location and a machine in it are created", async ({ page }) => {
    await button(page, "Create the first machine").click();
    await link(page, "Create a location").click();
    const place = page.getByRole("form", { name: "New location" });
    await place.getByLabel("Name").fill("hall");
    await button(page, /^Create/).click();
    await page.getByRole("row", { name: "hall" }).first().waitFor();
    await link(page, "Machines").click();
    await button(page, "Create the first machine").click();
    await page.getByRole("form", { name: "New machine" }).getByLabel("Name").fill("rover");
    await button(page, "Create").click();
    await page.getByRole("heading", { name: "rover", exact: true }).waitFor();
  }],
  ["the installer is copied, the device starts, and the machine comes online", async (shared) => {
    const { served, page, folder } = shared;
    await button(page, "Create a key for this machine").click();
    await button(page, "Copy the line").click();
    const line = await page.evaluate<string>("navigator.clipboard.readText()");
    assertStringIncludes(line, `curl -fsSL ${served.url}/install.sh | SVC_API_KEY_ID=`);
    await button(page, "Copy the file").click();
    const file = await page.evaluate<string>("navigator.clipboard.readText()");
    // A device has its usual port for itself; here another program may have it.
    const { cloud: { id } } = JSON.parse(file);
    const config = configText({ network: { bind_address: "localhost:0" } });
    await served.store.transaction((sql) => new PartConfigs(sql).set(id, config, "", Date.now()));
    await Deno.writeTextFile(`${folder}/machine.json`, file);
    shared.device = await startServer(`${folder}/machine.json`, {
      args: ["-allow-insecure-creds"],
      env: { SVC_HOME: folder },
    });
    await link(page, "Machines").click();
    await page.getByRole("row", { name: /online.*rover/ }).waitFor();
  }],
  ["a motor and a camera are added by form", async ({ page }) => {
    await page.getByRole("row", { name: /rover/ }).getByRole("link").click();
    await link(page, "Configuration").click();
    for (const type of ["motor", "camera"]) {
      await button(page, "Add…").click();
      const form = page.getByRole("region", { name: "Add to the configuration" });
      await form.getByLabel("API").selectOption({ label: type });
      await form.getByLabel("Model").selectOption({ label: "fake" });
      await assertEveryLook(page);
      await button(page, "Add to the text").click();
      await page.getByRole("textbox", { name: "Configuration" }).getByText(`${type}1`).waitFor();
    }
    await button(page, "Save").click();
    await page.getByText("The machine takes it over when it asks next.").waitFor();
  }],
  ["the motor turns, and the camera shows its pictures", async ({ page }) => {
    await link(page, "Look and drive").click();
    await button(page, /^Connection: WebRTC/).waitFor();
    await closeCards(page);
    const motor = await cardOf(page, "motor1");
    await motor.getByLabel("Turns").fill("500");
    await motor.getByRole("button", { name: "Go for" }).click();
    await motor.getByText("moving", { exact: true }).waitFor();
    await page.getByRole("button", { name: "STOP", exact: true }).click();
    await motor.getByText("at rest", { exact: true }).waitFor();
    const camera = await cardOf(page, "camera1");
    await camera.getByRole("button", { name: "Pictures" }).click();
    await camera.locator("img").first().waitFor();
    await page.locator("header a.back").click();
    await link(page, "Look and drive").waitFor();
  }],
  [
    `a fragment goes to ${MACHINES} machines of which ${BAD} turn unhealthy, and is taken back there`,
    rollOut,
  ],
];

async function rollOut({ served, organization, page }: Newcomer): Promise<void> {
  const [hall] = await new Locations(served.store).ofOrganization(organization);
  const time = { nowMs: () => clock.nowMs(), advance: () => clock.sleep(POLL_MS) };
  const fleet = new SimulatedFleet(served.store, { organization, location: hall!.id }, time);
  await fleet.create(MACHINES, "1");
  await fleet.live();

  await link(page, "Rollouts").click();
  await button(page, "New rollout…").click();
  const form = page.getByRole("form", { name: "New rollout" });
  await form.getByLabel("Revision or tag").fill("2");
  await form.getByLabel("Name").fill("arms");
  await form.getByLabel("Steps, one a line").fill("50%");
  await form.getByLabel("Healthy for").fill("1s");
  await button(page, "Start").click();
  await page.getByRole("heading", { name: "arms", exact: true }).waitFor();

  const first = page.getByRole("region", { name: "Machines of step 1" }).getByRole("row");
  await until(async () => await first.count() === 1 + MACHINES / 2);
  const bad = (await first.allInnerTexts()).slice(1, 1 + BAD).map((row) => row.split(/\s/)[0]!);
  for (const name of bad) fleet.bad.add(name);
  await until(async () => (await page.getByRole("status").innerText()).trim() === "halted", {
    meanwhile: fleet.live,
    found: () => page.locator("main").innerText(),
  });
  await page.getByText(`${BAD} machines turned unhealthy in 50%, wanted none`).waitFor();
  const isBack = async () => tally(await fleet.versions())["1"] === MACHINES / 2 + BAD;
  await until(isBack, { meanwhile: fleet.live });
  const versions = await fleet.versions();
  assertEquals(bad.map((name) => versions[name]), bad.map(() => "1"));
  assertEquals(await violations(page), []);
}

needingTest(
  "a person's first day with the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    const folder = await Deno.makeTempDir({ prefix: "svc-newcomer-" });
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const organization = await store.transaction((sql) =>
          new Organizations(sql).create("mine", Date.now())
        );
        await withCloud(database, async (served) => {
          const { page, foreign, errors } = await openPage(browser, served.url);
          await page.context().grantPermissions(["clipboard-read", "clipboard-write"], {
            origin: served.url,
          });
          const shared: Newcomer = { served, organization, page, folder };
          try {
            await runPageSteps(t, STEPS, shared);
            assertEquals([foreign, errors], [[], []]);
          } finally {
            await shared.device?.stop();
          }
        }, { page: builtPage(new DenoHost(), FLEET_PAGE), createConfigThread, localhostCertificates: true });
      });
    } finally {
      await browser.close();
      await Deno.remove(folder, { recursive: true });
    }
  },
);
