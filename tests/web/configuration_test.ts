/** The page's configuration and scene in a real browser, against the demo machine. */

import { assert, assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, violations } from "./browser.ts";
import { type PageMachine, startPageMachine } from "./page_machine.ts";

const ROOT = new URL("../../", import.meta.url);
const demo: JsonObject = JSON.parse(await Deno.readTextFile(new URL("examples/demo.json", ROOT)));

interface Shared {
  readonly machine: PageMachine;
  readonly page: Page;
}

const editor = (page: Page) => page.getByRole("textbox", { name: "Configuration" });
const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });
const nodeOf = ({ runtime }: PageMachine, name: string) =>
  [...runtime.machine.nodes].find((node) => node.name.short === name);

const STEPS: readonly (readonly [name: string, run: (shared: Shared) => Promise<void>])[] = [
  [
    "the running configuration is shown, and nothing can be applied before a change",
    async ({ machine, page }) => {
      await page.goto(`${machine.url}/#/configuration`);
      await editor(page).getByText("encoder-a").first().waitFor();
      assert(await button(page, "Apply").isDisabled());
      assertEquals(await violations(page), []);
    },
  ],
  ["a mistake in the grammar is shown at its place and cannot be applied", async ({ page }) => {
    await editor(page).click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("}");
    await page.getByRole("list", { name: "Problems" }).getByText("wanted the end of the file").waitFor();
    assert(await button(page, "Apply").isDisabled());
    await button(page, "Discard").click();
  }],
  [
    "a form adds a motor, its problem has a path, and applying it makes it unhealthy",
    async ({ machine, page }) => {
      await button(page, "Add…").click();
      await page.getByLabel("API").selectOption("rdk:component:motor");
      await page.getByLabel("Model").selectOption("rdk:builtin:gpio");
      await page.getByRole("textbox", { name: /^board/ }).fill("board1");
      await page.getByRole("textbox", { name: /^pins/ }).fill('{"dir": "11"}');
      assertEquals(await violations(page), []);
      await button(page, "Add to the text").click();
      await page.getByRole("list", { name: "Problems" }).getByText("components.5.attributes.pins").waitFor();
      await button(page, "Differences").click();
      await page.getByRole("textbox", { name: "Differences" }).getByText("motor2").waitFor();
      await button(page, "Apply").click();
      await page.getByText("The machine takes it over now.").waitFor();
      await until(() => nodeOf(machine, "motor2")?.state === "unhealthy");
    },
  ],
  ["a former version comes back", async ({ machine, page }) => {
    await button(page, /^Versions/).click();
    await button(page, /^until/).first().click();
    await page.getByRole("textbox", { name: "Differences of this version" }).getByText("motor2").waitFor();
    assertEquals(await violations(page), []);
    await button(page, "Use this version again").click();
    await page.getByText("The former version is back").waitFor();
    await until(() => nodeOf(machine, "motor2") === undefined);
  }],
  ["the scene lists the frames, with the pose of the chosen one", async ({ machine, page }) => {
    await page.goto(`${machine.url}/#/scene`);
    await button(page, /^arm1/).click();
    await page.getByRole("heading", { name: "arm1 in the world" }).waitFor();
    assertEquals(await violations(page), []);
  }],
];

needingTest(
  "configuration and scene: seen, changed, compared and restored in a browser",
  await browserWithPage(),
  async (path, t) => {
    const machine = await startPageMachine(demo);
    const browser = await launch(path);
    try {
      const { page, foreign, errors } = await openPage(browser, machine.url);
      for (const [name, run] of STEPS) await t.step(name, () => run({ machine, page }));
      assertEquals([foreign, errors], [[], []]);
    } finally {
      await browser.close();
      await machine.close();
    }
  },
);
