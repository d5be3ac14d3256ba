/**
 * What a person has typed on the fleet's page and not saved, in a real browser: it outlives the end of the session, and
 * overwrites nothing that somebody else has saved meanwhile.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { invitationPath, Invitations } from "../../lib/cloud/accounts/invitations.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { within } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, violations } from "./browser.ts";
import { signInByKey } from "./fleet_steps.ts";

interface UnsavedShared {
  readonly served: ServedCloud;
  readonly world: World;
  readonly browser: Browser;
  /** Of Ann, an owner with an account. */
  readonly page: Page;
}

type UnsavedStep = readonly [name: string, run: (shared: UnsavedShared) => Promise<void>];

const QUESTION_MS = 30_000;
const PASSWORD = "correct horse battery";
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const editor = (page: Page) => page.getByRole("textbox", { name: "Configuration" });
const configuration = ({ served, world }: UnsavedShared) =>
  `${served.url}/#/machine/${world.machine}/configuration/${world.part}`;

/** Puts a text in place of that of the editor. */
async function write(page: Page, text: string): Promise<void> {
  await editor(page).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

/** Answers the next question of the page; resolves with its text. */
function nextDialog(page: Page, answer: "accept" | "dismiss", way = "the page"): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  page.once("dialog", (dialog) => {
    void dialog[answer]();
    resolve(dialog.message());
  });
  return within(`a question on leaving by ${way}`, promise, QUESTION_MS);
}

function configOf(note: string): string {
  return JSON.stringify({ components: [{ name: note, api: "rdk:component:generic", model: "fake" }] });
}

async function savedBy({ served: { app }, world }: UnsavedShared): Promise<string> {
  return (await (await app(world.owner)).getRobotPart({ id: world.part })).configJson;
}

