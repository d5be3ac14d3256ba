/** The settings of a part's agent by form, and its credentials as QR codes, on the fleet's page in a real browser. */

import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import decodeQr from "qr/decode";
import type { Browser, Locator } from "playwright-core";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { createConfigThread } from "../../cli/cloud/checks/thread.ts";
import { browserWithPage, launch, openPage, runPageSteps, type WatchedPage } from "./browser.ts";
import { assertEveryLook, assertTextOnly, MARKUP, signInByKey } from "./fleet_steps.ts";

interface SettingsShared {
  readonly served: ServedCloud;
  readonly world: World;
  readonly browser: Browser;
  readonly watched: WatchedPage;
}

type SettingsStep = readonly [name: string, run: (shared: SettingsShared) => Promise<void>];

const KEPT = { components: [{ name: "left", api: "rdk:component:motor", model: "fake" }] };

async function configOf({ app }: ServedCloud, { owner, part: id }: World) {
  return JSON.parse((await (await app(owner)).getRobotPart({ id })).configJson);
}

/** The text of a code on the screen: of its modules, as the picture of the element shows them. */
async function readQr(code: Locator): Promise<string> {
  const modules = await code.evaluate((element) => {
    const svg = element as unknown as {
      getAttribute(name: string): string;
      querySelector(name: string): { getAttribute(name: string): string };
    };
    return [svg.getAttribute("viewBox"), svg.querySelector("path").getAttribute("d")];
  });
  const size = Number(modules[0].split(" ")[2]);
  const scale = 4;
  const width = size * scale;
  const data = new Uint8Array(width * width * 4).fill(255);
  for (const [, x, y] of modules[1].matchAll(/M(\d+) (\d+)h1v1h-1z/g)) {
    for (let row = 0; row < scale; row++) {
      const from = ((Number(y) * scale + row) * width + Number(x) * scale) * 4;
      for (let at = from; at < from + scale * 4; at += 4) data.fill(0, at, at + 3);
    }
  }
  return decodeQr({ width, height: width, data });
}

