/** What people do to a page that is not in its plan: lost releases, other tabs, turned phones, odd readings. */

import { assert, assertEquals } from "@std/assert";
import type { Locator, Page } from "playwright-core";
import type { Motor } from "../../lib/api/actuators/motor.ts";
import { until } from "../support/until.ts";
import { openPage, violations } from "./browser.ts";
import { cardOf, closeCards, isMoving, type PageStep } from "./page_steps.ts";

/** Sends an event to the pad of a base, as a browser does that has lost others. */
async function onPad(page: Page, type: string, more: object): Promise<void> {
  const card = page.locator('article[data-name="base1"]');
  await card.getByRole("application").dispatchEvent(type, {
    bubbles: true,
    isPrimary: true,
    pointerId: 1,
    ...more,
  });
}

/** The page hears of each change together with one from before it, as when both came between two of its turns. */
const SEVERAL_CHANGES_AT_ONCE = `
  globalThis.IntersectionObserver = class extends IntersectionObserver {
    constructor(heard, options) {
      const before = ({ target, isIntersecting }) => ({ target, isIntersecting: !isIntersecting });
      super((entries, observer) => heard([before(entries[0]), ...entries], observer), options);
    }
  };
`;

export const INPUT_STEPS: readonly PageStep[] = [
  ["a base stops although a release is lost", async ({ machine, watched: { page } }) => {
    await page.goto(`${machine.url}/#/control`);
    await closeCards(page);
    const pad = (await cardOf(page, "base1")).getByRole("application");
    const moves = () => isMoving(machine, "rdk:component:base", "base1");
    const stops = () => until(async () => !await moves());
    // With a modifier a browser may keep the release of another key to itself.
    await pad.focus();
    await page.keyboard.down("w");
    await until(moves);
    await page.keyboard.down("Control");
    await stops();
    await page.keyboard.up("w");
    await page.keyboard.up("Control");
    // The menu of another button takes the release.
    const box = (await pad.boundingBox())!;
    const near = { clientX: box.x + box.width / 2, clientY: box.y + 4 };
    await onPad(page, "pointerdown", { ...near, buttons: 1 });
    await until(moves);
    await onPad(page, "pointermove", { ...near, buttons: 3 });
    await stops();
    await onPad(page, "pointerdown", { ...near, buttons: 1 });
    await until(moves);
    await onPad(page, "lostpointercapture", {});
    await stops();
    await onPad(page, "pointerdown", { ...near, buttons: 1 });
    await until(moves);
    await page.evaluate("dispatchEvent(new Event('blur'))");
    await stops();
  }],
  [
    "a base stops although a key is let go with another letter, and drives in other alphabets",
    async ({ machine, watched: { page } }) => {
      const pad = (await cardOf(page, "base1")).getByRole("application");
      const moves = () => isMoving(machine, "rdk:component:base", "base1");
      const held = pad.locator("kbd.held");
      const key = (type: "keydown" | "keyup", code: string, letter: string) =>
        pad.dispatchEvent(type, { key: letter, code, bubbles: true });
      const drive = async (code: string, press: string, release: string) => {
        await key("keydown", code, press);
        await until(moves);
        assertEquals(await held.count(), 1);
        await key("keyup", code, release);
        await until(async () => !await moves());
        assertEquals(await held.count(), 0);
      };
      // The layout, NumLock or an input method is switched while the key is held.
      await drive("KeyW", "w", "ц");
      await drive("Numpad8", "ArrowUp", "8");
      await drive("KeyS", "Process", "s");
      await drive("KeyW", "ц", "ц");
      await drive("KeyA", "φ", "a");
      // Latin letters count as they are, wherever a layout has them.
      await key("keydown", "KeyW", "z");
      assertEquals(await held.count(), 0);
      await drive("Comma", "w", "w");
    },
  ],
  [
    "a base is driven by keys where the browser has no gamepads or refuses them",
    async ({ machine, browser }) => {
      const scripts = [
        "delete Navigator.prototype.getGamepads",
        "Navigator.prototype.getGamepads = () => { throw new DOMException('refused', 'SecurityError') }",
        "Navigator.prototype.getGamepads = () => [null, null, null, null]",
      ];
      for (const script of scripts) {
        const { page, errors } = await openPage(browser, machine.url, { bare: true });
        await page.addInitScript(script);
        await page.goto(`${machine.url}/#/control/${encodeURIComponent("rdk:component:base/base1")}`);
        const pad = page.locator('article[data-name="base1"]').getByRole("application");
        const moves = () => isMoving(machine, "rdk:component:base", "base1");
        await pad.focus();
        await page.keyboard.down("d");
        await until(moves);
        await page.evaluate("dispatchEvent(new Event('blur'))");
        await until(async () => !await moves());
        await page.keyboard.up("d");
        assertEquals(errors, [], script);
        await page.context().close();
      }
    },
  ],
  [
    "a field without a number does nothing, and says so",
    async ({ machine, watched: { page } }) => {
      const motor = machine.runtime.machine.find("rdk:component:motor", "motor1") as Motor;
      const card = await cardOf(page, "motor1");
      const refuses = async (within: Locator, field: string, button: string, name: string) => {
        await within.getByRole("button", { name: button, exact: true }).click();
        await within.getByText(`nothing was done: there is no number for ${name}`).waitFor();
        await within.getByLabel(field).first().fill("1");
      };
      await motor.goTo(60, 0.5);
      const before = await motor.getPosition();
      // As a browser whose decimal sign is another one takes `1,5`: no number.
      const target = card.getByLabel("Target");
      await target.fill("1");
      await target.press("End");
      await target.press("e");
      await refuses(card, "Target", "Go to", "positionRevolutions");
      assertEquals(await motor.getPosition(), before);
      await card.getByLabel("Turns").fill("");
      await refuses(card, "Turns", "Go for", "revolutions");
      assertEquals(await isMoving(machine, "rdk:component:motor", "motor1"), false);
      const base = await cardOf(page, "base1");
      await base.getByLabel("Speed").first().fill("");
      await refuses(base, "Speed", "Set", "linear");
      assertEquals(await isMoving(machine, "rdk:component:base", "base1"), false);
      const navigation = await cardOf(page, "navigation1");
      await navigation.getByLabel("Latitude").fill("");
      await refuses(navigation, "Latitude", "Add a waypoint", "location");
      // The next call with numbers is made, and the problem is gone.
      await card.getByRole("button", { name: "Go to", exact: true }).click();
      await card.getByText("nothing was done").waitFor({ state: "detached" });
      await until(async () => Math.abs(await motor.getPosition() - 1) < 0.05);
    },
  ],
  ["another tab stops what this one drives", async ({ machine, watched: { page } }) => {
    const second = await page.context().newPage();
    await second.goto(`${machine.url}/#/control`);
    await second.getByRole("button", { name: /^Connection: / }).waitFor();
    await second.getByTestId("rtt").waitFor();
    const card = await cardOf(page, "left1");
    await card.getByLabel("Turns").fill("500");
    await card.getByRole("button", { name: "Go for" }).click();
    const moves = () => isMoving(machine, "rdk:component:motor", "left1");
    await until(moves);
    await second.getByRole("button", { name: "STOP", exact: true }).click();
    await until(async () => !await moves());
    await second.close();
  }],
  ["sticks spring back and buttons are let go, by keyboard and when the focus leaves", async (shared) => {
    const { watched: { page } } = shared;
    const card = await cardOf(page, "pad1");
    const row = (control: string) => card.locator("tr", { hasText: control });
    const south = card.getByRole("button", { name: "South" });
    await south.focus();
    await page.keyboard.down("Space");
    await row("ButtonSouth").getByText("ButtonPress").waitFor();
    await south.blur();
    await row("ButtonSouth").getByText("ButtonRelease").waitFor();
    await page.keyboard.up("Space");
    const stick = card.getByRole("slider", { name: "AbsoluteX", exact: true });
    await stick.focus();
    await page.keyboard.down("ArrowRight");
    await row("AbsoluteX").first().getByText("0.050").waitFor();
    await page.keyboard.up("ArrowRight");
    await row("AbsoluteX").first().getByText("0.000").waitFor();
    assertEquals(await stick.inputValue(), "0");
  }],
  ["a card that came into sight while the page was busy is followed", async ({ machine, browser }) => {
    const { page, errors } = await openPage(browser, machine.url);
    await page.addInitScript(SEVERAL_CHANGES_AT_ONCE);
    await page.goto(`${machine.url}/#/control/${encodeURIComponent("rdk:component:sensor/odd1")}`);
    await page.locator('article[data-name="odd1"] td.value').first().waitFor();
    assertEquals(errors, []);
    await page.context().close();
  }],
  [
    "equal names, small and large numbers and writing from the right are shown as they are",
    async ({ machine, watched: { page } }) => {
      await closeCards(page);
      const card = await cardOf(page, "odd1");
      await card.locator("td.value").first().waitFor();
      const shown = await card.locator("tr").evaluateAll((rows) =>
        rows.map((row) => [row.querySelector("th span")?.textContent, row.querySelector("td")?.textContent])
      );
      const valuesOf = (name: string) => shown.filter(([found]) => found === name).map(([, value]) => value);
      // A name that has a dot and a name within another one have a row each.
      assertEquals([...valuesOf('["a.b"]'), ...valuesOf("a.b")], ["1", "2"]);
      assertEquals([...valuesOf("tiny"), ...valuesOf("huge")], ["1.2345e-5", "1.5e+300"]);
      assertEquals(valuesOf("\u202etxt.exe"), ["\u202eright"]);
      // A sensor without a measurement; the other readings stay.
      const sensor = machine.runtime.machine.find("rdk:component:sensor", "odd1");
      await sensor.doCommand?.({ set: { heading: NaN, range: Infinity } });
      await card.locator("tr", { hasText: "heading" }).getByText("NaN").waitFor();
      await card.locator("tr", { hasText: "range" }).getByText("Infinity").waitFor();
      await sensor.doCommand?.({ reset: true });
      const isolated = await page.evaluate(
        `getComputedStyle(document.querySelector("article[data-name=odd1] td.value")).unicodeBidi`,
      );
      assertEquals(isolated, "isolate");
    },
  ],
  ["a turned phone keeps STOP in sight, and a text is copied without a secure origin", async (shared) => {
    const { machine, browser } = shared;
    const { page, errors } = await openPage(browser, machine.url, { width: 844, height: 390, bare: true });
    await page.addInitScript("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    for (const [width, height] of [[844, 390], [390, 844], [320, 568]]) {
      await page.setViewportSize({ width, height });
      await page.goto(`${machine.url}/#/control/${encodeURIComponent("rdk:component:sensor/odd1")}`);
      await page.locator('article[data-name="odd1"] td.value').first().waitFor();
      assertEquals(await page.evaluate("document.documentElement.scrollWidth"), width);
      const stop = (await page.getByRole("button", { name: "STOP", exact: true }).boundingBox())!;
      assert(
        stop.x >= 0 && stop.x + stop.width <= width && stop.y + stop.height <= height,
        `${width} × ${height}`,
      );
    }
    await page.goto(`${machine.url}/#/connect`);
    await page.getByLabel("Program").getByText("RobotClient.at_address").waitFor();
    const copy = page.getByRole("button", { name: "Copy" }).first();
    await copy.focus();
    await page.keyboard.press("Enter");
    await page.getByText("Copied").first().waitFor();
    // The keyboard goes on from where it was.
    assertEquals(await page.evaluate("document.activeElement.textContent.trim()"), "Copied");
    assertEquals(await violations(page), []);
    assertEquals(errors, []);
    await page.context().close();
  }],
];
