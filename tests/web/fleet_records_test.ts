/** The records on the fleet's page in a real browser: the logs of many machines, by hand and keyboard. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Browser, Page } from "playwright-core";
import { LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { zapField } from "../../lib/base/log/zap_fields.ts";
import { MachineTags } from "../../lib/cloud/tenants/machine_tags.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { keepCollectors, readRetention, setRetention } from "../../lib/cloud/capture/retention_policies.ts";
import { Releases } from "../../lib/cloud/packages/releases.ts";
import { Deliveries } from "../../lib/cloud/notifications/deliveries.ts";
import { create } from "../../lib/wire/rpc/proto.ts";
import { builtPage } from "../../cli/built_page.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { noteBackup, noteFailedBackup } from "../../lib/cloud/retention/last_backup.ts";
import { withDatabase } from "../cloud/stores.ts";
import { newWorld, ownKey, type ServedCloud, withCloud, type World } from "../cloud/world.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage, runPageSteps, violations, type WatchedPage } from "./browser.ts";
import { assertEveryLook, assertTextOnly, MARKUP, signInByKey } from "./fleet_steps.ts";

const ENTRIES = 700;
const LIMITS = { ...defaultLimits(), packagesPerOrganization: 60, packageBytesPerOrganization: 600 };

interface RecordsShared {
  readonly served: ServedCloud;
  readonly world: World;
  /** Another tenant. */
  readonly other: World;
  readonly browser: Browser;
  readonly watched: WatchedPage;
}

type RecordsStep = readonly [name: string, run: (shared: RecordsShared) => Promise<void>];

const records = (page: Page) => page.locator(".record");

/** Entries of a machine, a second apart, the last one now. */
async function log(
  { store, robot }: ServedCloud,
  machine: string,
  messages: readonly string[],
  level = "info",
): Promise<void> {
  const [{ id }] = await new Parts(store).ofMachine(machine);
  const nowMs = Date.now();
  const logs = messages.map((message, at) => {
    const time = toTimestamp(nowMs - (messages.length - 1 - at) * 1000);
    const fields = [zapField("number", at), zapField("last", at === messages.length - 1)];
    return create(LogEntrySchema, { message, level, loggerName: MARKUP, time, fields });
  });
  await (await robot(await ownKey(store, { machine }))).log({ id, logs });
}

/** Answers the next question of the page; resolves with its text. */
function answerDialog(page: Page, answer: "accept" | "dismiss"): Promise<string> {
  return new Promise((resolve) => {
    page.once("dialog", (dialog) => {
      resolve(dialog.message());
      void dialog[answer]();
    });
  });
}

/** Modules; the first has 60 versions and a hostile description. */
async function addItems({ store }: ServedCloud, { organization }: World, count: number): Promise<void> {
  await store.transaction(async (sql) => {
    const packages = new Packages(sql);
    for (let at = 0; at < count; at++) {
      const item = await packages.createItem(organization, `item-${at}`, "module", Date.now());
      if (at > 0) continue;
      await packages.updateItem(item, { description: MARKUP, url: `javascript:${MARKUP}` }, Date.now());
      const older = Array.from({ length: 58 }, (_, at) => `0.${at}.0`);
      for (const version of [...older, "1.0.0", "2.0.0"]) {
        const file = { sha256: "0".repeat(64), bytes: 1 };
        const about = {
          organizationId: organization,
          name: item.name,
          type: "module",
          metadata: {},
        } as const;
        await packages.add({ ...about, version, platform: "linux/arm64", file }, Date.now());
      }
    }
  });
}

/** The organization's machine names an item of its own, and through a fragment, too. */
async function nameItem({ app }: ServedCloud, world: World, name: string): Promise<void> {
  const owner = await app(world.owner);
  const named = (version: string) => ({
    modules: [{ name: "m", type: "registry", module_id: `${world.organization}:${name}`, version }],
  });
  const { fragment } = await owner.createFragment({
    name: MARKUP,
    organizationId: world.organization,
    config: named("2.0.0"),
  });
  const robotConfig = { ...named("^1.0.0"), fragments: [fragment!.id] };
  await owner.updateRobotPart({ id: world.part, name: "rover-main", robotConfig });
}

