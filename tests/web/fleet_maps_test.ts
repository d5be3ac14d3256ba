/** Maps on the fleet's page in a real browser: their versions with pictures, where they are used, and mapping sessions. */

import { assertEquals, assertGreater } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { CloudSLAMService } from "../../proto/gen/cloud_slam_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { Rover, SENSORS, uploadMap } from "../cloud/rover.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, violations, type WatchedPage } from "./browser.ts";
import { assertTextOnly, MARKUP, signInByKey } from "./fleet_steps.ts";

interface MapsShared {
  readonly served: ServedCloud;
  readonly world: World;
  /** Another tenant. */
  readonly other: World;
  readonly mapping: ServiceClient<typeof CloudSLAMService>;
  readonly browser: Browser;
  readonly watched: WatchedPage;
}

type MapsStep = readonly [name: string, run: (shared: MapsShared) => Promise<void>];

/** The mapper runs beside a browser. */
const MAPS_MS = 120_000;

const picture = (page: Page) => page.getByRole("region", { name: "Picture" });

/** A wall of so many points. */
function wall(points: number): Uint8Array {
  const along = Float32Array.from({ length: points }, (_, at) => at / 100);
  const zero = new Float32Array(points);
  return writePcd(createCloud({ x: along, y: zero, z: zero }));
}

/** Adds a version of a map with these files. */
async function addMap(
  { channel }: ServedCloud,
  { owner, organization }: World,
  named: readonly [name: string, version: string],
  files: Readonly<Record<string, Uint8Array>>,
): Promise<void> {
  await uploadMap(await channel(owner), organization, named, files);
}

/** The pixels of the drawn map that are no background. */
async function drawnPixels(page: Page): Promise<number> {
  return await picture(page).locator("canvas").evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let drawn = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (data[at] !== data[0] || data[at + 1] !== data[1] || data[at + 2] !== data[2]) drawn++;
    }
    return drawn;
  });
}

