/** Passkeys in a real browser, with the authenticator that Chromium plays. */

import { assertEquals } from "@std/assert";
import type { Browser, CDPSession, Page } from "playwright-core";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { invitationPath, Invitations } from "../../lib/cloud/accounts/invitations.ts";
import { Addresses } from "../../lib/cloud/addresses/addresses.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, withCloud } from "../cloud/world.ts";
import { freePort } from "../support/free_port.ts";
import { needingTest } from "../support/needing.ts";
import { browserWithPage, launch, openPage, type PageLook, violations } from "./browser.ts";

const PASSWORD = "correct horse battery";
const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });

/** A device with a fingerprint reader that recognizes its person. */
async function addAuthenticator(page: Page): Promise<{ session: CDPSession; authenticatorId: string }> {
  const session = await page.context().newCDPSession(page);
  await session.send("WebAuthn.enable");
  const { authenticatorId } = await session.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return { session, authenticatorId };
}

/** From an invitation to a passkey, out, and in again by it. */
async function usePasskeys(browser: Browser, at: string, link: string): Promise<void> {
  const { page, foreign, errors } = await openPage(browser, at);
  const { session, authenticatorId } = await addAuthenticator(page);
  await page.goto(`${at}${link}`);
  await page.getByLabel("Your name").fill("Ann");
  await page.getByLabel("Password").fill(PASSWORD);
  await button(page, "Accept").click();
  await page.getByText("ann@example.com").click();

  await page.getByLabel("Name of the new passkey").fill("Laptop");
  const form = page.getByRole("form", { name: "New passkey" });
  await form.getByLabel("Present password").fill("a wrong one");
  await button(page, "Add a passkey").click();
  await page.getByRole("alert").getByText(/password is wrong/).waitFor();
  await form.getByLabel("Present password").fill(PASSWORD);
  await button(page, "Add a passkey").click();
  const row = page.getByRole("row", { name: /Laptop/ });
  await row.getByText("never").waitFor();
  assertEquals(await violations(page), []);
  const { credentials } = await session.send("WebAuthn.getCredentials", { authenticatorId });
  assertEquals(credentials.map(({ rpId, isResidentCredential }) => [rpId, isResidentCredential]), [
    ["localhost", true],
  ]);

  // A device gets one passkey of an account.
  await page.getByLabel("Name of the new passkey").fill("Again");
  await form.getByLabel("Present password").fill(PASSWORD);
  await button(page, "Add a passkey").click();
  await page.getByRole("alert").getByText("this device has a passkey of the account already").waitFor();

  // In again: without an address, and with one; the keyboard is enough.
  for (const email of ["", "ann@example.com"]) {
    await button(page, "Sign out").click();
    await button(page, "Sign in with a passkey").waitFor();
    assertEquals(await violations(page), []);
    await page.getByLabel("E-mail").fill(email);
    await button(page, "Sign in with a passkey").focus();
    await page.keyboard.press("Enter");
    await button(page, "Add a passkey").waitFor();
    await row.getByText("never").waitFor({ state: "detached" });
  }

  // Somebody whom the device does not recognize, and an address without a passkey.
  await button(page, "Sign out").click();
  await session.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
  await button(page, "Sign in with a passkey").click();
  await page.getByRole("alert").getByText(/^the browser has used no passkey/).waitFor();
  await session.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true });
  await button(page, "Sign in with a passkey").click();
  await button(page, "Add a passkey").waitFor();

  // A removed passkey opens nothing any more.
  page.once("dialog", (dialog) => void dialog.accept());
  await button(page, "Remove the passkey Laptop").click();
  await row.waitFor({ state: "detached" });
  await button(page, "Sign out").click();
  await button(page, "Sign in with a passkey").click();
  await page.getByRole("alert").getByText(/no account here has this passkey/).waitFor();
  assertEquals(foreign, []);
  assertEquals(errors, []);
  await page.context().close();
}

/** Where passkeys cannot be used, the page says so, and offers none. */
async function seeNone(browser: Browser, at: string, words: RegExp, look: PageLook): Promise<void> {
  const { page, errors } = await openPage(browser, at, look);
  await page.goto(`${at}/#/account`);
  await page.getByLabel("E-mail").fill("ann@example.com");
  await page.getByLabel("Password").fill(PASSWORD);
  await button(page, "Sign in").click();
  await page.getByText(words).waitFor();
  assertEquals(await button(page, "Add a passkey").count(), 0);
  assertEquals(await violations(page), []);
  await button(page, "Sign out").click();
  await button(page, "Use an API key").waitFor();
  assertEquals(await button(page, "Sign in with a passkey").count(), 0);
  assertEquals(errors, []);
  await page.context().close();
}

needingTest(
  "a person adds a passkey and signs in by it in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium) => {
    const browser = await launch(chromium);
    const port = freePort();
    const publicUrl = `http://localhost:${port}`;
    const page = builtPage(new DenoHost(), FLEET_PAGE);
    try {
      await withDatabase("sqlite", async (database) => {
        await withCloud(database, async ({ store }) => {
          const { organization } = await newWorld(store);
          const grant = { role: "operator", kind: "organization", resourceId: organization } as const;
          const nowMs = new SystemClock().nowMs();
          const { opener } = await store.transaction((sql) =>
            new Invitations(sql).invite(organization, "ann@example.com", [grant], nowMs)
          );
          await usePasskeys(browser, publicUrl, invitationPath(opener));
          const narrow = { width: 390, height: 844, dark: true };
          await seeNone(browser, `http://127.0.0.1:${port}`, /^passkeys work at http:\/\/localhost/, narrow);
        }, { port, page, addresses: new Addresses([publicUrl]) });
        const byAddress = `http://127.0.0.1:${port}`;
        await withCloud(database, async () => {
          await seeNone(browser, byAddress, /bind passkeys to a host name, and the public address/, {});
        }, { port, page, addresses: new Addresses([byAddress]) });
      });
    } finally {
      await browser.close();
    }
  },
);
