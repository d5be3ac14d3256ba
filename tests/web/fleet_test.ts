/** The fleet's page in a real browser, against a control plane and a machine of it, a process each. */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { Secret } from "../../lib/base/secret.ts";
import { ROLES } from "../../lib/cloud/access/keys.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { VERSION } from "../../cli/version.ts";
import { type ManagedMachine, withManagedMachine } from "../cloud/managed.ts";
import { svcCloud } from "../cloud/program.ts";
import { countedMachines } from "../../lib/web/fleet/machines/machine_limit.ts";
import { needingTest } from "../support/needing.ts";
import { cardOf } from "./page_steps.ts";
import { browserWithPage, launch, openPage, runPageSteps, violations, type WatchedPage } from "./browser.ts";
import { assertTextOnly, MARKUP, signInByKey } from "./fleet_steps.ts";

const MOTOR = { name: "motor1", api: "rdk:component:motor", model: "fake", attributes: { max_rpm: 100 } };

interface Key {
  readonly id: string;
  readonly key: string;
}

interface FleetShared {
  readonly managed: ManagedMachine;
  readonly browser: Browser;
  readonly watched: WatchedPage;
}

type FleetStep = readonly [name: string, run: (shared: FleetShared) => Promise<void>];

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });
const editor = (page: Page) => page.getByRole("textbox", { name: "Configuration" });

/** Replaces the text of the editor. */
async function write(page: Page, config: object | string): Promise<void> {
  await editor(page).click();
  await page.keyboard.press("Control+A");
  // The editor closes brackets that are typed, and takes pasted text as it is.
  await page.keyboard.insertText(typeof config === "string" ? config : JSON.stringify(config, null, 2));
}

/** As when the network swallows everything of the present connection, and takes a new one. */
const SILENT_CONNECTION = `{
  const [channel, connection] = [RTCDataChannel.prototype, RTCPeerConnection.prototype];
  const [send, create, fresh] = [channel.send, connection.createDataChannel, new WeakSet()];
  connection.createDataChannel = function (...all) {
    const made = create.apply(this, all);
    fresh.add(made);
    return made;
  };
  channel.send = function (...all) {
    if (fresh.has(this)) send.apply(this, all);
  };
}`;

