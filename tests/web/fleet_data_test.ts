/** Data on the fleet's page in a real browser: images, boxes, readings, datasets and training, by hand and keyboard. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { encodePng } from "../../lib/geometry/image/png.ts";
import { readingsCsv } from "../../lib/web/fleet/data/reading_rows.ts";
import { client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { FakeExecutor } from "../cloud/training_world.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, violations, type WatchedPage } from "./browser.ts";
import { assertTextOnly, MARKUP, signInByKey } from "./fleet_steps.ts";

const IMAGES = 16;
const READINGS = 40;

interface DataShared {
  readonly served: ServedCloud;
  readonly world: World;
  /** Another tenant. */
  readonly other: World;
  readonly executor: FakeExecutor;
  readonly data: ServiceClient<typeof DataService>;
  readonly browser: Browser;
  readonly watched: WatchedPage;
}

type DataStep = readonly [name: string, run: (shared: DataShared) => Promise<void>];

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });
const images = (page: Page) => page.getByRole("list", { name: "Images" }).getByRole("listitem");

/** Images and readings of a part. Some names try to be markup. */
async function capture({ channel }: ServedCloud, { owner, part: partId }: World): Promise<void> {
  const sync = client(DataSyncService, await channel(owner));
  const nowMs = Date.now();
  for (let at = 0; at < IMAGES; at++) {
    const samples = Uint8Array.from({ length: 12 * 8 * 3 }, (_, index) => (index * 7 + at * 40) & 255);
    const time = toTimestamp(nowMs - (IMAGES - at) * 60_000);
    await sync.dataCaptureUpload({
      metadata: {
        partId,
        componentType: "rdk:component:camera",
        componentName: at === 0 ? MARKUP : "eye",
        methodName: "GetImages",
        type: DataType.BINARY_SENSOR,
        fileExtension: ".png",
        tags: [at % 2 === 0 ? "day" : MARKUP],
      },
      sensorContents: [{
        metadata: { timeRequested: time, timeReceived: time },
        data: { case: "binary", value: encodePng({ width: 12, height: 8, channels: 3, samples }) },
      }],
    });
  }
  const cells = Array.from({ length: 130 }, (_, at) => `cell ${at}`);
  await sync.dataCaptureUpload({
    metadata: {
      partId,
      componentType: "rdk:component:sensor",
      componentName: "probe",
      methodName: "Readings",
      type: DataType.TABULAR_SENSOR,
    },
    sensorContents: Array.from({ length: READINGS }, (_, at) => {
      const time = toTimestamp(nowMs - (READINGS - at) * 1000);
      const readings = {
        celsius: 20 + at / 10,
        place: `=HYPERLINK("x")${MARKUP}`,
        inner: { volts: 12 },
        cells,
      };
      return {
        metadata: { timeRequested: time, timeReceived: time },
        data: { case: "struct" as const, value: { readings } },
      };
    }),
  });
}

