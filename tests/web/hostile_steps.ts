/** A hostile machine: garbage, floods, very many of everything; and a page that is left open. */

import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import type { CDPSession, Page } from "playwright-core";
import { until } from "../support/until.ts";
import { CLOUD_POINTS, everyApi } from "./page_machine.ts";
import { cardOf, closeCards, DEMO, type PageStep } from "./page_steps.ts";

const MANY = 1000;
const FLOOD_PER_SECOND = 1000;
const FLOOD_SECONDS = 3;
const RECONNECTIONS = 6;
/** Between the second and the last reconnection; a page that kept its connections would grow by megabytes each. */
const GROWTH_BYTES_MAX = 6_000_000;
const GROWTH_NODES_MAX = 1500;

/** Of a page, after a collection of garbage. */
async function pageFigures(
  session: CDPSession,
): Promise<{ readonly heapBytes: number; readonly nodes: number }> {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const figure = (wanted: string) => metrics.find(({ name }) => name === wanted)?.value ?? NaN;
  return { heapBytes: figure("JSHeapUsedSize"), nodes: figure("Nodes") };
}

async function sessionOf(page: Page): Promise<CDPSession> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  await session.send("HeapProfiler.enable");
  return session;
}

const elements = (page: Page) => page.locator("*").count();

export const HOSTILE_STEPS: readonly PageStep[] = [
  [
    "a camera that sends garbage is told of, and its markup is not read",
    async ({ machine, watched: { page } }) => {
      await page.goto(`${machine.url}/#/control`);
      await closeCards(page);
      const card = await cardOf(page, "garbage1");
      await card.getByRole("button", { name: "Pictures" }).click();
      await card.getByRole("combobox").selectOption("0.1 s");
      await card.getByText(/^This picture cannot be shown/).waitFor();
      await card.getByText("a picture of 4294967295 × 4294967295 pixels").waitFor();
      await card.getByRole("button", { name: "Points" }).click();
      await card.getByText("a point cloud of 4000000000 points").waitFor();
      assert(!(await page.title()).includes("owned"));
    },
  ],
  ["a point cloud of half a million points is drawn while the page reacts", async ({ watched: { page } }) => {
    await closeCards(page);
    const card = await cardOf(page, "cloud1");
    await card.getByRole("button", { name: "Points" }).click();
    await card.getByText(`${CLOUD_POINTS.toLocaleString("en-US")} points`).waitFor();
    await card.getByRole("button", { name: "X and Y" }).click();
    await card.getByText(`${CLOUD_POINTS.toLocaleString("en-US")} points`).waitFor();
    await closeCards(page);
  }],
  [
    "a thousand resources are listed, filtered and drawn in a bounded page",
    async ({ machine, watched: { page } }) => {
      const many = Array.from({ length: MANY }, (_, at) => {
        return { name: `many${at}`, api: "rdk:component:generic", model: "fake", attributes: {} };
      });
      await machine.configure({ components: many });
      const filter = page.getByRole("searchbox");
      await until(async () => /Filter 100\d /.test(await filter.getAttribute("placeholder") ?? ""));
      await filter.fill("many999");
      await page.locator("aside button.entry", { hasText: "many999" }).waitFor();
      assertEquals(await page.locator("aside button.entry").count(), 1);
      await filter.fill("");
      assertLess(await elements(page), 4000);
      await page.getByRole("link", { name: "Resources" }).click();
      await page.getByRole("button", { name: /^100\d ready|ready\s*100\d/ }).or(page.getByText(/100\d ready/))
        .first().waitFor();
      assertLess(await elements(page), 10_000);
      await page.getByRole("link", { name: "Graph", exact: true }).click();
      await page.locator(".node").first().waitFor();
      assertLess(await elements(page), 10_000);
      await machine.configure(everyApi(DEMO));
      await page.locator(".node", { hasText: "motor1" }).first().waitFor();
    },
  ],
  [
    "a flood of the log keeps the page small, and the newest record in sight",
    async ({ machine, watched: { page } }) => {
      await page.goto(`${machine.url}/#/logs`);
      await page.getByPlaceholder("Filter by text").fill("");
      const session = await sessionOf(page);
      const before = await pageFigures(session);
      const logger = machine.logs.logger("rdk.flood");
      const total = FLOOD_PER_SECOND * FLOOD_SECONDS;
      let sent = 0;
      let drawn = 0;
      // A tenth of a second at a time, whatever this computer makes of it.
      while (sent < total) {
        for (const end = sent + FLOOD_PER_SECOND / 10; sent < end; sent++) {
          logger.info(
            `flood line ${sent}`,
            { sent },
          );
        }
        drawn = Math.max(drawn, await page.locator(".record").count());
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      await page.locator(".record", { hasText: `flood line ${total - 1}` }).waitFor();
      assertGreater(drawn, 0);
      assertLess(drawn, 200);
      const after = await pageFigures(session);
      assertLess(after.heapBytes - before.heapBytes, 20_000_000);
      assertLess(after.nodes - before.nodes, 3 * GROWTH_NODES_MAX);
      await page.getByRole("button", { name: "Clear" }).click();
    },
  ],
  ["a page that reconnects again and again does not grow", async ({ machine, watched: { page } }) => {
    await page.goto(`${machine.url}/#/control`);
    await closeCards(page);
    for (const name of ["motor1", "sensor1", "camera1", "power1"]) await cardOf(page, name);
    const session = await sessionOf(page);
    const badge = page.getByRole("button", { name: /^Connection/ });
    await badge.click();
    let first: Awaited<ReturnType<typeof pageFigures>> | undefined;
    for (let turn = 0; turn < RECONNECTIONS; turn++) {
      const [way, shown] = turn % 2 === 0 ? ["Direct", "Direct"] : ["WebRTC", "WebRTC"];
      await page.getByRole("radio", { name: new RegExp(`^${way}`) }).check();
      await page.getByRole("button", { name: new RegExp(`^Connection: ${shown}`) }).waitFor();
      await page.locator('article[data-name="power1"] .value').first().waitFor();
      if (turn === 1) first = await pageFigures(session);
    }
    const last = await pageFigures(session);
    await page.getByRole("radio", { name: /^Automatic/ }).check();
    await page.keyboard.press("Escape");
    assertLess(last.heapBytes - first!.heapBytes, GROWTH_BYTES_MAX);
    assertLess(last.nodes - first!.nodes, GROWTH_NODES_MAX);
  }],
];