const STEPS: readonly FleetStep[] = [
  ["nothing is readable before a person has signed in", async ({ managed, watched: { page } }) => {
    await page.goto(managed.cloud.url);
    await page.getByRole("heading", { name: /Sign in/ }).waitFor();
    assertEquals(await violations(page), []);
    await button(page, "Use an API key").click();
    assertEquals(await violations(page), []);
    await signInByKey(page, { id: managed.example.ownerKey.id, key: "wrong" });
    await page.getByRole("alert").waitFor();
    assertEquals(await page.getByRole("row").count(), 0);
    await signInByKey(page, managed.example.ownerKey);
    await page.getByRole("row", { name: /online/ }).waitFor();
    // The key is kept for this tab alone, and a reload keeps the person signed in.
    assertEquals(await page.evaluate("localStorage.getItem('svc-api-key')"), null);
    await page.reload();
    await page.getByRole("row", { name: /online/ }).waitFor();
    assertEquals(await violations(page), []);
  }],
  [
    "a machine with a hostile name is created by form, found, and told how to come online",
    async ({ managed, watched: { page } }) => {
      await button(page, "New machine…").click();
      await page.getByRole("form", { name: "New machine" }).getByLabel("Name").fill(MARKUP);
      assertEquals(await violations(page), []);
      await button(page, "Create").click();
      await page.getByRole("heading", { name: MARKUP, exact: true }).waitFor();
      assertMatch(await page.title(), /^<img src=x/);
      await button(page, "Create a key for this machine").click();
      const line = await page.locator("pre", { hasText: "install.sh" }).innerText();
      assertStringIncludes(line, `curl -fsSL ${managed.cloud.url}/install.sh | SVC_API_KEY_ID=`);
      const file = JSON.parse(await page.locator("pre", { hasText: "app_address" }).innerText());
      assertEquals(file.cloud.app_address, managed.cloud.url);
      const answer = await fetch(`${managed.cloud.url}/api/json1/config?id=${file.cloud.id}`, {
        headers: { key_id: file.cloud.api_key.id, key: file.cloud.api_key.key },
      });
      assertEquals([answer.status, (await answer.json()).cloud.id], [200, file.cloud.id]);
      assertEquals(await violations(page), []);
      await page.getByRole("link", { name: "Machines", exact: true }).first().click();
      await page.getByRole("row", { name: /never seen/ }).getByText(MARKUP).waitFor();
      await page.getByRole("searchbox", { name: "Search" }).fill("ONERROR");
      await page.getByText("1 of 2 machines, 1 online").waitFor();
      await page.getByRole("searchbox", { name: "Search" }).fill("");
      await page.getByRole("combobox", { name: "State" }).selectOption("online");
      await page.getByText("1 of 2 machines, 1 online").waitFor();
      await assertTextOnly(page);
    },
  ],
  [
    "the list tells what a machine runs and whether that works, and finds it by tag and version",
    async ({ managed, watched: { page } }) => {
      await svcCloud("machine", "tag", managed.example.machineId, "canary", ...managed.data);
      const row = page.getByRole("row", { name: /online/ });
      await row.getByText("all work").waitFor();
      await row.getByText("applied").waitFor();
      await row.getByText(VERSION).waitFor();
      await row.getByText("canary").waitFor();
      const search = page.getByRole("searchbox", { name: "Search" });
      const state = page.getByRole("combobox", { name: "State" });
      await state.selectOption("");
      await page.getByText("2 of 2 machines, 1 online").waitFor();
      for (const words of ["CANARY", `${VERSION} canary`]) {
        await search.fill(words);
        await page.getByText("1 of 2 machines, 1 online").waitFor();
      }
      await search.fill("");
      await state.selectOption("unhealthy");
      await page.getByText("0 of 2 machines, 1 online").waitFor();
      await state.selectOption("online");
      assertEquals(await violations(page), []);
      await row.getByRole("link").click();
      const part = page.getByRole("region", { name: /^Part / });
      await part.getByText(VERSION, { exact: true }).waitFor();
      await part.getByText("all work").waitFor();
      assertEquals(await violations(page), []);
      await page.getByRole("link", { name: "Machines", exact: true }).first().click();
    },
  ],
  ["a configuration is refused for its mistakes, compared and saved", async ({ watched: { page } }) => {
    await page.getByRole("row", { name: /online/ }).getByRole("link").click();
    await page.getByRole("link", { name: "Configuration" }).click();
    await editor(page).getByText("motor1").waitFor();
    assert(await button(page, "Save").isDisabled());
    await write(page, '{"components": [}');
    assert(await button(page, "Save").isDisabled());
    await write(page, { components: [{ ...MOTOR, attributes: { max_rpm: "fast" } }] });
    await button(page, "Save").click();
    await page.getByRole("alert").getByText(/max_rpm/).waitFor();
    const attributes = { device_path: "/dev/no-lidar" };
    const broken = { name: "lidar", api: "rdk:component:camera", model: "svc:lidar:rplidar", attributes };
    await write(page, { components: [MOTOR, { ...MOTOR, name: "motor2", notes: MARKUP }, broken] });
    await button(page, "Differences").click();
    await page.getByRole("textbox", { name: "Differences" }).getByText("motor2").waitFor();
    await button(page, "Save").click();
    await page.getByText("The machine takes it over when it asks next.").waitFor();
    assertEquals(await violations(page), []);
    await assertTextOnly(page);
  }],
  ["what does not work is in sight, with its reason", async ({ watched: { page } }) => {
    await page.getByRole("link", { name: "Overview" }).click();
    const part = page.getByRole("region", { name: /^Part / });
    await part.getByText("1 unhealthy").waitFor();
    await part.getByText(/lidar: .*no-lidar/).waitFor();
    assertEquals(await violations(page), []);
  }],
  ["the machine's own page drives it through the control plane", async ({ watched: { page } }) => {
    await page.getByRole("link", { name: "Look and drive" }).click();
    await button(page, /^Connection: WebRTC/).waitFor();
    // What has just been saved is there by itself.
    await page.locator("aside button.entry", { hasText: "motor2" }).waitFor();
    const card = await cardOf(page, "motor2");
    await card.getByLabel("Turns").fill("500");
    await card.getByRole("button", { name: "Go for" }).click();
    await card.getByText("moving", { exact: true }).waitFor();
    await page.getByRole("button", { name: "STOP", exact: true }).click();
    await card.getByText("at rest", { exact: true }).waitFor();
    const stopped = page.getByText("Everything was told to stop");
    await stopped.waitFor();
    assertEquals(await violations(page), []);
    await page.getByRole("link", { name: "Configuration" }).click();
    await page.getByText("This machine gets its configuration from").waitFor();
    // Over a connection that the network has swallowed, STOP takes another one.
    await stopped.waitFor({ state: "hidden" });
    await page.evaluate(SILENT_CONNECTION);
    await page.getByRole("button", { name: "STOP", exact: true }).click();
    await stopped.waitFor();
    await page.locator("header a.back").click();
    await page.getByRole("link", { name: "Look and drive" }).waitFor();
  }],
  [
    "history tells who changed what, and a version comes back; logs are followed as text",
    async ({ managed, watched: { page } }) => {
      await page.getByRole("link", { name: "Configuration" }).click();
      await button(page, "History").click();
      const history = page.getByRole("region", { name: "History" });
      await history.getByRole("button", { name: managed.example.ownerKey.id }).first().click();
      await page.getByRole("textbox", { name: "Differences of this version" }).getByText("motor2").waitFor();
      assertEquals(await violations(page), []);
      await button(page, "Restore this version").click();
      await page.getByText("The former configuration is back").waitFor();
      assertEquals(await editor(page).getByText("motor2").count(), 0);
      await page.getByRole("navigation", { name: "Views of the machine" }).getByRole("link", { name: "Logs" })
        .click();
      await page.locator(".record").first().waitFor();
      await logAsMachine(managed, MARKUP);
      await page.getByPlaceholder("Filter by text").fill("onerror");
      await page.locator(".record", { hasText: MARKUP }).first().waitFor();
      assertEquals(await violations(page), []);
      await assertTextOnly(page);
    },
  ],
  ["a person is invited, drives the machine, and is signed out from afar", personStep],
  ["a key with fewer rights sees them before it tries", async ({ managed, browser }) => {
    const { example, cloud, data } = managed;
    const operator = await newKey(data, "operator", `organization:${example.organizationId}`);
    const { page, errors } = await openPage(browser, cloud.url);
    await page.goto(`${cloud.url}/#/machine/${example.machineId}/configuration`);
    await signInByKey(page, operator);
    await page.getByText("Read only: only an owner of this machine may do this").waitFor();
    assert(await button(page, "Save").isDisabled());
    assertMatch(await button(page, "Save").getAttribute("title") ?? "", /owner/);
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByText("Bring it online").click();
    assert(await button(page, "Create a key for this machine").isDisabled());
    await page.getByRole("link", { name: "Machines", exact: true }).first().click();
    await page.getByText("2 of 2 machines, 1 online").waitFor();
    // A key of a machine alone lists it, without the name of its location.
    await button(page, "Sign out").click();
    await signInByKey(page, example.config.cloud.api_key);
    await page.getByText("1 of 1 machine, 1 online").waitFor();
    assertEquals(await violations(page), []);
    await page.getByRole("row", { name: /online/ }).getByRole("link").click();
    await page.getByRole("link", { name: "Look and drive" }).waitFor();
    assertEquals(errors, []);
    await page.context().close();
  }],
  [
    "a key of another organization sees nothing, and a revoked one ends the session",
    async ({ managed, browser }) => {
      const { example, cloud, data } = managed;
      const other = JSON.parse(await svcCloud("org", "create", "Other", ...data, "--json"));
      const stranger = await newKey(data, "owner", `organization:${other.id}`);
      const { page, errors } = await openPage(browser, cloud.url, { width: 390, height: 844, dark: true });
      await page.goto(cloud.url);
      await signInByKey(page, stranger);
      await page.getByText(/^There is no machine yet/).waitFor();
      assertEquals(await violations(page), []);
      for (const tab of ["", "/configuration", "/logs"]) {
        await page.goto(`${cloud.url}/#/machine/${example.machineId}${tab}`);
        await page.getByText(/This machine cannot be read/).waitFor();
        assertEquals(await page.getByText("motor1").count(), 0);
      }
      await page.goto(`${cloud.url}/machine?part=${example.partId}#/control`);
      await page.getByText(/This machine cannot be read/).waitFor();
      await page.goto(`${cloud.url}/`);
      await page.getByText(/^There is no machine yet/).waitFor();
      assertEquals(await page.evaluate("document.documentElement.scrollWidth"), 390);
      await svcCloud("key", "revoke", stranger.id, ...data);
      await page.getByText("The control plane no longer takes this key.").waitFor();
      assertEquals(await page.evaluate("sessionStorage.getItem('svc-api-key')"), null);
      assertEquals(errors, []);
      await page.context().close();
    },
  ],
  [
    "nothing has left the control plane, and the page has reported no error",
    ({ watched: { foreign, errors } }) => {
      assertEquals([foreign, errors], [[], []]);
      return Promise.resolve();
    },
  ],
];