const STEPS: readonly MapsStep[] = [
  ["maps are listed; a version has its picture, and its uses", async (shared) => {
    const { served, world, watched: { page } } = shared;
    const behind = new Uint8Array(3_000_000).fill(7);
    await addMap(served, world, ["yard", "1.0.0"], { "map.pcd": wall(40) });
    await addMap(served, world, ["yard", "1.1.0"], { "internalState.pbstream": behind, "map.pcd": wall(70) });
    await addMap(served, world, ["plain", "1"], { "note.txt": new Uint8Array(9) });
    await addMap(served, world, ["damaged", "1"], { "map.pcd": new TextEncoder().encode(MARKUP) });
    const robotConfig = {
      packages: [{
        name: "where",
        package: `${world.organization}/yard`,
        version: "1.0.0",
        type: "slam_map",
      }],
    };
    const owner = await served.app(world.owner);
    await owner.updateRobotPart({ id: world.part, name: "rover-main", robotConfig });
    await page.goto(`${served.url}/#/data/maps`);
    await signInByKey(page, world.owner);
    await page.getByText("3 maps").waitFor();
    await page.getByRole("row", { name: /yard 2 1\.1\.0/ }).waitFor();
    assertEquals(await violations(page), []);
    await page.getByRole("link", { name: "yard" }).click();
    await picture(page).getByText("70 points").waitFor();
    await until(async () => await drawnPixels(page) > 0);
    await page.getByRole("button", { name: "1.0.0" }).click();
    await picture(page).getByText("40 points").waitFor();
    await page.getByRole("row", { name: /rover-main 1\.0\.0 its own configuration/ }).waitFor();
    assertEquals(await violations(page), []);
  }],
  ["a version without a picture, or with a damaged one, says so", async ({ served, watched: { page } }) => {
    await page.goto(`${served.url}/#/data/maps/plain`);
    await page.getByRole("alert").getByText("there is no point cloud (.pcd) in it").waitFor();
    await page.goto(`${served.url}/#/data/maps/damaged`);
    await page.getByRole("alert").getByText("this is no point cloud").waitFor();
    await page.goto(`${served.url}/#/data/maps/nowhere`);
    await page.getByText("There is no such map in this organization.").waitFor();
    await assertTextOnly(page);
  }],
  ["a session's map grows on the page, and becomes a version", async (shared) => {
    const { served, world, mapping, watched: { page } } = shared;
    const rover = new Rover(served, world);
    const startTime = rover.now;
    await rover.drive(3);
    const { sessionId } = await mapping.startMappingSession({
      organizationId: world.organization,
      locationId: world.location,
      robotId: world.machine,
      sensors: SENSORS,
      mapName: "hall",
      captureInterval: { startTime },
    });
    await page.getByRole("link", { name: "Mapping", exact: true }).click();
    await page.getByRole("row", { name: /hall rover mapping/ }).waitFor({ timeout: MAPS_MS });
    assertEquals(await violations(page), []);
    await page.getByRole("link", { name: "hall" }).click();
    await picture(page).getByText(/^\d[\d.,]* points/).waitFor({ timeout: MAPS_MS });
    await until(async () => await drawnPixels(page) > 0);
    await mapping.stopMappingSession({ sessionId });
    await page.getByRole("status").getByText("map made").waitFor({ timeout: MAPS_MS });
    await picture(page).getByText(/^\d[\d.,]* points/).waitFor({ timeout: MAPS_MS });
    assertEquals(await violations(page), []);
    await page.getByRole("definition").getByRole("link", { name: "hall" }).click();
    await picture(page).getByText(/^\d[\d.,]* points/).waitFor();
    assertGreater(await drawnPixels(page), 100);
    await page.getByRole("link", { name: "a mapping session" }).click();
    await page.getByRole("heading", { name: "hall" }).waitFor();
  }],
  ["a session that fails shows why", async ({ served, world, mapping, watched: { page } }) => {
    await mapping.startMappingSession({
      organizationId: world.organization,
      robotId: world.machine,
      mapName: "nothing",
      sensors: [{ sourceComponentName: "none", type: "camera" }],
      captureInterval: { startTime: toTimestamp(1_000), endTime: toTimestamp(2_000) },
    });
    await page.goto(`${served.url}/#/data/mapping`);
    await page.getByRole("row", { name: /nothing rover failed .*no scan of the lidar "none" arrived/ })
      .waitFor({ timeout: MAPS_MS });
    await page.getByRole("link", { name: "nothing" }).click();
    await page.getByText(/^There is no picture: .*no scan has been taken in/).waitFor();
    await page.goto(`${served.url}/#/data/mapping/nowhere`);
    await page.getByRole("alert").getByText('there is no mapping session "nowhere"').waitFor();
  }],
  ["the registry lists the versions of a map", async ({ served, world, watched: { page } }) => {
    await page.goto(`${served.url}/#/registry/${world.organization}:yard`);
    const item = page.getByRole("region", { name: "Item yard" });
    await item.getByRole("row", { name: /^1\.1\.0/ }).waitFor();
    await item.getByRole("row", { name: /^1\.0\.0/ }).waitFor();
    await item.getByRole("link", { name: "of this map" }).click();
    await picture(page).getByText("70 points").waitFor();
  }],
  ["every view of maps is whole on a narrow screen and in the dark", async ({ served, world, browser }) => {
    const narrow = await openPage(browser, served.url, { width: 390, height: 844, dark: true });
    const { page } = narrow;
    await page.goto(`${served.url}/#/data/maps`);
    await signInByKey(page, world.owner);
    for (
      const [hash, text] of [
        ["#/data/maps", /4 maps/],
        ["#/data/maps/yard", /70 points/],
        ["#/data/mapping", /2 mapping sessions/],
      ] as const
    ) {
      await page.goto(`${served.url}/${hash}`);
      await page.getByText(text).first().waitFor();
      assertEquals(await violations(page), []);
      assertEquals(await page.evaluate("document.querySelector('main').scrollWidth"), 390, hash);
    }
    assertEquals([narrow.foreign, narrow.errors], [[], []]);
    await page.context().close();
  }],
  ["another tenant sees none of the maps", async (shared) => {
    const { served, other, browser, mapping, world, watched } = shared;
    const { session: [one] } = await mapping.listMappingSessions({ organizationId: world.organization });
    const stranger = await openPage(browser, served.url);
    const { page } = stranger;
    await page.goto(`${served.url}/#/data/maps`);
    await signInByKey(page, other.owner);
    await page.getByText(/^There is no map yet/).waitFor();
    await page.goto(`${served.url}/#/data/maps/yard`);
    await page.getByText("There is no such map in this organization.").waitFor();
    await page.goto(`${served.url}/#/data/mapping`);
    await page.getByText(/^No machine has been mapped here yet/).waitFor();
    await page.goto(`${served.url}/#/data/mapping/${one.cloudRunJobId}`);
    await page.getByRole("alert").getByText(/^The mapping sessions cannot be read/).waitFor();
    for (const { foreign, errors } of [stranger, watched]) assertEquals([foreign, errors], [[], []]);
    await page.context().close();
  }],
];

needingTest(
  "maps on the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const [world, other] = [await newWorld(store), await newWorld(store)];
        await withCloud(database, async (served) => {
          const watched = await openPage(browser, served.url);
          const mapping = client(CloudSLAMService, await served.channel(world.owner));
          const shared = { served, world, other, mapping, browser, watched };
          await runPageSteps(t, STEPS, shared);
        }, { page: builtPage(new DenoHost(), FLEET_PAGE) });
      });
    } finally {
      await browser.close();
    }
  },
);
