/** What the steps of the page's tests share: a machine, a browser, and the ways of a person. */

import { assert } from "@std/assert";
import type { Browser, Locator, Page } from "playwright-core";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import type { WatchedPage } from "./browser.ts";
import type { PageMachine } from "./page_machine.ts";

const ROOT = new URL("../../", import.meta.url);

/** The example machine. */
export const DEMO: JsonObject = JSON.parse(await Deno.readTextFile(new URL("examples/demo.json", ROOT)));

/** The card of a resource, opened if it is not. */
export async function cardOf(page: Page, name: string): Promise<Locator> {
  const card = page.locator(`article[data-name="${name}"]`);
  const entry = page.locator("aside button.entry", { has: page.getByText(name, { exact: true }) }).first();
  // The first cards open with the list: before it, a click would close what has opened meanwhile.
  await entry.waitFor({ state: "attached" });
  if (await card.count() === 0) await entry.click();
  await card.scrollIntoViewIfNeeded();
  // On a busy computer the connection may just be made anew, and what a person does meanwhile fails.
  await page.getByTestId("rtt").waitFor();
  return card;
}

export async function closeCards(page: Page): Promise<void> {
  // The cards are there with the list.
  await page.locator("aside button.entry").first().waitFor();
  const closing = page.locator("article").getByRole("button", { name: /^Close / });
  while (await closing.count() > 0) await closing.first().click();
}

/** What the resource itself says, beside the page. */
export async function isMoving(
  { runtime: { machine } }: PageMachine,
  api: string,
  name: string,
): Promise<boolean> {
  const found = machine.find(api, name);
  assert("isMoving" in found && typeof found.isMoving === "function");
  return await found.isMoving();
}

export interface PageShared {
  readonly machine: PageMachine;
  readonly browser: Browser;
  readonly watched: WatchedPage;
}

/** A step of a test; later ones go on where it ends. */
export type PageStep = readonly [name: string, run: (shared: PageShared) => Promise<void>];