const STEPS: readonly UnsavedStep[] = [
  ["a session that ends under a form leaves the form as it was", async (shared) => {
    const { served: { store }, page } = shared;
    await page.goto(configuration(shared));
    await editor(page).waitFor();
    await write(page, configOf("mine"));
    await store.transaction((sql) => sql.query("DELETE FROM account_sessions"));
    await page.getByText("The session has ended. Sign in again to go on where you were.").waitFor();
    // Nothing of the fleet is to be seen, or reached by keyboard, until then.
    assertEquals(await editor(page).count(), 0);
    assertEquals(await violations(page), []);
    await page.getByLabel("E-mail").fill("ann@example.com");
    await page.getByLabel("Password").fill(PASSWORD);
    await button(page, "Sign in").click();
    await editor(page).getByText("mine").waitFor();
    await button(page, "Save").click();
    await page.getByText("Saved. The machine takes it over").waitFor();
    assertStringIncludes(await savedBy(shared), "mine");
  }],
  ["somebody else signs in: nothing of the former form is there", async (shared) => {
    const { served, world, browser } = shared;
    const key = await served.store.transaction((sql) =>
      sql.query<{ hash: string }>("SELECT hash FROM api_keys")
    );
    const other = await openPage(browser, served.url);
    await other.page.goto(configuration(shared));
    await signInByKey(other.page, world.owner);
    await editor(other.page).waitFor();
    await write(other.page, configOf("of the owner"));
    await served.store.transaction((sql) =>
      sql.query("UPDATE api_keys SET hash = 'x' WHERE id = ?", world.owner.id)
    );
    await other.page.getByText("The control plane no longer takes this key. Sign in again").waitFor();
    await signInByKey(other.page, world.operator);
    await other.page.getByText("Read only").waitFor();
    await editor(other.page).getByText("mine").waitFor();
    assertEquals(await editor(other.page).getByText("of the owner").count(), 0);
    await other.page.context().close();
    await served.store.transaction((sql) =>
      sql.query("UPDATE api_keys SET hash = ? WHERE id = ?", key[0].hash, world.owner.id)
    );
  }],
  ["of two people at one text the second sees what the first has saved", async (shared) => {
    const { served, world, page } = shared;
    await page.goto(configuration(shared));
    await editor(page).getByText("mine").waitFor();
    await write(page, configOf("second"));
    const robotConfig = JSON.parse(configOf("first"));
    await (await served.app(world.owner)).updateRobotPart({
      id: world.part,
      name: "rover-main",
      robotConfig,
    });
    await button(page, "Save").click();
    await page.getByRole("alert").getByText("after you last read it").waitFor();
    assertStringIncludes(await savedBy(shared), "first");
    await button(page, "Read it again").click();
    await page.getByRole("status").getByText("Somebody else has saved another text meanwhile.").waitFor();
    await page.getByText("first").first().waitFor();
    assertEquals(await violations(page), []);
    await button(page, "Save").click();
    await page.getByText("Saved. The machine takes it over").waitFor();
    assertStringIncludes(await savedBy(shared), "second");
  }],
  ["what is typed while a text is saved stays, and a former text replaces none unasked", async (shared) => {
    const { page } = shared;
    const isSaved = Promise.withResolvers<void>();
    await page.route("**/UpdateRobotPart", async (route) => {
      await isSaved.promise;
      await route.continue();
    });
    await write(page, configOf("before"));
    await button(page, "Save").click();
    await button(page, "Checking…").waitFor();
    await write(page, configOf("meanwhile"));
    isSaved.resolve();
    await page.getByText("Saved. The machine takes it over").waitFor();
    await editor(page).getByText("meanwhile").waitFor();
    assertStringIncludes(await savedBy(shared), "before");
    await page.unroute("**/UpdateRobotPart");

    await button(page, "History").click();
    await page.getByRole("button", { name: /^until/ }).first().click();
    const restore = page.getByRole("button", { name: /this (one|version|configuration)/ });
    const stays = nextDialog(page, "dismiss", "a former text");
    await restore.click();
    assertEquals(await stays, "What you have typed here is not saved. Leave it?");
    assertStringIncludes(await savedBy(shared), "before");
    const goes = nextDialog(page, "accept", "a former text");
    await restore.click();
    await goes;
    await page.getByText("The former configuration is back").waitFor();
    await editor(page).getByText("second").waitFor();
    assertEquals(await button(page, "Save").isEnabled(), false);
  }],
  ["a form that is left with typed text asks first, by every way out", async (shared) => {
    const { page } = shared;
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("region", { name: /^Part / }).waitFor();
    await page.getByRole("link", { name: "Configuration" }).click();
    await editor(page).getByText("second").waitFor();
    await write(page, configOf("third"));
    const here = page.url();
    const ways: readonly (readonly [string, () => Promise<unknown>])[] = [
      ["a link", () => page.getByRole("link", { name: "Rollouts" }).press("Enter")],
      ["back", () => page.evaluate("history.back()")],
      ["another address", () => page.evaluate("location.hash = '#/people'")],
      ["signing out", () => button(page, "Sign out").press("Enter")],
    ];
    for (const [way, leave] of ways) {
      const asked = nextDialog(page, "dismiss", way);
      await leave();
      assertEquals(await asked, "What you have typed here is not saved. Leave it?", way);
      await page.waitForURL(here);
      await editor(page).getByText("third").waitFor();
    }
    const unload = nextDialog(page, "dismiss", "a reload");
    await page.evaluate("setTimeout(() => location.reload())");
    assertEquals(await unload, "");
    await editor(page).getByText("third").waitFor();

    const left = nextDialog(page, "accept");
    await page.getByRole("link", { name: "Rollouts" }).press("Enter");
    await left;
    await page.getByRole("heading", { name: "Rollouts" }).waitFor();
    await page.goBack();
    // What was left is gone, and nothing is asked any more.
    await editor(page).getByText("second").waitFor();
    await page.getByRole("link", { name: "People" }).press("Enter");
    await page.getByRole("heading", { name: "People" }).waitFor();
  }],
  ["a form that is sent goes on without a question, and one that is closed asks", async (shared) => {
    const { page } = shared;
    await page.getByRole("link", { name: "Machines", exact: true }).first().press("Enter");
    await button(page, "New machine…").press("Enter");
    await page.getByRole("form", { name: "New machine" }).getByLabel("Name").fill("cart");
    const asked = nextDialog(page, "dismiss");
    await button(page, "New machine…").press("Enter");
    await asked;
    await button(page, "Create").press("Enter");
    await page.getByRole("heading", { name: "cart", exact: true }).waitFor();
    await page.getByRole("link", { name: "People" }).press("Enter");
    await page.getByRole("heading", { name: "People" }).waitFor();
  }],
  [
    "the text of a fragment stays from tab to tab, and shows what it becomes before it is saved",
    async (shared) => {
      const { served, world, page } = shared;
      const app = await served.app(world.owner);
      const { fragment } = await app.createFragment({
        name: "arm",
        organizationId: world.organization,
        config: JSON.parse(configOf("saved")),
      });
      const robotConfig = { fragments: [fragment!.id] };
      await app.updateRobotPart({ id: world.part, name: "rover-main", robotConfig });
      await page.goto(`${served.url}/#/fragments/${fragment!.id}`);
      const text = page.getByLabel("Text of the fragment");
      await text.click();
      await page.keyboard.press("Control+A");
      await page.keyboard.insertText(configOf("unsaved"));
      await page.getByRole("link", { name: "On a machine" }).press("Enter");
      await page.getByLabel("Machine", { exact: true }).selectOption(world.part);
      await page.getByText("With the text of the fragment that is not saved yet.").waitFor();
      await page.getByLabel("What it becomes", { exact: true }).getByText("unsaved").waitFor();
      assertEquals(await violations(page), []);
      const asked = nextDialog(page, "dismiss");
      await page.getByRole("link", { name: "Fragments" }).first().press("Enter");
      await asked;
      await page.getByRole("link", { name: "Text", exact: true }).press("Enter");
      await text.getByText("unsaved").waitFor();
      await button(page, "Save").press("Enter");
      await page.getByRole("status").getByText(/^Saved\./).waitFor();
      await page.getByRole("link", { name: "Fragments" }).first().press("Enter");
      await page.getByRole("link", { name: "arm" }).waitFor();
    },
  ],
];

needingTest(
  "unsaved text on the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const world = await newWorld(store);
        await withCloud(database, async (served) => {
          const grant = { role: "owner", kind: "organization", resourceId: world.organization } as const;
          const { opener } = await store.transaction((sql) =>
            new Invitations(sql).invite(world.organization, "ann@example.com", [grant], Date.now())
          );
          const { page, foreign } = await openPage(browser, served.url);
          await page.goto(`${served.url}${invitationPath(opener)}`);
          await page.getByLabel("Your name").fill("Ann");
          await page.getByLabel("Password").fill(PASSWORD);
          await button(page, "Accept").click();
          await page.getByText("ann@example.com").waitFor();
          const shared = { served, world, browser, page };
          await runPageSteps(t, STEPS, shared);
          assertEquals(foreign, []);
        }, { page: builtPage(new DenoHost(), FLEET_PAGE) });
      });
    } finally {
      await browser.close();
    }
  },
);
