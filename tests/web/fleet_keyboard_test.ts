/** The fleet's page by keyboard alone, as a person without a pointer walks through it, on a wide and a narrow screen. */

import { assertEquals } from "@std/assert";
import type { Browser, Locator, Page } from "playwright-core";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { encodePng } from "../../lib/geometry/image/png.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, type WatchedPage } from "./browser.ts";

interface KeyboardShared {
  readonly served: ServedCloud;
  readonly world: World;
  readonly browser: Browser;
  readonly watched: WatchedPage;
  /** Of what this walk makes. */
  readonly name: string;
}

type KeyboardStep = readonly [name: string, run: (shared: KeyboardShared) => Promise<void>];

/** More stops than any view has. */
const STOPS_MAX = 150;
const SCREENS = [[1280, 800], [390, 844]] as const;

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });

/** How the focus shows: an outline of the element, or of the frame that stands for it. Beyond the last stop nothing has it. */
const FOCUS_SHOWS = `(() => {
  let one = document.activeElement;
  if (!one || one === document.body) return true;
  while (one.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
  const { bottom, right, width } = one.getBoundingClientRect();
  if (width > 0 && (bottom < 0 || right < 0)) return false;
  for (let at = one, up = 0; at && up < 4; at = at.parentElement ?? at.getRootNode().host, up++) {
    const { outlineStyle, outlineWidth } = getComputedStyle(at);
    if (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) return true;
  }
  return false;
})()`;

/** Presses Tab until the wanted element has the focus. Every stop on the way is seen. */
async function tabTo(page: Page, wanted: Locator): Promise<void> {
  await wanted.waitFor();
  for (let at = 0; at < STOPS_MAX; at++) {
    await page.keyboard.press("Tab");
    // An editor frames itself a moment later.
    await until(() => page.evaluate<boolean>(FOCUS_SHOWS), {
      found: () => page.evaluate<string>("document.activeElement.outerHTML.slice(0, 300)"),
      withinMs: 5_000,
    });
    if (await wanted.evaluate((one) => one.matches(":focus"))) return;
  }
  throw new Error(`no Tab reaches ${wanted}`);
}

async function press(page: Page, wanted: Locator): Promise<void> {
  await tabTo(page, wanted);
  await page.keyboard.press("Enter");
}

async function type(page: Page, wanted: Locator, text: string): Promise<void> {
  await tabTo(page, wanted);
  await page.keyboard.press("Control+A");
  await page.keyboard.type(text);
}

/** Something of the page has the focus: the next Tab does not begin at its top. */
async function assertFocused(page: Page): Promise<void> {
  await until(() => page.evaluate<boolean>("document.activeElement !== document.body"), {
    found: () => page.locator("main").last().innerText(),
  });
}

async function captureImage({ channel }: ServedCloud, { owner, part: partId }: World): Promise<void> {
  const samples = new Uint8Array(12 * 8 * 3).fill(90);
  await client(DataSyncService, await channel(owner)).dataCaptureUpload({
    metadata: {
      partId,
      componentType: "rdk:component:camera",
      componentName: "eye",
      methodName: "GetImages",
      type: DataType.BINARY_SENSOR,
      fileExtension: ".png",
    },
    sensorContents: [{
      metadata: {},
      data: { case: "binary", value: encodePng({ width: 12, height: 8, channels: 3, samples }) },
    }],
  });
}