const STEPS: readonly DataStep[] = [
  [
    "images are shown, found and opened; names of tenants stay text",
    async ({ served, world, watched: { page } }) => {
      await page.goto(served.url);
      await signInByKey(page, world.owner);
      await page.getByRole("link", { name: "Data" }).click();
      await page.getByText(`${IMAGES} of ${IMAGES} images`).waitFor();
      await until(async () => await images(page).locator("img").count() === IMAGES);
      assertEquals(await violations(page), []);
      await page.getByLabel("Resource").fill("eye");
      await page.keyboard.press("Enter");
      await page.getByText(`${IMAGES - 1} of ${IMAGES - 1} images`).waitFor();
      await page.getByLabel("Tag", { exact: true }).fill("noon");
      await button(page, "Find").click();
      await page.getByText("No image matches.").waitFor();
      await button(page, "Clear").click();
      await page.getByText(`${IMAGES} of ${IMAGES} images`).waitFor();
      await assertTextOnly(page);
    },
  ],
  ["tags are set by digits, and arrows go on", async ({ data, world, watched: { page } }) => {
    await images(page).first().getByRole("button").click();
    const view = page.getByRole("region", { name: "Image", exact: true });
    await view.getByText(`1 of ${IMAGES}`).waitFor();
    await view.getByLabel("Another tag").fill("good");
    await page.keyboard.press("Enter");
    await view.getByRole("button", { name: /good/, pressed: true }).waitFor();
    await view.focus();
    await page.keyboard.press("ArrowRight");
    await view.getByText(`2 of ${IMAGES}`).waitFor();
    const number = (await view.getByRole("button", { name: /good/ }).innerText()).trim()[0];
    await page.keyboard.press(number);
    await view.getByRole("button", { name: /good/, pressed: true }).waitFor();
    const filter = { organizationIds: [world.organization], tagsFilter: { type: 1, tags: ["good"] } };
    assertEquals((await data.binaryDataByFilter({ dataRequest: { filter } })).data.length, 2);
    await page.keyboard.press(number);
    await view.getByRole("button", { name: /good/, pressed: false }).waitFor();
    assertEquals(await violations(page), []);
  }],
  [
    "a box is drawn, added without a pointer, changed and deleted",
    async ({ data, world, watched: { page } }) => {
      const view = page.getByRole("region", { name: "Image", exact: true });
      const boxes = view.getByRole("region", { name: "Boxes" });
      await button(page, "Add a box").click();
      await page.getByRole("alert").getByText("Give the box a label first").waitFor();
      await boxes.getByLabel("Label of new boxes").fill(MARKUP);
      const picture = await view.getByRole("img").first().boundingBox();
      assert(picture);
      await page.mouse.move(picture.x + picture.width * 0.1, picture.y + picture.height * 0.2);
      await page.mouse.down();
      await page.mouse.move(picture.x + picture.width * 0.5, picture.y + picture.height * 0.6);
      await page.mouse.up();
      await boxes.getByTitle(MARKUP).waitFor();
      await boxes.getByLabel("Label of new boxes").fill("bolt");
      await button(page, "Add a box").click();
      await boxes.getByLabel("right side of bolt, %").fill("90");
      await page.keyboard.press("Enter");
      const request = { filter: { organizationIds: [world.organization], bboxLabels: ["bolt"] } };
      const found = async () =>
        (await data.binaryDataByFilter({ dataRequest: request })).data[0]?.metadata?.annotations?.bboxes ??
          [];
      await until(async () =>
        (await found()).some(({ label, xMaxNormalized }) => label === "bolt" && xMaxNormalized === 0.9)
      );
      const drawn = (await found()).find(({ label }) => label === MARKUP);
      const sides = [
        drawn?.xMinNormalized,
        drawn?.yMinNormalized,
        drawn?.xMaxNormalized,
        drawn?.yMaxNormalized,
      ];
      for (const [at, wanted] of [0.1, 0.2, 0.5, 0.6].entries()) {
        assert(
          Math.abs((sides[at] ?? 9) - wanted) < 0.02,
          String(sides),
        );
      }
      assertEquals(await violations(page), []);
      await button(page, "Delete the box bolt").click();
      await until(async () => (await found()).length === 0);
      await assertTextOnly(page);
      await page.keyboard.press("Escape");
      await page.getByText(`${IMAGES} of ${IMAGES} images`).waitFor();
    },
  ],
  ["marked images become a dataset, which trains a model", async ({ executor, watched: { page } }) => {
    await page.getByRole("link", { name: "Datasets" }).click();
    await page.getByText("There is no dataset yet.").waitFor();
    await page.getByRole("form", { name: "New dataset" }).getByLabel("Name").fill("parts");
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "parts" }).waitFor();
    assertEquals(await violations(page), []);
    await page.getByRole("link", { name: "Images" }).click();
    await button(page, "Mark all shown").click();
    await page.getByText(`${IMAGES} marked`).waitFor();
    await page.getByPlaceholder("Tag").fill("good");
    await button(page, "Take it off").click();
    await page.getByRole("listitem").getByText(/good/).first().waitFor({ state: "detached" });
    await page.getByRole("combobox", { name: "Dataset", exact: true }).last().selectOption("parts");
    await button(page, "Add to the dataset").click();
    await page.getByText(`${IMAGES} images added to parts.`).waitFor();
    await page.getByRole("link", { name: "Datasets" }).click();
    await page.getByRole("link", { name: "parts" }).click();
    await page.getByText(`${IMAGES} of ${IMAGES} images`).waitFor();
    const form = page.getByRole("form", { name: "Train a model" });
    await until(async () => (await form.getByLabel(/^Labels/).inputValue()).includes("day"));
    await form.getByLabel("Model").fill("sorter");
    await form.getByLabel(/^Labels/).fill("day, fog");
    await button(page, "Train").click();
    await page.getByRole("alert").getByText(/wanted at least one image with "fog"/).waitFor();
    await form.getByLabel(/^Labels/).fill("day");
    await button(page, "Train").click();

    await until(() => executor.begun.length === 1, { found: () => page.locator("main").innerText() });
    const work = await executor.next();
    assertEquals(work.job.modelName, "sorter");
    await page.getByRole("heading", { name: "sorter" }).waitFor();
    work.log("info", "epoch 1/3 loss 0.9 validation 0.8");
    work.log("info", "epoch 2/3 loss 0.5 validation 0.6");
    work.log("info", MARKUP);
    await page.getByRole("region", { name: "Curves" }).getByText("validation").waitFor();
    await page.getByRole("status").getByText("running").waitFor();
    assertEquals(await page.getByRole("progressbar").getAttribute("value"), "2");
    assertEquals(await violations(page), []);
    work.finish();
    await page.getByRole("status").getByText("completed").waitFor();
    await assertTextOnly(page);
    await page.getByRole("link", { name: "All jobs" }).click();
    await page.getByRole("row", { name: /sorter.*completed/ }).waitFor();
    assertEquals(await violations(page), []);
  }],
  ["readings are listed, plotted and saved as a table without formulas", async ({ watched: { page } }) => {
    await page.getByRole("link", { name: "Readings" }).click();
    await page.getByText("1 source of readings").waitFor();
    await button(page, "probe").click();
    const shown = page.getByRole("region", { name: "Readings of probe" });
    await shown.getByText(`${READINGS} readings`).waitFor();
    await shown.getByRole("figure", { name: "probe over time" }).getByText("celsius").waitFor();
    await shown.getByLabel("inner.volts: plot").uncheck();
    await shown.getByRole("figure").getByText("inner.volts").waitFor({ state: "detached" });
    await shown.getByText("100 of 133 readings").waitFor();
    await button(page, "Show 33 more readings").press("Enter");
    await shown.getByText("cell 129").waitFor();
    assertEquals(await violations(page), []);
    const saving = page.waitForEvent("download");
    await button(page, "Save as CSV").click();
    const file = await (await saving).path();
    const [head, first] = (await Deno.readTextFile(file)).split("\r\n");
    assertEquals(head.split(",", 5), ["time", "celsius", "place", "inner.volts", "cells.0"]);
    assertEquals(head.split(",").at(-1), "cells.129");
    assertStringIncludes(first, `20,"'=HYPERLINK(""x"")`);
    await assertTextOnly(page);
  }],
  ["every view is whole on a narrow screen and in the dark", async ({ served, world, browser }) => {
    const narrow = await openPage(browser, served.url, { width: 390, height: 844, dark: true });
    await narrow.page.goto(`${served.url}/#/data`);
    await signInByKey(narrow.page, world.owner);
    for (
      const [hash, text] of [["#/data", /of \d+ images/], ["#/data/readings", /source of readings/], [
        "#/data/datasets",
        /parts/,
      ], ["#/data/training", /completed/]] as const
    ) {
      await narrow.page.goto(`${served.url}/${hash}`);
      await narrow.page.getByText(text).first().waitFor();
      assertEquals(await violations(narrow.page), []);
      assertEquals(await narrow.page.evaluate("document.querySelector('main').scrollWidth"), 390, hash);
    }
    await narrow.page.goto(`${served.url}/#/data`);
    await images(narrow.page).first().getByRole("button").click();
    await narrow.page.getByRole("region", { name: "Boxes" }).waitFor();
    assertEquals(await violations(narrow.page), []);
    assertEquals(await narrow.page.evaluate("document.querySelector('main').scrollWidth"), 390);
    assertEquals([narrow.foreign, narrow.errors], [[], []]);
    await narrow.page.context().close();
  }],
  ["a view that fails says why, and leaves the others alone", async ({ served, world, browser }) => {
    const { page } = await openPage(browser, served.url);
    await page.addInitScript(`
      globalThis.dateText = Date.prototype.toLocaleString;
      Date.prototype.toLocaleString = () => { throw new Error("no dates here"); };
    `);
    await page.goto(`${served.url}/#/data`);
    await signInByKey(page, world.owner);
    const fault = page.getByRole("alert").getByText("This view cannot be shown: no dates here");
    await fault.waitFor();

    await page.getByRole("link", { name: "People", exact: true }).click();
    await page.getByRole("heading", { name: "People" }).first().waitFor();
    assertEquals(await fault.count(), 0);
    await page.getByRole("link", { name: "Data", exact: true }).click();
    await fault.waitFor();
    await page.evaluate("Date.prototype.toLocaleString = dateText");
    await button(page, "Try again").click();
    await images(page).first().waitFor();
    assertEquals(await page.getByRole("alert").count(), 0);
    await page.context().close();
  }],
  ["another tenant sees nothing of it", async (shared) => {
    const { served, other, browser, watched, data, world } = shared;
    const stranger = await openPage(browser, served.url);
    await stranger.page.goto(`${served.url}/#/data`);
    await signInByKey(stranger.page, other.owner);
    await stranger.page.getByText(/^There is no image yet/).waitFor();
    const { datasetIds = [] } =
      (await data.binaryDataByFilter({ dataRequest: { filter: { organizationIds: [world.organization] } } }))
        .data[0]?.metadata ?? {};
    await stranger.page.goto(`${served.url}/#/data/datasets/${datasetIds[0]}`);
    await stranger.page.getByText("There is no such dataset in this organization.").waitFor();
    await stranger.page.goto(`${served.url}/#/data/readings`);
    await stranger.page.getByText("No readings arrived in this time.").waitFor();
    for (const { foreign, errors } of [stranger, watched]) assertEquals([foreign, errors], [[], []]);
    await stranger.page.context().close();
  }],
];

needingTest(
  "data on the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    const executor = new FakeExecutor();
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const [world, other] = [await newWorld(store), await newWorld(store)];
        await withCloud(database, async (served) => {
          await capture(served, world);
          const watched = await openPage(browser, served.url);
          const data = client(DataService, await served.channel(world.owner));
          const shared = { served, world, other, executor, data, browser, watched };
          await runPageSteps(t, STEPS, shared);
        }, { training: { managed: executor }, page: builtPage(new DenoHost(), FLEET_PAGE) });
      });
    } finally {
      await browser.close();
    }
  },
);

Deno.test("saved readings have a column for each value, also where a key has a dot", () => {
  const values = [{ "imu.x": 1 }, { imu: { x: 2, y: 3 }, "gps.lat": 4 }];
  const lines = readingsCsv(values.map((one) => ({ timeMs: 0, values: one }))).split("\r\n");
  assertEquals(lines[0], 'time,"[""imu.x""]",imu.x,imu.y,gps.lat');
  assertEquals(lines.slice(1, 3).map((line) => line.replace(/^[^,]*/, "")), [",1,,,", ",,2,3,4"]);
});
