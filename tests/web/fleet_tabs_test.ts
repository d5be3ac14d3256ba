/** Several tabs of one browser, which share the cookie of a person's session, in a real browser. */

import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { invitationPath, Invitations } from "../../lib/cloud/accounts/invitations.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, type ServedCloud, withCloud } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { browserWithPage, launch, openPage, runPageSteps } from "./browser.ts";

interface TabsShared {
  readonly served: ServedCloud;
  /** Two tabs of the same browser. */
  readonly page: Page;
  readonly second: Page;
}

type TabsStep = readonly [name: string, run: (shared: TabsShared) => Promise<void>];

const PASSWORD = "correct horse battery";
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const machine = (page: Page) => page.getByRole("link", { name: "rover" });
const signInForm = (page: Page) => page.getByRole("heading", { name: /^Sign in/ });

async function signIn(page: Page, email: string): Promise<void> {
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password").fill(PASSWORD);
  await button(page, "Sign in").click();
  await page.getByRole("link", { name: email }).waitFor();
}

async function signOut(page: Page): Promise<void> {
  await button(page, "Sign out").click();
  await signInForm(page).waitFor();
}

/** The persons of the sessions that there are. */
async function people({ store }: ServedCloud): Promise<string[]> {
  const rows = await store.query<{ email: string }>(
    "SELECT a.email FROM account_sessions s JOIN accounts a ON a.id = s.account_id ORDER BY a.email",
  );
  return rows.map(({ email }) => email);
}

/** What happens while a tab asks the control plane nothing, as one behind another tab does. */
async function whileHidden(page: Page, happens: () => Promise<void>): Promise<void> {
  const asked = /\/(viam|svc)\.app\./;
  await page.route(asked, (route) => route.abort());
  await happens();
  await page.unroute(asked);
  await page.getByRole("link", { name: "Locations" }).click();
}

/** Whether a tab still gets answers. */
async function readsOn(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Locations" }).click();
  await page.getByRole("cell", { name: "hall", exact: true }).waitFor();
  await page.getByRole("link", { name: "Machines", exact: true }).click();
  await machine(page).waitFor();
}

const STEPS: readonly TabsStep[] = [
  ["who signs out and in again in a tab goes on in the other one", async ({ served, page, second }) => {
    await signIn(page, "ann@example.com");
    await second.reload();
    await machine(second).waitFor();
    await whileHidden(second, async () => {
      await signOut(page);
      await signIn(page, "ann@example.com");
    });
    await readsOn(second);
    await readsOn(page);
    assertEquals(await people(served), ["ann@example.com"]);
  }],
  ["another password, set in a tab, ends neither tab", async ({ served, page, second }) => {
    await page.getByRole("link", { name: "ann@example.com" }).click();
    await whileHidden(second, async () => {
      await page.getByLabel("Present password").fill(PASSWORD);
      await page.getByLabel("New password").fill(PASSWORD);
      await button(page, "Change").click();
      await page.getByText("The password is changed.").waitFor();
    });
    await readsOn(second);
    await readsOn(page);
    assertEquals(await people(served), ["ann@example.com"]);
  }],
  ["a tab of the former person leaves the session of the next one alone", async (shared) => {
    const { served, page, second } = shared;
    await whileHidden(second, async () => {
      await signOut(page);
      await signIn(page, "bob@example.com");
    });
    await second.getByRole("alert").getByText(/bob@example.com has signed in in another tab/).waitFor();
    await readsOn(page);
    assertEquals(await people(served), ["bob@example.com"]);
    await second.reload();
    await second.getByRole("link", { name: "bob@example.com" }).waitFor();
  }],
  ["a session that has ended for all tabs ends in each", async ({ served, page, second }) => {
    await served.store.transaction((sql) => sql.query("DELETE FROM account_sessions"));
    for (const one of [page, second]) {
      await one.getByText("The session has ended. Sign in again to go on where you were.").waitFor();
    }
  }],
];

needingTest("tabs of one browser in Chromium", await browserWithPage(FLEET_PAGE), async (chromium, t) => {
  const browser = await launch(chromium);
  try {
    await withDatabase("sqlite", async (database) => {
      const store = await database.open();
      const world = await newWorld(store);
      await withCloud(database, async (served) => {
        const grant = { role: "viewer", kind: "organization", resourceId: world.organization } as const;
        const { page, foreign } = await openPage(browser, served.url);
        for (const person of ["ann", "bob"]) {
          const email = `${person}@example.com`;
          const { opener } = await store.transaction((sql) =>
            new Invitations(sql).invite(world.organization, email, [grant], Date.now())
          );
          await page.goto(`${served.url}${invitationPath(opener)}`);
          await page.getByLabel("Your name").fill(person);
          await page.getByLabel("Password").fill(PASSWORD);
          await button(page, "Accept").click();
          await page.getByRole("link", { name: email }).waitFor();
          await signOut(page);
        }
        const second = await page.context().newPage();
        await second.goto(served.url);
        await runPageSteps(t, STEPS, { served, page, second });
        assertEquals(foreign, []);
      }, { page: builtPage(new DenoHost(), FLEET_PAGE) });
    });
  } finally {
    await browser.close();
  }
});
