/** The page's configuration and scene in a real browser, against the demo machine. */

import { assert, assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { until } from "../support/until.ts";
import { violations } from "./browser.ts";
import type { PageMachine } from "./page_machine.ts";
import { DEMO, type PageStep } from "./page_steps.ts";

const editor = (page: Page) => page.getByRole("textbox", { name: "Configuration" });
const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });
const nodeOf = ({ runtime }: PageMachine, name: string) =>
  [...runtime.machine.nodes].find((node) => node.name.short === name);

export const CONFIGURATION_STEPS: readonly PageStep[] = [
  [
    "the running configuration is shown, and nothing can be applied before a change",
    async ({ machine, watched: { page } }) => {
      await page.goto(`${machine.url}/#/configuration`);
      await editor(page).getByText("encoder-a").first().waitFor();
      assert(await button(page, "Apply").isDisabled());
      assertEquals(await violations(page), []);
    },
  ],
  ["a mistake in the grammar is shown at its place and cannot be applied", async ({ watched: { page } }) => {
    await editor(page).click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("}");
    await page.getByRole("list", { name: "Problems" }).getByText("wanted the end of the file").waitFor();
    assert(await button(page, "Apply").isDisabled());
    await button(page, "Discard").click();
  }],
  ["a text on one line is laid out, with its comments", async ({ watched: { page } }) => {
    await editor(page).click();
    await page.keyboard.press("Control+A");
    await page.keyboard.insertText('{"components":[] /* none */,"log":[{"pattern":"rdk","level":"info"}]}');
    await button(page, "Format").click();
    const lines = () => editor(page).locator(".cm-line").allInnerTexts();
    await until(async () => (await lines()).length > 5);
    assertEquals((await lines()).slice(0, 3), ["{", '  "components": [] /* none */,', '  "log": [']);
    await button(page, "Discard").click();
  }],
  [
    "a form adds a motor, its problem has a path, and applying it makes it unhealthy",
    async ({ machine, watched: { page } }) => {
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
  ["a former version comes back", async ({ machine, watched: { page } }) => {
    await button(page, /^Versions/).click();
    await button(page, /^until/).first().click();
    await page.getByRole("textbox", { name: "Differences of this version" }).getByText("motor2").waitFor();
    assertEquals(await violations(page), []);
    await button(page, "Use this version again").click();
    await page.getByText("The former version is back").waitFor();
    await until(() => nodeOf(machine, "motor2") === undefined);
  }],
  [
    "a text that somebody else has changed meanwhile is shown, also after a new connection",
    async (shared) => {
      const { machine, watched: { page } } = shared;
      await editor(page).click();
      await page.keyboard.press("Control+Home");
      await page.keyboard.insertText("// mine\n");
      await machine.configure({
        ...DEMO,
        components: [...DEMO.components as JsonObject[], {
          name: "theirs1",
          api: "rdk:component:generic",
          model: "fake",
        }],
      });
      await page.getByRole("button", { name: /^Connection: / }).click();
      await page.getByRole("radio", { name: /^Direct/ }).check();
      await page.getByRole("button", { name: /^Connection: Direct/ }).waitFor();
      await page.getByRole("status").getByText("Somebody else has changed the file meanwhile.").waitFor();
      const differences = page.getByRole("textbox", { name: "Differences" });
      await differences.getByText("theirs1").first().waitFor();
      await page.keyboard.press("Escape");
      await button(page, "Discard").click();
      await editor(page).getByText("mine").waitFor({ state: "detached" });
      await page.getByRole("button", { name: /^Connection: / }).click();
      await page.getByRole("radio", { name: /^Automatic/ }).check();
      await page.keyboard.press("Escape");
      await machine.configure(DEMO);
    },
  ],
  ["the scene lists the frames, with the pose of the chosen one", async ({ machine, watched: { page } }) => {
    await page.goto(`${machine.url}/#/scene`);
    await button(page, /^arm1/).click();
    await page.getByRole("heading", { name: "arm1 in the world" }).waitFor();
    assertEquals(await violations(page), []);
  }],
];