const STEPS: readonly KeyboardStep[] = [
  ["signs in", async ({ served, world, watched: { page } }) => {
    await page.goto(served.url);
    await press(page, button(page, "Use an API key"));
    await type(page, page.getByLabel("Key id"), world.owner.id);
    await type(page, page.getByLabel("Key", { exact: true }), world.owner.key);
    await page.keyboard.press("Enter");
    await page.getByRole("row", { name: /rover/ }).waitFor();
    await assertFocused(page);
  }],
  ["creates a machine", async ({ watched: { page }, name }) => {
    await press(page, button(page, "New machine…"));
    await type(page, page.getByRole("form", { name: "New machine" }).getByLabel("Name"), name);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await assertFocused(page);
  }],
  ["edits its configuration, and restores it from its history", async ({ watched: { page } }) => {
    await press(page, page.getByRole("link", { name: "Configuration", exact: true }));
    await tabTo(page, page.getByRole("textbox", { name: "Configuration" }));
    await page.keyboard.press("Control+A");
    await page.keyboard.insertText('{"components": []}');
    await page.keyboard.press("Escape");
    await press(page, button(page, "Save"));
    await page.getByRole("status").getByText(/^Saved/).waitFor();
    await assertFocused(page);
    await press(page, button(page, "History"));
    const entries = page.getByRole("region", { name: "History" }).getByRole("button", { name: /changed by/ });
    await press(page, entries.first());
    await press(page, button(page, "Restore this version"));
    await page.getByRole("status").getByText(/^The former configuration is back/).waitFor();
    await assertFocused(page);
  }],
  ["fills in a rollout, leaves it, and starts another", async ({ watched: { page }, name }) => {
    await press(page, page.getByRole("link", { name: "Rollouts" }));
    await press(page, button(page, "New rollout…"));
    const form = page.getByRole("form", { name: "New rollout" });
    await type(page, form.getByLabel("Revision or tag"), "1");
    page.once("dialog", (dialog) => void dialog.accept());
    await press(page, button(page, "New rollout…"));
    await form.waitFor({ state: "detached" });
    await assertFocused(page);
    await press(page, button(page, "New rollout…"));
    await type(page, form.getByLabel("Revision or tag"), "2");
    await type(page, form.getByLabel("Name", { exact: true }), name);
    await press(page, form.getByRole("button", { name: "Start" }));
    await page.getByRole("heading", { name }).waitFor();
    await assertFocused(page);
    await press(page, button(page, "Abort…"));
    await press(page, button(page, "Take it back everywhere"));
    await page.getByRole("status").getByText("aborted").first().waitFor();
    await assertFocused(page);
  }],
  ["labels an image, and comes back to it in the list", async ({ watched: { page }, name }) => {
    await press(page, page.getByRole("link", { name: "Data", exact: true }));
    const cell = page.getByRole("list", { name: "Images" }).getByRole("button");
    await press(page, cell);
    const boxes = page.getByRole("region", { name: "Boxes" });
    await type(page, boxes.getByLabel("Label of new boxes"), name);
    await page.keyboard.press("Escape");
    await press(page, button(page, "Add a box"));
    await boxes.getByTitle(name, { exact: true }).waitFor();
    await assertFocused(page);
    await type(page, boxes.getByLabel(`right side of ${name}, %`), "90");
    await page.keyboard.press("Enter");
    await type(page, page.getByLabel("Another tag"), name);
    await page.keyboard.press("Enter");
    await button(page, new RegExp(name)).first().waitFor();
    await press(page, button(page, `Delete the box ${name}`));
    await boxes.getByTitle(name, { exact: true }).waitFor({ state: "detached" });
    await assertFocused(page);
    await tabTo(page, button(page, "Back to the images"));
    await page.keyboard.press("Escape");
    await cell.waitFor();
    await until(() => cell.evaluate((one) => one === one.ownerDocument.activeElement));
  }],
  ["chooses whose logs it reads", async ({ watched: { page }, name }) => {
    await press(page, page.getByRole("navigation", { name: "Fleet" }).getByRole("link", { name: "Logs" }));
    await press(page, page.getByText("All machines", { exact: true }).first());
    await type(page, page.getByPlaceholder("Name or id"), name);
    await tabTo(page, page.getByLabel(name, { exact: true }));
    await page.keyboard.press("Space");
    await page.getByText(/^1 of \d+ machines$/).waitFor();
    await page.keyboard.press("Escape");
    await page.getByPlaceholder("Name or id").waitFor({ state: "hidden" });
    await assertFocused(page);
    await page.keyboard.press("Enter");
    await page.getByPlaceholder("Name or id").waitFor();
    await page.getByRole("heading", { name: "Logs" }).click();
    await page.getByPlaceholder("Name or id").waitFor({ state: "hidden" });
  }],
  ["invites a person, and withdraws the invitation", async ({ watched: { page }, name }) => {
    await press(page, page.getByRole("link", { name: "People" }));
    const invite = page.getByRole("form", { name: "Invite" });
    await type(page, invite.getByLabel("E-mail"), `${name}@example.com`);
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Link" }).waitFor();
    await assertFocused(page);
    await press(page, button(page, "Copy the link"));
    await press(page, button(page, `Withdraw the invitation of ${name}@example.com`));
    await page.getByRole("row", { name: new RegExp(`${name}@example.com`) }).waitFor({ state: "detached" });
    await assertFocused(page);
  }],
  ["signs out", async ({ watched: { page, foreign, errors } }) => {
    await press(page, button(page, "Sign out"));
    await page.getByRole("heading", { name: /Sign in/ }).waitFor();
    await assertFocused(page);
    assertEquals([foreign, errors], [[], []]);
  }],
];

needingTest(
  "the fleet's page by keyboard alone in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const world = await newWorld(store);
        await withCloud(database, async (served) => {
          await captureImage(served, world);
          const owner = await served.app(world.owner);
          const { fragment } = await owner.createFragment({
            name: "drive",
            organizationId: world.organization,
            config: {},
          });
          await owner.updateFragment({ id: fragment!.id, name: "drive", config: { components: [] } });
          // At the revision before, so that a rollout has something to change.
          const robotConfig = { fragments: [{ id: fragment!.id, version: "1" }] };
          await owner.updateRobotPart({ id: world.part, name: "rover-main", robotConfig });
          for (const [width, height] of SCREENS) {
            const watched = await openPage(browser, served.url, { width, height });
            const shared = { served, world, browser, watched, name: `walk${width}` };
            await runPageSteps(t, STEPS, shared, `, ${width} × ${height}`);
            await watched.page.context().close();
          }
        }, { page: builtPage(new DenoHost(), FLEET_PAGE) });
      });
    } finally {
      await browser.close();
    }
  },
);
