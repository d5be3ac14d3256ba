/**
 * `deno task web:models`: opens a card of every built-in model in Chromium, on the machine of the contract tests, in
 * which a model without an entry fails. A card that is empty or reports a problem fails; takes about a minute.
 */

import { assertEquals } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { SystemClock } from "../../lib/base/clock.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { until } from "../support/until.ts";
import { HostWithDevices } from "../support/host_with_devices.ts";
import { browserWithPage, launch, openPage } from "./browser.ts";
import { startPageMachine } from "./page_machine.ts";
import { closeCards } from "./page_steps.ts";

/** Cards that are open at the same time, all in sight: a card asks for nothing while nobody sees it. */
const CARDS_AT_ONCE = 6;
const TALL = { width: 1400, height: 6000 };

/** What a card shows of its resource, and what it reports. */
const CARD = `(card) => ({
  name: card.dataset.api + "/" + card.dataset.name,
  isFilled: card.querySelector(".body > *") !== null,
  problems: [...card.querySelectorAll(".problem")].map((one) => one.textContent.trim()),
})`;

interface SeenCard {
  readonly name: string;
  readonly isFilled: boolean;
  readonly problems: readonly string[];
}

/** A resource of each model: `rdk:component:motor/motor_fake`. */
function oneOfEach(config: JsonObject): string[] {
  const entries = [config.components, config.services].flat() as {
    name: string;
    api: string;
    model: string;
  }[];
  const byModel = new Map(entries.map(({ name, api, model }) => [`${api} ${model}`, `${api}/${name}`]));
  return [...byModel.values()];
}

async function readMachine(): Promise<JsonObject> {
  return JSON.parse(await Deno.readTextFile(new URL("../contract/machine.json", import.meta.url)));
}

/** Every resource's card is filled by what the machine answers, and reports no problem. */
async function modelCards(browser: Browser): Promise<void> {
  const hosts: HostWithDevices[] = [];
  const createHost = () => {
    const host = new HostWithDevices(new SystemClock());
    hosts.push(host);
    return host;
  };
  const config = await readMachine();
  const machine = await startPageMachine(config, { createHost });
  try {
    const { page, errors } = await openPage(browser, machine.url, { ...TALL, bare: true });
    await page.goto(machine.url);
    const ids = oneOfEach(config);
    const found: string[] = [];
    for (let at = 0; at < ids.length; at += CARDS_AT_ONCE) {
      found.push(...await faultsOf(page, ids.slice(at, at + CARDS_AT_ONCE)));
    }
    assertEquals(found, []);
    assertEquals(errors, []);
    await page.context().close();
  } finally {
    await machine.close();
    for (const host of hosts) await host.close();
  }
}

async function faultsOf(page: Page, ids: readonly string[]): Promise<string[]> {
  await closeCards(page);
  for (const id of ids) {
    const [, name] = id.split("/");
    await page.locator("aside button.entry", { has: page.getByText(name, { exact: true }) }).first().click();
  }
  const look = (): Promise<SeenCard[]> =>
    page.evaluate(`[...document.querySelectorAll("article")].map(${CARD})`);
  // Every card is filled, or says what is wrong.
  await until(async () => {
    const seen = await look();
    return seen.length === ids.length &&
      seen.every(({ isFilled, problems }) => isFilled || problems.length > 0);
  });
  return (await look()).flatMap(({ name, isFilled, problems }) => [
    ...isFilled ? [] : [`${name}: its card is empty`],
    ...problems.map((problem) => `${name}: ${problem}`),
  ]);
}

const needed = await browserWithPage();
if ("missing" in needed) {
  console.error(needed.missing);
  Deno.exit(1);
}
const browser = await launch(needed.found, ["--enable-unsafe-swiftshader"]);
try {
  await modelCards(browser);
  console.log("every built-in model has a card that works");
} finally {
  await browser.close();
}
