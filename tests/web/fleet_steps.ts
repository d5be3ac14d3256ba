/** What tests of the fleet's page do again and again. */

import { assert, assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { violations } from "./browser.ts";

/** A name that tries to be more than text. */
export const MARKUP = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

/** Fills in the form for an API key and sends it. */
export async function signInByKey(
  page: Page,
  { id, key }: { readonly id: string; readonly key: string },
): Promise<void> {
  // A refused key leaves the form as it is.
  if (await page.getByLabel("Key id").count() === 0) {
    await page.getByRole("button", { name: "Use an API key" }).click();
  }
  await page.getByLabel("Key id").fill(id);
  await page.getByLabel("Key", { exact: true }).fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Nothing that a tenant has written is more than text. */
export async function assertTextOnly(page: Page): Promise<void> {
  assertEquals(await page.locator("img[src=x]").count(), 0);
  assertEquals(await page.locator("script:not([src])").count(), 0);
  assert(!(await page.title()).startsWith("owned"));
}

/** The open view is whole and without violations, wide and narrow, in light and in dark colours. */
export async function assertEveryLook(page: Page): Promise<void> {
  const before = page.viewportSize()!;
  for (const width of [390, 1100, 1400]) {
    await page.setViewportSize({ width, height: 900 });
    for (const _ of ["dark", "light"]) {
      await page.getByRole("button", { name: /^(Dark|Light) colours$/ }).click();
      assertEquals(await violations(page), []);
    }
    assertEquals(await page.evaluate("document.querySelector('main').scrollWidth"), width);
    assertEquals(await page.evaluate("document.body.scrollWidth"), width);
    assertEquals(await page.evaluate("document.querySelector('header').scrollWidth"), width);
  }
  await page.setViewportSize(before);
}
