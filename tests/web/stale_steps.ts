/** What a page shows of a machine whose camera stands still, or whose clock is not that of the browser's computer. */

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Motor } from "../../lib/api/actuators/motor.ts";
import { type Camera, CameraApi } from "../../lib/api/sensors/camera.ts";
import { SvcError } from "../../lib/base/error.ts";
import { until } from "../support/until.ts";
import { openPage } from "./browser.ts";
import { cardOf, closeCards, isMoving, type PageShared, type PageStep } from "./page_steps.ts";

/** The browser's computer is so far ahead of the machine; behind it if negative. */
function withClockAhead(ms: number): string {
  return `{ const now = Date.now; Date.now = () => now() + ${ms}; }`;
}

const PICTURES_OF_BASE =
  "document.querySelector('article[data-name=base1] video').getVideoPlaybackQuality().totalVideoFrames";

const HOUR_MS = 3_600_000;

async function looksAt(
  { machine, browser }: PageShared,
  aheadMs: number,
): Promise<{ readonly operation: string; readonly since: string }> {
  const { page, errors } = await openPage(browser, machine.url, { bare: true });
  await page.addInitScript(withClockAhead(aheadMs));
  await page.goto(`${machine.url}/#/control`);
  const card = await cardOf(page, "motor1");
  await card.getByLabel("Turns").fill("500");
  await card.getByRole("button", { name: "Go for" }).click();
  await page.goto(`${machine.url}/#/activity`);
  const operation = page.locator("li", { hasText: "GoFor" }).locator("span.label").first();
  await operation.filter({ hasText: /^\d+(\.\d)?\u202f(ms|s)$/ }).waitFor();
  const text = await operation.innerText();
  await page.goto(`${machine.url}/#/resources`);
  const since = page.locator("tr", { hasText: "motor1" }).locator("td").last();
  await since.filter({ hasText: /^\d+(\.\d)?\u202f(ms|s|min)$/ }).waitFor();
  const found = { operation: text, since: await since.innerText() };
  await page.getByRole("button", { name: "STOP", exact: true }).click();
  assertEquals(errors, []);
  await page.context().close();
  return found;
}

/** As when the network swallows everything from one moment to the next. */
const SILENT_CHANNELS = "RTCDataChannel.prototype.send = () => {}";

export const STALE_STEPS: readonly PageStep[] = [
  ["STOP reaches the machine although the page's connection is silent", async ({ machine, browser }) => {
    const { page, errors } = await openPage(browser, machine.url, { bare: true });
    await page.goto(`${machine.url}/#/control`);
    await page.getByRole("button", { name: /^Connection: WebRTC/ }).waitFor();
    const motor = machine.runtime.machine.find("rdk:component:motor", "motor1") as Motor;
    await motor.setPower(0.5);
    await until(() => isMoving(machine, "rdk:component:motor", "motor1"));
    await page.evaluate(SILENT_CHANNELS);
    const startMs = performance.now();
    await page.getByRole("button", { name: "STOP", exact: true }).click();
    await until(async () => !await isMoving(machine, "rdk:component:motor", "motor1"));
    // Before the page itself notices: it asks every two seconds, and waits for six.
    assert(performance.now() - startMs < 4_000);
    assertEquals(errors, []);
    await page.context().close();
  }],
  ["what takes long is shown by a browser whose clock is behind the machine's", async (shared) => {
    const { operation } = await looksAt(shared, -HOUR_MS);
    assertMatch(operation, /s$/);
  }],
  ["ages are the machine's in a browser whose clock is years ahead", async (shared) => {
    const { since } = await looksAt(shared, 3 * 365 * 24 * HOUR_MS);
    assertMatch(since, /(s|min)$/);
  }],
  [
    "a video that was closed before it came is watched again, and two views share one",
    async ({ machine, browser }) => {
      const { page, errors } = await openPage(browser, machine.url, { bare: true });
      await page.goto(`${machine.url}/#/control`);
      const camera = await cardOf(page, "camera1");
      await camera.getByRole("button", { name: /^Close / }).click();
      await cardOf(page, "camera1");
      await camera.locator("video:not(.waiting)").waitFor();
      await camera.locator("img").waitFor({ state: "detached" });

      const base = await cardOf(page, "base1");
      await base.getByLabel("Camera").selectOption("camera1");
      const second = base.locator("video:not(.waiting)");
      await second.waitFor();
      await base.locator("img").waitFor({ state: "detached" });
      await camera.getByRole("button", { name: /^Close / }).click();
      const pictures = () => page.evaluate<number>(PICTURES_OF_BASE);
      const before = await pictures();
      await until(async () => await pictures() > before + 20, { found: pictures });
      assertEquals(errors, []);
      await page.context().close();
    },
  ],
  [
    "a video that stands still is told of with its reason, and plays on afterwards",
    async ({ machine, watched: { page } }) => {
      await page.goto(`${machine.url}/#/control`);
      await closeCards(page);
      const card = await cardOf(page, "camera1");
      const plays = card.locator("video:not(.waiting)");
      await plays.waitFor();
      await card.locator("img").waitFor({ state: "detached" });
      const camera = machine.runtime.machine.find(CameraApi.name, "camera1") as Camera;
      const { getImages } = camera;
      try {
        camera.getImages = () => Promise.reject(new SvcError("unavailable", "the cable is out"));
        await card.getByText("the cable is out").waitFor();
        // Single pictures come as long as the video does not.
        camera.getImages = getImages;
        await card.getByText("the cable is out").waitFor({ state: "detached" });
        await plays.waitFor();
        await card.locator("img").waitFor({ state: "detached" });
        // A camera that neither answers nor fails.
        camera.getImages = (_names, { signal } = {}) =>
          new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
        await card.getByText("No new picture for 5 s").waitFor();
        assertEquals(await card.locator("img").count(), 0);
      } finally {
        camera.getImages = getImages;
      }
      await closeCards(page);
    },
  ],
];
