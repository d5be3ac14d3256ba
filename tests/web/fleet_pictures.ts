/**
 * `deno task fleet:pictures [FOLDER|--docs]`: writes a picture of every view of the fleet's page, light and dark, wide and
 * narrow, into dist/web/pictures, or those of docs/views.md. The control plane is the example's, with a machine that is online.
 */

import type { Browser, Page } from "playwright-core";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { type ManagedMachine, withManagedMachine } from "../cloud/managed.ts";
import { hallCloud, uploadMap } from "../cloud/rover.ts";
import { browserWithPage, launch, openPage, pictureSet, SETTLE_MS } from "./browser.ts";
import { signInByKey } from "./fleet_steps.ts";

const ROOT = new URL("../../", import.meta.url);
const set = pictureSet(Deno.args);

/** Opens a view; the page has signed in. */
type View = readonly [name: string, open: (page: Page, machine: ManagedMachine) => Promise<void>];

const at = (hash: string) => async (page: Page, { cloud }: ManagedMachine) => {
  await page.goto(`${cloud.url}/${hash}`);
};
const VIEWS: readonly View[] = [
  ["machines", at("#/")],
  ["machine", (page, all) => at(`#/machine/${all.example.machineId}`)(page, all)],
  ["configuration", (page, all) => at(`#/machine/${all.example.machineId}/configuration`)(page, all)],
  ["settings", (page, all) => at(`#/machine/${all.example.machineId}/settings`)(page, all)],
  ["logs", (page, all) => at(`#/machine/${all.example.machineId}/logs`)(page, all)],
  ["locations", at("#/locations")],
  ["fragment", openFragment],
  ["images", at("#/data")],
  ["image", openImage],
  ["readings", openReadings],
  ["datasets", at("#/data/datasets")],
  ["training", at("#/data/training")],
  ["map", openMap],
  ["all-logs", at("#/logs")],
  ["rollouts", at("#/rollouts")],
  ["registry", at("#/registry")],
  ["alerts", at("#/alerts")],
  ["people", at("#/people")],
  ["releases", at("#/releases")],
  ["usage", at("#/usage")],
  ["backups", at("#/backups")],
  ["audit", at("#/audit")],
];

async function openImage(page: Page, all: ManagedMachine): Promise<void> {
  await at("#/data")(page, all);
  await page.getByLabel("Label of a box").first().fill("cone");
  await page.keyboard.press("Enter");
  await page.getByRole("list", { name: "Images" }).getByRole("listitem").first().getByRole("button").click();
}

/** Makes it where there is none yet. */
async function openMap(page: Page, all: ManagedMachine): Promise<void> {
  await at("#/data/maps")(page, all);
  await page.getByText(/^\d+ maps?$/).waitFor();
  const made = page.getByRole("link", { name: "hall", exact: true });
  if (await made.count() === 0) {
    await uploadMap(all.channel, all.example.organizationId, ["hall", "1.0.0"], { "map.pcd": hallCloud() });
  }
  await at("#/data/maps/hall")(page, all);
  await page.getByText(/^[\d.,]+ points/).waitFor();
}

/** Makes it where there is none yet. */
async function openFragment(page: Page, all: ManagedMachine): Promise<void> {
  const attributes = { max_rpm: { $variable: { name: "speed", default_value: 120 } } };
  const motor = { name: "left", api: "rdk:component:motor", model: "fake", attributes };
  await at("#/fragments")(page, all);
  await page.getByText(/^\d+ fragments?$/).waitFor();
  const made = page.getByRole("link", { name: "drive", exact: true });
  if (await made.count() > 0) return await made.click();
  await page.getByRole("button", { name: "New fragment…" }).click();
  await page.getByLabel("Name").fill("drive");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByLabel("Text of the fragment").click();
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(`${JSON.stringify({ components: [motor] }, null, 2)}\n`);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText(/^Saved\./).waitFor();
}

async function openReadings(page: Page, all: ManagedMachine): Promise<void> {
  await at("#/data/readings")(page, all);
  await page.getByRole("region", { name: "Sources of readings" }).getByRole("button").first().click();
}

async function takePictures(browser: Browser, machine: ManagedMachine): Promise<void> {
  for (const look of set.looks) {
    const { page } = await openPage(browser, machine.cloud.url, look);
    await page.goto(machine.cloud.url);
    await signInByKey(page, machine.example.ownerKey);
    await page.getByRole("row", { name: /online/ }).waitFor();
    for (const [name, open] of VIEWS) {
      await open(page, machine);
      await page.locator("main > *").first().waitFor();
      await page.waitForTimeout(SETTLE_MS);
      const file = set.pathOf(`fleet-${name}`, look);
      await page.screenshot({ path: file });
      console.log(file);
    }
    await page.context().close();
  }
}

/** The demo with a sensor that is captured every second. */
async function capturingDemo(): Promise<object> {
  const demo = JSON.parse(await Deno.readTextFile(new URL("examples/demo.json", ROOT)));
  const attributes = { capture_methods: [{ method: "Readings", capture_frequency_hz: 1 }] };
  const sensor = {
    name: "sensor1",
    api: "rdk:component:sensor",
    model: "fake",
    attributes: {},
    service_configs: [{ type: "data_manager", attributes }],
  };
  const manager = {
    name: "data",
    api: "rdk:service:data_manager",
    model: "builtin",
    attributes: { sync_interval_mins: 0.05 },
  };
  return { ...demo, components: [...demo.components, sensor], services: [...demo.services ?? [], manager] };
}

const needed = await browserWithPage(FLEET_PAGE);
if ("missing" in needed) {
  console.error(needed.missing);
  Deno.exit(1);
}
await Deno.mkdir(set.folder, { recursive: true });
const browser = await launch(needed.found);
try {
  const work = (machine: ManagedMachine) => takePictures(browser, machine);
  await withManagedMachine(await capturingDemo(), work, { initFlags: ["--example"] });
} finally {
  await browser.close();
}
