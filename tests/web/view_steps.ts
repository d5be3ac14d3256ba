/** The views and cards that show more than a value: diagnostics, programs, a terminal, space; and what can be ended. */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { until } from "../support/until.ts";
import { fromSource, programOf } from "../modules/sdk_bench.ts";
import { everyApi } from "./page_machine.ts";
import { cardOf, closeCards, DEMO, isMoving, type PageStep } from "./page_steps.ts";

export const VIEW_STEPS: readonly PageStep[] = [
  [
    "diagnostics plot the program's metrics, its calls and a check of the network",
    async ({ machine, watched }) => {
      const { page } = watched;
      await page.goto(`${machine.url}/#/diagnostics`);
      const memory = page.getByRole("figure", { name: "Memory over time" });
      await memory.locator("canvas").waitFor();
      await memory.getByText(/[1-9]/).first().waitFor();
      await page.getByRole("group", { name: "Calls by method" }).getByText("RobotService/GetMachineStatus")
        .waitFor();
      await page.getByText("svc-server", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Check the network" }).click();
      const findings = page.getByRole("group", { name: "Findings" });
      await findings.getByText("the name cannot be resolved").first().waitFor();
      assertStringIncludes(
        await page.getByRole("list", { name: "Conclusions" }).innerText(),
        "Nothing outside",
      );
    },
  ],
  ["a view that fails says why, and leaves the others alone", async ({ machine, watched }) => {
    const page = await watched.page.context().newPage();
    await page.addInitScript(`
      globalThis.dateText = Date.prototype.toLocaleString;
      Date.prototype.toLocaleString = () => { throw new Error("no dates here"); };
    `);
    await page.goto(`${machine.url}/#/diagnostics`);
    const fault = page.getByRole("alert").getByText("This view cannot be shown: no dates here");
    await fault.waitFor();

    await page.getByRole("link", { name: "Connect", exact: true }).click();
    await page.getByLabel("Program").waitFor();
    await page.getByRole("link", { name: "Diagnostics", exact: true }).click();
    await fault.waitFor();
    await page.evaluate("Date.prototype.toLocaleString = dateText");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("svc-server", { exact: true }).waitFor();
    assertEquals(await page.getByRole("alert").count(), 0);
    await page.close();
  }],
  [
    "plots are drawn in a browser whose language is none, as where LANG is C",
    async ({ machine, watched }) => {
      const page = await watched.page.context().newPage();
      await page.addInitScript(
        `Object.defineProperty(Navigator.prototype, "language", { get: () => "en-US@posix" })`,
      );
      await page.goto(`${machine.url}/#/diagnostics`);
      await page.getByRole("figure", { name: "Memory over time" }).locator("canvas").waitFor();
      await page.close();
    },
  ],
  ["programs that connect, in four languages", async ({ machine, watched: { page } }) => {
    await page.goto(`${machine.url}/#/connect`);
    const program = page.getByLabel("Program");
    const host = new URL(machine.url).host;
    for (
      const [language, wanted] of [
        ["Python", `RobotClient.at_address("${host}"`],
        ["TypeScript", `host: "${host}"`],
        ["Go", `client.New(ctx, "${host}"`],
        ["Flutter", `RobotClient.atAddress('${host}'`],
      ]
    ) {
      await page.getByRole("link", { name: language, exact: true }).click();
      await program.getByText(wanted).waitFor();
    }
    // A machine without keys has no use for one.
    assertEquals(await page.getByLabel("Include the API key").count(), 0);
  }],
  ["a shell runs in a terminal, and the keyboard leaves it", async ({ machine, watched: { page } }) => {
    await page.goto(`${machine.url}/#/control`);
    await closeCards(page);
    const card = await cardOf(page, "shell1");
    await card.getByRole("button", { name: "Open a terminal" }).click();
    const screen = card.locator(".xterm-rows");
    await until(async () => (await screen.innerText()).trim() !== "");
    await page.keyboard.type("printf '\\033[38;2;9;99;199m%s\\033[0m\\n' $((6*7))-rgb");
    await page.keyboard.press("Enter");
    await until(async () => (await screen.innerText()).includes("42-rgb"));
    // The policy of the page lets in no style attributes; the colour arrives all the same.
    await card.locator(".xterm-rows span", { hasText: /^42-rgb/ }).first().waitFor();
    const colours: string[] = await page.evaluate(
      "[...document.querySelectorAll('.xterm-rows span')].map((one) => getComputedStyle(one).color)",
    );
    assert(colours.includes("rgb(9, 99, 199)"), colours.join());
    await page.keyboard.press("Escape");
    await page.keyboard.press("Tab");
    assertEquals(await page.evaluate("document.activeElement.textContent"), "End");
    await page.keyboard.press("Enter");
    await card.getByRole("button", { name: "Open a terminal" }).waitFor();
  }],
  ["a movement is previewed, and seen objects stand in space", async ({ watched: { page } }) => {
    await closeCards(page);
    const motion = await cardOf(page, "builtin");
    await motion.getByRole("combobox", { name: "Component" }).selectOption("arm1");
    await until(async () => (await motion.getByRole("spinbutton", { name: "X mm" }).inputValue()) !== "0");
    await motion.getByRole("button", { name: "Preview" }).click();
    await motion.getByRole("img", { name: "The goal of arm1 in space" }).locator("canvas").waitFor();
    await motion.getByRole("spinbutton", { name: "Z mm" }).fill("300");
    await motion.getByText(/[1-9][\d.]* mm from here/).waitFor();
    await closeCards(page);
    const vision = await cardOf(page, "obstacles1");
    await vision.getByRole("button", { name: "Objects in 3D" }).click();
    await vision.getByText(/[1-9]\d* objects?$/).waitFor();
    await vision.getByRole("img", { name: /objects in space/ }).locator("canvas").waitFor();
    await closeCards(page);
  }],
  ["the data manager tells what it captures", async ({ watched: { page } }) => {
    await closeCards(page);
    const card = await cardOf(page, "data1");
    const row = card.getByRole("row", { name: /sensor1/ });
    await row.getByText("Readings").waitFor();
    assertMatch(await row.innerText(), /2 Hz/);
    await until(async () => Number(await row.locator("td.number").nth(1).innerText()) > 0);
  }],
  ["an operation is cancelled", async ({ machine, watched: { page } }) => {
    await closeCards(page);
    const card = await cardOf(page, "motor1");
    await card.getByLabel("Turns").fill("500");
    await card.getByRole("button", { name: "Go for" }).click();
    await until(() => isMoving(machine, "rdk:component:motor", "motor1"));
    await page.getByRole("link", { name: "Activity" }).click();
    const row = page.locator("li", { hasText: "MotorService · GoFor" });
    await row.getByRole("button", { name: "Cancel" }).click();
    await row.waitFor({ state: "detached" });
    await until(async () => !await isMoving(machine, "rdk:component:motor", "motor1"));
  }],
  ["a module is restarted", async ({ machine, watched: { page } }) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-page-module-" });
    const program = await programOf(folder, "greenhouse", fromSource("examples/modules/typescript/main.ts"));
    await machine.configure({
      ...everyApi(DEMO),
      modules: [{ name: "greenhouse", executable_path: program }],
    });
    const pid = () =>
      machine.runtime.machine.modules?.statuses.find(({ name }) => name === "greenhouse")?.updatedMs;
    await until(() =>
      machine.runtime.machine.modules?.statuses.some(({ name, state }) =>
        name === "greenhouse" && state === "ready"
      )
    );
    const before = pid();
    const row = page.locator("li", { hasText: "greenhouse" });
    await row.getByRole("button", { name: "Restart" }).click();
    await until(() => pid() !== before);
    await row.getByText(/ready for/).waitFor();
    await machine.configure(everyApi(DEMO));
    await page.getByText("This machine runs no modules.").waitFor();
    await Deno.remove(folder, { recursive: true });
  }],
];