async function personStep({ managed, browser, watched: { page } }: FleetShared): Promise<void> {
  const { example, cloud } = managed;
  await page.getByRole("link", { name: "Machines", exact: true }).first().click();
  await page.getByRole("link", { name: "People" }).click();
  const invite = page.getByRole("form", { name: "Invite" });
  await invite.getByLabel("E-mail").fill("guest@example.com");
  await invite.getByLabel("Role").selectOption("viewer");
  // Every role of a key can be a person's.
  const roles = await invite.getByLabel("Role").locator("option").allInnerTexts();
  assertEquals(roles.toSorted(), ROLES.toSorted());
  await button(page, "Invite").click();
  await page.getByRole("row", { name: /guest@example.com invited .* viewer of organization/ }).waitFor();
  await page.getByRole("region", { name: "Link" }).getByText(/guest@example.com/).waitFor();
  await invite.getByLabel("E-mail").fill("ann@example.com");
  await invite.getByLabel("Role").selectOption("owner");
  await button(page, "Invite").click();
  await page.getByRole("region", { name: "Link" }).getByText(/ann@example.com/).waitFor();
  const link = await page.getByRole("region", { name: "Link" }).locator("code").innerText();
  assertStringIncludes(link, `${cloud.url}/#/invitation/`);
  assertEquals(await violations(page), []);

  const ann = await openPage(browser, cloud.url);
  await ann.page.goto(link);
  await ann.page.getByText("Choose a password of at least ten characters").waitFor();
  assertEquals(await violations(ann.page), []);
  await ann.page.getByLabel("Your name").fill(MARKUP);
  await ann.page.getByLabel("Password").fill("short");
  await button(ann.page, "Accept").click();
  await ann.page.getByRole("alert").getByText(/wanted 10 to 256/).waitFor();
  await ann.page.getByLabel("Password").fill("correct horse battery");
  await button(ann.page, "Accept").click();
  await ann.page.getByRole("row", { name: /online/ }).waitFor();
  // No script reads the session, and a reload keeps the person signed in.
  assertEquals(await ann.page.evaluate("document.cookie"), "");
  assertEquals(
    await ann.page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }])"),
    "[{},{}]",
  );
  await ann.page.reload();
  await ann.page.getByRole("row", { name: /online/ }).waitFor();

  await ann.page.goto(`${cloud.url}/machine?part=${example.partId}#/control`);
  await button(ann.page, /^Connection: WebRTC/).waitFor();
  const card = await cardOf(ann.page, "motor1");
  await card.getByRole("button", { name: "Stop" }).click();
  await card.getByText("at rest", { exact: true }).waitFor();
  await button(ann.page, /^Connection/).click();
  await ann.page.getByText("with ann@example.com").waitFor();

  // Another browser, which she ends from the first one.
  const other = await openPage(browser, cloud.url, { width: 390, height: 844, dark: true });
  await other.page.goto(`${cloud.url}/#/account`);
  await other.page.getByLabel("E-mail").fill("ann@example.com");
  await other.page.getByLabel("Password").fill("wrong password");
  await button(other.page, "Sign in").click();
  await other.page.getByRole("alert").getByText(/is wrong/).waitFor();
  await other.page.getByLabel("Password").fill("correct horse battery");
  await button(other.page, "Sign in").click();
  await other.page.getByRole("heading", { name: MARKUP }).waitFor();
  await other.page.getByText("now, here").waitFor();
  assertEquals(await violations(other.page), []);
  await assertTextOnly(other.page);
  assertEquals(await other.page.evaluate("document.documentElement.scrollWidth"), 390);
  await other.page.goto(`${cloud.url}/#/people`);
  await other.page.getByRole("row", { name: /ann@example.com owner of organization/ }).waitFor();
  await ann.page.goto(`${cloud.url}/#/account`);
  await button(ann.page, "End all others").click();
  await other.page.getByText("The session has ended.").waitFor();
  // Signing out on a machine's page leaves that page, and ends the session all the same.
  await other.page.getByRole("textbox", { name: "E-mail" }).fill("ann@example.com");
  await other.page.getByLabel("Password").fill("correct horse battery");
  await button(other.page, "Sign in").click();
  await other.page.getByRole("row", { name: /ann@example.com owner of organization/ }).waitFor();
  await other.page.goto(`${cloud.url}/machine?part=${example.partId}#/control`);
  await button(other.page, /^Connection/).click();
  // What grows when the machine answers stands below: the button stays under the pointer.
  const signOut = button(other.page, "Sign out");
  const mayChange = other.page.getByText(/change its configuration/);
  await mayChange.waitFor();
  const [above, below] = await Promise.all([signOut.boundingBox(), mayChange.boundingBox()]);
  assert(above!.y + above!.height <= below!.y);
  await signOut.click();
  await other.page.getByRole("heading", { name: /Sign in/ }).waitFor();
  await other.page.waitForURL(`${cloud.url}/`);
  await other.page.getByRole("heading", { name: /Sign in/ }).waitFor();

  // She is signed out once the control plane has answered, so leaving the page keeps no session alive.
  await ann.page.route("**/account/sign-out", async (asked) => {
    await button(ann.page, "Signing out…").waitFor();
    await asked.continue();
  });
  await button(ann.page, "Sign out").click();
  await ann.page.getByRole("heading", { name: /Sign in/ }).waitFor();
  await ann.page.reload();
  await ann.page.getByRole("heading", { name: /Sign in/ }).waitFor();
  for (const { page, foreign, errors } of [ann, other]) {
    // A dial that was under way when the session ended is refused, and the client library writes that.
    const others = errors.filter((error) => !error.includes("[unauthenticated]"));
    assertEquals([foreign, others], [[], []]);
    await page.context().close();
  }
}