/** A trigger, and dead notifications of it. */
async function addAlerts({ store, app }: ServedCloud, world: World, count: number): Promise<void> {
  const target = "https://user:hidden-word@example.com/hook?key=hidden-word";
  await (await app(world.owner)).updateRobotPart({
    id: world.part,
    name: "rover-main",
    robotConfig: {
      triggers: [{
        name: "away",
        notes: MARKUP,
        event: { type: "part_offline" },
        notifications: [{ type: "webhook", value: "https://example.com/hook?key=hidden-word" }],
      }],
    },
  });
  await store.transaction(async (sql) => {
    const about = { organizationId: world.organization, partId: world.part, trigger: MARKUP };
    const message = { method: "POST", headers: [], body: "", subject: "", text: "" } as const;
    const deliveries = new Deliveries(sql);
    for (let at = 1; at < count; at++) {
      await deliveries.add({ ...about, kind: "webhook", target, message }, Date.now(), MARKUP);
    }
    const away = {
      ...about,
      trigger: "away",
      kind: "email",
      target: `${"long".repeat(60)}@example.com`,
    } as const;
    await deliveries.delivered(await deliveries.add({ ...away, message }, Date.now()), Date.now());
  });
}

/** The view is whole at 390 pixels and without violations, in the dark. */
async function assertNarrow({ browser, served, world }: RecordsShared, hash: string): Promise<void> {
  const narrow = await openPage(browser, served.url, { width: 390, height: 844, dark: true });
  await narrow.page.goto(`${served.url}/${hash}`);
  await signInByKey(narrow.page, world.owner);
  await narrow.page.getByRole("heading", { level: 1 }).waitFor();
  await narrow.page.getByText("Loading…").waitFor({ state: "detached" });
  assertEquals(await violations(narrow.page), []);
  assertEquals(await narrow.page.evaluate("document.querySelector('main').scrollWidth"), 390, hash);
  assertEquals(await narrow.page.evaluate("document.body.scrollWidth"), 390, hash);
  assertEquals([narrow.foreign, narrow.errors], [[], []]);
  await narrow.page.context().close();
}