const STEPS: readonly SettingsStep[] = [
  ["settings are changed by form and compared before they are saved", async (shared) => {
    const { served, world, watched: { page } } = shared;
    const owner = await served.app(world.owner);
    const agent = { advanced_settings: { debug: true, viam_server_env: { A: MARKUP } }, unknown: 1 };
    await owner.updateRobotPart({ id: world.part, name: "rover-main", robotConfig: { ...KEPT, agent } });
    await page.goto(`${served.url}/#/machine/${world.machine}`);
    await signInByKey(page, world.owner);
    await page.getByRole("link", { name: "Settings" }).press("Enter");
    const network = page.getByRole("region", { name: "Networks and hotspot" });
    await network.getByLabel(/^hotspot_prefix/).fill("shed");
    await network.getByLabel(/^turn_on_hotspot_if_wifi_has_no_internet/).selectOption("true");
    await network.getByLabel(/^offline_before_starting_hotspot_minutes/).fill("3");
    const advanced = page.getByRole("region", { name: "Agent and svc-server" });
    assertEquals(await advanced.getByLabel(/^debug/).inputValue(), "true");
    await advanced.getByLabel(/^debug/).selectOption("");
    await advanced.getByLabel(/^viam_server_env/).fill("A=1\nB=x=y");
    await page.getByRole("region", { name: "Versions" }).getByLabel(/^svc-server/).fill("stable");
    await page.getByLabel("Name of a network").fill("office");
    await page.getByRole("button", { name: "Add the network" }).press("Enter");
    const office = page.getByRole("region", { name: "Network office" });
    await office.getByLabel(/^ssid/).fill("guests");
    await office.getByLabel(/^psk/).fill("hidden-word");
    await office.getByLabel(/^ipv4_dns/).fill("1.1.1.1\n9.9.9.9");
    await page.getByRole("button", { name: "Review and save…" }).click();
    const review = page.getByRole("region", { name: "Review" });
    await review.getByText("shed").waitFor();
    await assertEveryLook(page);
    await review.getByRole("button", { name: "Save" }).press("Enter");
    await page.getByRole("status").getByText(/^Saved\./).waitFor();
    assertEquals(await configOf(served, world), {
      ...KEPT,
      agent: {
        advanced_settings: { viam_server_env: { A: "1", B: "x=y" } },
        unknown: 1,
        version_control: { "svc-server": "stable" },
        network_configuration: {
          hotspot_prefix: "shed",
          turn_on_hotspot_if_wifi_has_no_internet: true,
          offline_before_starting_hotspot_minutes: 3,
        },
        additional_networks: {
          office: { type: "wifi", ssid: "guests", psk: "hidden-word", ipv4_dns: ["1.1.1.1", "9.9.9.9"] },
        },
      },
    });
    await assertTextOnly(page);
  }],
  ["what the agent would refuse is refused with its reason", async ({ served, world, watched: { page } }) => {
    const before = await configOf(served, world);
    const network = page.getByRole("region", { name: "Networks and hotspot" });
    await network.getByLabel(/^hotspot_interface/).fill("a name that is too long");
    await page.getByRole("button", { name: "Review and save…" }).click();
    await page.getByRole("region", { name: "Review" }).getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("hotspot_interface").waitFor();
    assertEquals(await configOf(served, world), before);
    await page.getByRole("button", { name: "Discard" }).click();
    await until(async () => await network.getByLabel(/^hotspot_interface/).inputValue() === "");
    await page.getByRole("button", { name: "Remove the network office" }).click();
    await page.getByRole("button", { name: "Review and save…" }).click();
    await page.getByRole("region", { name: "Review" }).getByRole("button", { name: "Save" }).click();
    await page.getByRole("status").getByText(/^Saved\./).waitFor();
    const { agent: { additional_networks: _, ...rest } } = before;
    assertEquals((await configOf(served, world)).agent, rest);
  }],
  ["an operator reads the settings, and changes nothing", async ({ served, world, browser }) => {
    const operator = await openPage(browser, served.url);
    await operator.page.goto(`${served.url}/#/machine/${world.machine}/settings`);
    await signInByKey(operator.page, world.operator);
    const network = operator.page.getByRole("region", { name: "Networks and hotspot" });
    await network.getByLabel(/^hotspot_prefix/).waitFor();
    assertEquals(await network.getByLabel(/^hotspot_prefix/).isDisabled(), true);
    await operator.page.getByText("Read only: only an owner").waitFor();
    assertEquals([operator.foreign, operator.errors], [[], []]);
    await operator.page.context().close();
  }],
  ["the line and the file are there as QR codes", async ({ served, world, watched }) => {
    const { page } = watched;
    await page.goto(`${served.url}/#/machine/${world.machine}`);
    await page.getByRole("button", { name: "Create a key for this machine" }).click();
    await page.getByRole("button", { name: "The line as QR code" }).press("Enter");
    const line = page.getByRole("img", { name: "The line that installs the agent, as QR code" });
    await line.waitFor();
    assertEquals(await readQr(line), await page.locator("pre").first().innerText());
    await assertEveryLook(page);
    // Cameras want black on white, also in a dark theme.
    const { width, height } = (await line.boundingBox())!;
    assert(width === height && width >= 200, `${width} x ${height}`);
    assert(Buffer.byteLength(await line.screenshot()) > 0);
    await page.getByRole("button", { name: "The file as QR code" }).click();
    const file = page.getByRole("img", { name: "The file of svc-server, as QR code" });
    await file.waitFor();
    const { cloud } = JSON.parse(await readQr(file));
    assertEquals([cloud.app_address, cloud.id], [served.url, world.part]);
    assertEquals(await line.count(), 0);
    assertEquals(page.url().includes(cloud.api_key.key), false);
    assertEquals([watched.foreign, watched.errors], [[], []]);
  }],
];

needingTest(
  "settings and codes on the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const world = await newWorld(store);
        await withCloud(database, async (served) => {
          const watched = await openPage(browser, served.url);
          const shared = { served, world, browser, watched };
          await runPageSteps(t, STEPS, shared);
        }, { page: builtPage(new DenoHost(), FLEET_PAGE), createConfigThread });
      });
    } finally {
      await browser.close();
    }
  },
);