/** Hands in a log record with the machine's own key. */
async function logAsMachine({ example, cloud, ca }: ManagedMachine, message: string): Promise<void> {
  const { id, key } = example.config.cloud.api_key;
  const clock = new SystemClock();
  const channel = connectApp({ address: cloud.url, ca, keyId: id, key: new Secret(key), clock });
  try {
    const time = toTimestamp(clock.nowMs());
    const entry = { level: "warn", loggerName: message, message, time };
    await client(RobotService, channel).log({ id: example.partId, logs: [entry] });
  } finally {
    channel.close();
  }
}

async function newKey(data: readonly string[], role: string, on: string): Promise<Key> {
  return JSON.parse(
    await svcCloud("key", "create", "--role", role, "--on", on, ...data, "--json"),
  );
}

Deno.test("a list that leaves machines out says so", () => {
  assertEquals([1, 10_000, 10_001].map(countedMachines), [
    "1 machine",
    "10000 machines",
    "the first 10000 machines",
  ]);
});

needingTest("the fleet's page in Chromium", await browserWithPage(FLEET_PAGE), async (chromium, t) => {
  const browser = await launch(chromium);
  try {
    await withManagedMachine({ components: [MOTOR] }, async (managed) => {
      const watched = await openPage(browser, managed.cloud.url);
      await runPageSteps(t, STEPS, { managed, browser, watched });
    });
  } finally {
    await browser.close();
  }
});