const STEPS: readonly RecordsStep[] = [
  ["the logs of many machines are one log, filtered, followed and bounded", async (shared) => {
    const { served, world, watched: { page } } = shared;
    const second = await served.store.transaction((sql) =>
      new Machines(sql).create(world.location, MARKUP, Date.now())
    );
    await log(served, world.machine, Array.from({ length: ENTRIES }, (_, at) => `turn ${at}`));
    await log(served, second.id, [`${MARKUP} broke`], "fatal");
    await page.goto(served.url);
    await signInByKey(page, world.owner);
    await page.getByRole("link", { name: "Logs" }).click();
    await page.getByText("500 of 500").waitFor();
    await page.getByText("2 parts").waitFor();
    await records(page).getByText(`${MARKUP} broke`).waitFor();
    assertEquals(await violations(page), []);
    await page.getByRole("button", { name: "Older" }).click();
    await page.getByText(`${ENTRIES + 1} of ${ENTRIES + 1}`).waitFor();
    await page.getByRole("button", { name: "Older" }).click();
    await page.getByRole("button", { name: "Older" }).waitFor({ state: "detached" });

    await log(served, world.machine, ["turned at last"]);
    await records(page).getByText("turned at last").waitFor();
    await page.getByLabel("Level").selectOption("error");
    await page.getByText("1 of 1").waitFor();
    await page.getByLabel("Level").selectOption("debug");
    await page.getByLabel("Text").fill("turn 699");
    await page.getByText("1 of 500").waitFor();
    await records(page).getByText('{"number":699,"last":true}').waitFor();
    await page.getByLabel("Text").fill("");
    await page.getByText("500 of 500").waitFor();
  }],
  [
    "machines, tags and times choose whose log it is, by keyboard",
    async ({ served, world, watched: { page } }) => {
      await page.getByText("All machines").first().focus();
      await page.keyboard.press("Enter");
      await page.getByLabel("Search machines").fill("onerror");
      await page.getByRole("checkbox", { name: MARKUP }).focus();
      await page.keyboard.press("Space");
      await page.getByText("1 of 1").waitFor();
      assertEquals(await violations(page), []);
      await page.getByRole("button", { name: "All machines" }).click();
      await page.getByText("500 of 500").waitFor();
      await page.locator("summary").click();
      await page.getByLabel("Tags").fill("none");
      await page.getByText("0 parts").waitFor();
      await served.store.transaction((sql) => new MachineTags(sql).add(world.machine, ["none"]));
      await page.getByLabel("Tags").fill("other, none");
      await page.getByText("1 part", { exact: true }).waitFor();
      await page.getByLabel("Tags").fill("");
      await page.getByLabel("Until").fill("2020-01-01T00:00");
      await page.getByText("0 of 0").waitFor();
      await page.getByLabel("Until").fill("");
      await page.getByText("500 of 500").waitFor();
      await assertTextOnly(page);
    },
  ],
  [
    "the audit log tells who did what, by page and by filter",
    async ({ served, world, watched: { page } }) => {
      const owner = await served.app(world.owner);
      for (let at = 0; at < 110; at++) {
        await owner.updateRobot({
          id: world.machine,
          name: at % 2 ? `${MARKUP} too` : "rover",
          location: world.location,
        });
      }
      await page.getByRole("link", { name: "Audit" }).click();
      await page.getByText("100 and more entries").waitFor();
      await page.getByRole("row", { name: /UpdateRobot/ }).getByText(MARKUP).first().waitFor();
      assertEquals(await violations(page), []);
      await page.getByRole("button", { name: "Older entries" }).press("Enter");
      await page.getByText(/^1\d\d entries$/).waitFor();
      await page.getByLabel("Action").fill("nothing");
      await page.getByText("No entry matches.").waitFor();
      await page.getByLabel("Action").fill("UPDATE");
      await page.getByText("100 and more entries").waitFor();
      await page.getByLabel("Who").fill("own");
      await page.getByText("100 and more entries").waitFor();
      await page.getByLabel("From").fill("2999-01-01T00:00");
      await page.getByText("No entry matches.").waitFor();
      await page.getByLabel("From").fill("");
      await assertTextOnly(page);
    },
  ],
  [
    "the registry lists own and public items with their versions; a description stays text",
    async ({ served, world, other, watched: { page } }) => {
      await addItems(served, world, 1200);
      await addItems(served, other, 1);
      await page.getByRole("link", { name: "Registry" }).click();
      await page.getByText("1000 and more items").waitFor();
      await page.getByRole("button", { name: "More items" }).click();
      await page.getByText("1200 items").waitFor();
      await page.getByLabel("Search").fill("item-7");
      await page.getByText("111 items").waitFor();
      await page.getByLabel("Search").fill("item-0");
      await page.getByText("1 item", { exact: true }).waitFor();
      await nameItem(served, world, "item-0");
      await page.getByRole("link", { name: "item-0" }).press("Enter");
      const item = page.getByRole("region", { name: "Item item-0" });
      await item.getByText(MARKUP).first().waitFor();
      await item.getByRole("row", { name: /2\.0\.0.*linux\/arm64/ }).waitFor();
      await item.getByText("50 of 60 versions").waitFor();
      await item.getByRole("button", { name: "Show 10 more versions" }).press("Enter");
      await item.getByRole("row", { name: /^0\.0\.0/ }).waitFor();
      await item.getByText("1 machine, 1 fragment").waitFor();
      await item.getByRole("row", { name: /rover-main \^1\.0\.0 its own configuration/ }).waitFor();
      await item.getByRole("row", { name: /rover-main 2\.0\.0/ }).getByRole("link", {
        name: MARKUP,
        exact: true,
      })
        .waitFor();
      // The item has an address of its own.
      await page.reload();
      await item.getByText("1 machine, 1 fragment").waitFor();
      await page.getByLabel("Search").fill("item-0");
      await page.getByText("1 item", { exact: true }).waitFor();
      await assertEveryLook(page);
      await page.goto(`${served.url}/#/registry/nobody:nothing`);
      await page.getByRole("alert").getByText('there is no package "nobody:nothing"').waitFor();
      await page.goBack();
      await item.getByText("1 machine, 1 fragment").waitFor();
      assertEquals(await violations(page), []);
      await page.getByLabel("Kind").selectOption("maps");
      await page.getByText("Nothing matches.").waitFor();
      await page.getByLabel("Kind").selectOption("all kinds");
      await page.getByLabel("Whose").selectOption("public");
      await page.getByText("Nothing matches.").waitFor();
      await served.store.transaction((sql) =>
        sql.query("UPDATE registry_items SET visibility = 'public' WHERE name = 'item-0'")
      );
      await page.getByLabel("Search").fill("item");
      await page.getByText("2 items").waitFor();
      await assertTextOnly(page);
    },
  ],
  ["alerts are listed, tested and sent again", async ({ served, world, watched: { page } }) => {
    await addAlerts(served, world, 120);
    await page.getByRole("link", { name: "Alerts" }).click();
    const triggers = page.getByRole("region", { name: "Triggers" });
    await triggers.getByText("part_offline").waitFor();
    await triggers.getByText(MARKUP).first().waitFor();
    await triggers.getByText("delivered").waitFor();
    assertEquals(await triggers.getByText("hidden-word").count(), 0);
    await page.getByRole("button", { name: "Older notifications" }).waitFor();
    await assertEveryLook(page);
    await page.getByRole("button", { name: "Older notifications" }).press("Enter");
    const rows = page.getByRole("region", { name: "Notifications" }).getByRole("row");
    await until(async () => await rows.count() === 121);
    await page.getByRole("button", { name: /^Test / }).press("Enter");
    await page.getByRole("status").getByText("The test is on its way").waitFor();
    const events = () => served.store.query("SELECT facts FROM trigger_events");
    assertEquals((await events()).length, 1);
    await page.getByLabel("State").selectOption("pending");
    await page.getByText("No notification is pending.").waitFor();
    await page.getByRole("button", { name: "Send all dead ones again" }).click();
    await page.getByText("119 sent again.").waitFor();
    await until(async () => await rows.count() === 101);
    await assertTextOnly(page);
  }],
  ["an operator reads the alerts, and changes nothing", async ({ served, world, browser }) => {
    const operator = await openPage(browser, served.url);
    await operator.page.goto(`${served.url}/#/alerts`);
    await signInByKey(operator.page, world.operator);
    const all = operator.page.getByRole("button", { name: "Send all dead ones again" });
    await operator.page.getByTitle("Only an owner of the organization may do this.").first().waitFor();
    assertEquals([
      await all.isDisabled(),
      await operator.page.getByRole("button", { name: /^Test / }).isDisabled(),
    ], [
      true,
      true,
    ]);
    await operator.page.context().close();
  }],
  ["limits are marked when they are nearly used up", async ({ served, world, watched: { page } }) => {
    await served.store.transaction(async (sql) => {
      await sql.query("UPDATE packages SET bytes = 9");
      const kept = { componentName: MARKUP, methodName: "Readings", days: 7 };
      await keepCollectors(sql, world.part, [kept]);
      await setRetention(sql, world.organization, { days: 30, binaryBytes: 5_000_000_000 });
    });
    await page.getByRole("link", { name: "Usage" }).focus();
    await page.keyboard.press("Enter");
    const limits = page.getByRole("region", { name: "Limits" });
    await limits.getByRole("row", { name: /Versions of packages 60 60 100 % used up/ }).waitFor();
    await limits.getByRole("row", { name: /Size of packages 540.B 600.B 90 % more than 80 %/ }).waitFor();
    assertEquals(await limits.getByRole("row").count(), 9);
    await page.getByRole("status").getByText("2 of 8 limits are nearly used up.").waitFor();
    await page.getByText("30 days, 5.0\u202fGB of images and files").first().waitFor();
    await page.getByRole("region", { name: "Collectors" }).getByRole("row", { name: /Readings 7 days/ })
      .waitFor();
    await assertEveryLook(page);
    await assertTextOnly(page);
  }],
  ["an owner chooses the retention on the page, within the operator's bound", async (shared) => {
    const { served, world, browser, watched: { page } } = shared;
    const days = async () => (await readRetention(served.store, world.organization)).days;
    const form = page.getByRole("form", { name: "Retention" });
    await page.getByRole("button", { name: "Change…" }).press("Enter");
    await form.getByLabel("Captured data, days").fill("many");
    await form.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("found many, wanted a number above 0").waitFor();
    await assertEveryLook(page);
    await form.getByLabel("Captured data, days").fill("31");
    await form.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("found 31, wanted a whole number from 1 to 30").waitFor();
    await form.getByLabel("Captured data, days").fill("7");
    const asked = answerDialog(page, "dismiss");
    await form.getByRole("button", { name: "Save" }).click();
    assertStringIncludes(await asked, "removed for good");
    assertEquals([await days(), await form.count()], [30, 1]);
    await form.getByLabel("Logs of machines, days").fill("3");
    const agreed = answerDialog(page, "accept");
    await form.getByRole("button", { name: "Save" }).press("Enter");
    await agreed;
    await page.getByRole("status").getByText("The retention is saved.").waitFor();
    await page.getByText("7 days, 5.0\u202fGB of images and files").waitFor();
    await page.getByText("3 days", { exact: true }).waitFor();
    assertEquals(await days(), 7);

    const operator = await openPage(browser, served.url);
    await operator.page.goto(`${served.url}/#/usage`);
    await signInByKey(operator.page, world.operator);
    await operator.page.getByTitle("Only an owner of the organization may do this.").waitFor();
    assertEquals(await operator.page.getByRole("button", { name: "Change…" }).isDisabled(), true);
    await operator.page.context().close();
  }],
  [
    "releases tell which parts run them, also versions without one",
    async ({ served, world, watched: { page } }) => {
      await page.getByRole("link", { name: "Releases" }).press("Enter");
      await page.getByText("There is no release yet").waitFor();
      await served.store.transaction(async (sql) => {
        const file = { sha256: "0".repeat(64), bytes: 4_000_000 };
        for (
          const [version, platform] of [["1.2.3", "linux/arm64"], ["1.2.3", "linux/amd64"], [
            "1.10.0",
            "linux/amd64",
          ]]
        ) {
          const about = { name: "svc-server", version, platform, channel: "stable" } as const;
          await new Releases(sql).add({ ...about, file }, Date.now());
        }
        const info = (version: string) => JSON.stringify({ version });
        await sql.query("UPDATE parts SET info = ?", info(MARKUP));
        await sql.query("UPDATE parts SET info = ? WHERE id = ?", info("v1.2.3"), world.part);
        const agent = {
          version_control: { "svc-server": "1.9.0", "svc-agent": "https://example.com/agent" },
        };
        await sql.query("UPDATE parts SET config = ? WHERE id = ?", JSON.stringify({ agent }), world.part);
        const report = {
          agentRunning: "1.0.0",
          serverRunning: "1.2.3",
          platform: "linux/arm64",
          refused: [],
        };
        await sql.query(
          "INSERT INTO agents (part_id, report, at_ms) VALUES (?, ?, 1)",
          world.part,
          JSON.stringify(report),
        );
      });
      await page.reload();
      const versions = page.getByRole("region", { name: "Versions" });
      const rows = versions.getByRole("row");
      await versions.getByRole("row", { name: /1\.2\.3 stable .*linux\/a.*linux\/a.* 1$/ }).waitFor();
      await versions.getByRole("row", { name: /onerror.*not released here – – 1$/ }).waitFor();
      assertEquals(await rows.count(), 5);
      await rows.nth(1).getByText("1.10.0").waitFor();
      await page.getByRole("button", { name: "Look for machines that want a missing release" }).press(
        "Enter",
      );
      await page.getByRole("status").getByText("1 of 2 machines wants a release that is not here.").waitFor();
      const missing = page.getByRole("region", { name: "Wanted releases" });
      await missing.getByRole("row", { name: /svc-server 1\.9\.0 for linux\/arm64/ }).waitFor();
      await assertEveryLook(page);
      await assertTextOnly(page);
    },
  ],
  ["every view is whole on a narrow screen and in the dark", async (shared) => {
    for (const hash of ["#/logs", "#/audit", "#/registry"]) await assertNarrow(shared, hash);
  }],
  [
    "the last backup is shown with its age, and a warning for none, a broken one and an old one",
    async (shared) => {
      const { served, watched: { page } } = shared;
      await page.goto(`${served.url}/#/backups`);
      await page.getByText(/^There is no backup of this control plane/).waitFor();
      await assertEveryLook(page);
      const [place, nowMs] = ["/mnt/copies", Date.now()];
      const made = { timeMs: nowMs - 60_000, place, contents: 1, missing: 0 };
      await noteBackup(served.store, made);
      await page.reload();
      await page.getByRole("region", { name: "Last backup" }).getByText("whole").waitFor();
      assertEquals(await page.getByText(place).count(), 0);
      assertEquals(await page.getByText("The last backup is").count(), 0);
      await noteBackup(served.store, { ...made, timeMs: nowMs - 30 * 24 * 3_600_000, missing: 2 });
      await noteFailedBackup(served.store, { timeMs: nowMs, place, reason: MARKUP });
      await page.reload();
      await page.getByText("The last backup is broken: 2 contents are missing in it.").waitFor();
      await page.getByText("The last backup is older than a week.").waitFor();
      await page.getByText(/^A backup failed/).waitFor();
      await assertEveryLook(page);
    },
  ],
  ["another tenant sees nothing of it", async ({ served, other, browser, watched }) => {
    const stranger = await openPage(browser, served.url);
    await stranger.page.goto(`${served.url}/#/logs`);
    await signInByKey(stranger.page, other.owner);
    await stranger.page.getByText("1 part", { exact: true }).waitFor();
    await stranger.page.getByText("0 of 0").waitFor();
    await stranger.page.getByRole("link", { name: "Audit" }).click();
    await stranger.page.getByText("Nothing has been changed or refused yet.").waitFor();
    await stranger.page.getByRole("link", { name: "Alerts" }).click();
    await stranger.page.getByText("No machine has triggers").waitFor();
    await stranger.page.getByText(/^Nothing has been sent yet/).waitFor();
    await stranger.page.getByRole("link", { name: "Usage" }).click();
    await stranger.page.getByText("No collector has a retention of its own.").waitFor();
    for (const { foreign, errors } of [stranger, watched]) assertEquals([foreign, errors], [[], []]);
    await stranger.page.context().close();
  }],
  ["a full list of machines to choose from says what it leaves out", async (shared) => {
    const { served, world, watched: { page } } = shared;
    const create = (name: string) =>
      served.store.transaction((sql) => new Machines(sql).create(world.location, name, Date.now()));
    for (let at = 0; at < 100; at++) await create(`crowd ${at}`);
    await page.goto(`${served.url}/#/logs`);
    await page.reload();
    await page.locator("summary").click();
    await page.getByLabel("Search machines").fill("crowd");
    await page.getByRole("checkbox", { name: "crowd 99" }).waitFor();
    assertEquals(await page.getByText(/^The first/).count(), 0);
    await create("crowd 100");
    await page.reload();
    await page.locator("summary").click();
    await page.getByLabel("Search machines").fill("crowd");
    await page.getByText("The first 100 of 101. Search for others.").waitFor();
  }],
];

needingTest(
  "records on the fleet's page in Chromium",
  await browserWithPage(FLEET_PAGE),
  async (chromium, t) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async (database) => {
        const store = await database.open();
        const [world, other] = [await newWorld(store), await newWorld(store)];
        await withCloud(database, async (served) => {
          const watched = await openPage(browser, served.url);
          const shared = { served, world, other, browser, watched };
          await runPageSteps(t, STEPS, shared);
        }, { page: builtPage(new DenoHost(), FLEET_PAGE), limits: LIMITS });
      });
    } finally {
      await browser.close();
    }
  },
);
