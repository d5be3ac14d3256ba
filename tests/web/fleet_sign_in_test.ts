/** Sign-in at a real identity provider, through its own page, in a real browser. */

import { assert, assertEquals } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Secret } from "../../lib/base/secret.ts";
import { invitationPath, Invitations } from "../../lib/cloud/accounts/invitations.ts";
import { IdentityProvider, RETURN_PAGE } from "../../lib/cloud/accounts/provider.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, withCloud } from "../cloud/world.ts";
import { freePort } from "../support/free_port.ts";
import { needingTest } from "../support/needing.ts";
import { CLIENT_ID, CLIENT_SECRET, type ServedProvider, serveProvider } from "../support/oidc_provider.ts";
import { browserWithPage, launch, openPage, violations } from "./browser.ts";

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });

/** Fills in the provider's own forms. */
async function agree(page: Page, { issuer }: ServedProvider, login: string): Promise<void> {
  await page.waitForURL(`${issuer}/**`);
  await page.getByPlaceholder("Enter any login").fill(login);
  await page.getByPlaceholder("and password").fill("any");
  await button(page, "Sign-in").click();
  await button(page, "Continue").click();
}

/** From an invitation to the page and out, and in again; the provider is another site than the page. */
async function signIn(browser: Browser, at: string, link: string, provider: ServedProvider): Promise<void> {
  const { page, foreign, errors } = await openPage(browser, at);
  await page.goto(`${at}${link}`);
  await page.getByLabel("Your name").fill("Ann");
  await button(page, "Accept with Example").waitFor();
  assertEquals(await violations(page), []);
  await button(page, "Accept with Example").click();
  await agree(page, provider, "ann@example.com");
  await page.getByText("ann@example.com").waitFor();
  // The code of the provider is in no address that stays.
  assertEquals(page.url(), `${at}/#/`);
  await page.getByText("ann@example.com").click();
  await page.getByText("The account is linked, and has no password.").waitFor();
  assertEquals(await violations(page), []);

  await button(page, "Sign out").click();
  await button(page, "Sign in with Example").waitFor();
  assertEquals(await violations(page), []);
  // The keyboard is enough, and the person returns to where the session ended.
  await button(page, "Sign in with Example").focus();
  await page.keyboard.press("Enter");
  await page.getByText("The account is linked, and has no password.").waitFor();
  assertEquals(page.url(), `${at}/#/account`);
  // The provider's own page wants a font.
  const own = foreign.filter((url) =>
    !url.startsWith(provider.issuer) && !url.includes("/fonts.googleapis.com/")
  );
  assertEquals(own, []);
  assertEquals(errors, []);
  await page.context().close();

  // A person of the provider without an account is refused, and so is an answer that this browser did not ask for.
  const other = await openPage(browser, at, { width: 390, height: 844, dark: true });
  await other.page.goto(at);
  await button(other.page, "Sign in with Example").click();
  await agree(other.page, provider, "bob@example.com");
  await other.page.getByRole("alert").getByText("bob@example.com of Example has no account here").waitFor();
  assertEquals(await violations(other.page), []);
  await other.page.goto(`${at}${RETURN_PAGE}?code=1&state=2`);
  await other.page.getByRole("alert").getByText(/has not begun this sign-in/).waitFor();
  assertEquals(other.page.url(), `${at}/#/`);
  await provider.close();
  await other.page.reload();
  await button(other.page, "Sign in with Example").waitFor();
  assert(await button(other.page, "Sign in").first().isEnabled());
  await other.page.context().close();
}

needingTest(
  "a person signs in through the provider's own page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium) => {
    const browser = await launch(chromium);
    const port = freePort();
    // The provider is at an address, the page at a name: two sites, as in earnest.
    const publicUrl = `http://localhost:${port}`;
    const served = await serveProvider(`${publicUrl}${RETURN_PAGE}`);
    const options = {
      issuer: served.issuer,
      clientId: CLIENT_ID,
      clientSecret: new Secret(CLIENT_SECRET),
      name: "Example",
      publicUrl,
    };
    try {
      await withDatabase("sqlite", async (database) => {
        await withCloud(database, async ({ store }) => {
          const { organization } = await newWorld(store);
          const grant = { role: "operator", kind: "organization", resourceId: organization } as const;
          const nowMs = new SystemClock().nowMs();
          const { opener } = await store.transaction((sql) =>
            new Invitations(sql).invite(organization, "ann@example.com", [grant], nowMs)
          );
          await signIn(browser, publicUrl, invitationPath(opener), served);
        }, {
          port,
          page: builtPage(new DenoHost(), FLEET_PAGE),
          provider: new IdentityProvider(options, new SystemClock()),
        });
      });
    } finally {
      await browser.close();
      await served.close().catch(() => {});
    }
  },
);
