/** How soon the fleet's page shows thousands of machines, how soon it learns of a change, and what it costs the server. */

import type { Browser, Page } from "playwright-core";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { buildPage } from "../../cli/build/page.ts";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Secret } from "../../lib/base/secret.ts";
import { Keys, newKeySecret } from "../../lib/cloud/access/keys.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { keepHealth } from "../../lib/cloud/fleet/part_health.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { serveCloud } from "../cloud/program.ts";
import { browserWithPage, launch, openPage } from "../web/browser.ts";
import { signInByKey } from "../web/fleet_steps.ts";
import { heading, median, row } from "./figures.ts";
import { cpuMsOf } from "./process_time.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";

const MACHINES = 5_000;
/** Every so many machines one has a resource that does not work. */
const UNHEALTHY_EVERY = 50;
const MACHINES_A_TRANSACTION = 500;
const WATCHED_MS = 30_000;
const VERSION = "1.2.3";

interface Key {
  readonly id: string;
  readonly key: string;
}

interface BenchFleet {
  readonly owner: Key;
  /** The first machine in the list, which has never been seen. */
  readonly first: { readonly partId: string; readonly key: Key };
}

export async function fleet(): Promise<void> {
  heading(`the fleet's page with ${MACHINES} machines`);
  await buildPage(FLEET_PAGE);
  const needed = await browserWithPage(FLEET_PAGE);
  if ("missing" in needed) return row("in a browser", needed.missing);
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const { owner, first } = await createFleet(folder);
  const cloud = await serveCloud(["--data", folder]);
  const browser = await launch(needed.found);
  const machine = connectApp({
    address: cloud.url,
    keyId: first.key.id,
    key: new Secret(first.key.key),
    clock: new SystemClock(),
  });
  try {
    const page = await signedIn(browser, cloud.url, owner);
    row("list shown after a reload", `${(await median(() => reloadMs(page))).toFixed(0)} ms`);

    const before = cpuMsOf(cloud.pid).all;
    await page.waitForTimeout(WATCHED_MS);
    const cpu = (cpuMsOf(cloud.pid).all - before) / WATCHED_MS;
    row("server with the page open", `${(cpu * 100).toFixed(1)} % of a core`);

    const online = page.getByRole("row", { name: /online/ });
    const beganMs = performance.now();
    await client(RobotService, machine).needsRestart({ id: first.partId });
    await online.first().waitFor();
    row("a machine comes online", `shown after ${((performance.now() - beganMs) / 1000).toFixed(1)} s`);

    const searchedMs = await timeOf(async () => {
      await page.getByRole("searchbox", { name: "Search" }).fill(`m0${MACHINES - 1}`);
      await page.getByText(`1 of ${MACHINES} machines, `).waitFor();
    });
    row("search of one machine", `${searchedMs.toFixed(0)} ms`);
  } finally {
    machine.close();
    await browser.close();
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

async function createFleet(folder: string): Promise<BenchFleet> {
  const store = await openStore(
    { sqlite: sqliteIn(`${folder}/cloud.db`, new DenoHost()) },
    new SystemClock(),
  );
  // The same secret for all: making one takes a while.
  const secret = await newKeySecret();
  const keyOn = async (kind: "organization" | "machine", resourceId: string): Promise<Key> => {
    const role = kind === "organization" ? "owner" : "operator";
    const grants = [{ role, kind, resourceId }] as const;
    return await store.transaction((sql) => new Keys(sql).create(secret, role, grants, 0));
  };
  const place = await store.transaction(async (sql) => {
    const organization = await new Organizations(sql).create("bench", 0);
    return { organization, location: await new Locations(sql).create(organization, "hall", "", 0) };
  });
  let first: { id: string; partId: string } | undefined;
  const info = JSON.stringify({ version: VERSION, platform: "linux/arm64" });
  for (let start = 0; start < MACHINES; start += MACHINES_A_TRANSACTION) {
    await store.transaction(async (sql) => {
      for (let at = start; at < start + MACHINES_A_TRANSACTION; at++) {
        const made = await new Machines(sql).create(place.location, `m0${at}`, 0);
        first ??= made;
        const unhealthy = at % UNHEALTHY_EVERY === 0 ? ["rdk:component:motor/left: it has no board"] : [];
        await keepHealth(sql, made.partId, { revision: "0", unhealthy, heldBack: false }, 0);
      }
    });
  }
  await store.transaction((sql) => sql.query("UPDATE parts SET info = ?", info));
  const owner = await keyOn("organization", place.organization);
  const made = { owner, first: { partId: first!.partId, key: await keyOn("machine", first!.id) } };
  await store.close();
  return made;
}

async function signedIn(browser: Browser, url: string, owner: Key): Promise<Page> {
  const { page } = await openPage(browser, url);
  await page.goto(url);
  await signInByKey(page, owner);
  await page.getByRole("row", { name: /m00/ }).waitFor();
  return page;
}

/** From the order to reload until the first machine's row is there; the person stays signed in. */
function reloadMs(page: Page): Promise<number> {
  return timeOf(async () => {
    await page.reload();
    await page.getByRole("row", { name: /m00/ }).waitFor();
  });
}

async function timeOf(work: () => Promise<void>): Promise<number> {
  const beganMs = performance.now();
  await work();
  return performance.now() - beganMs;
}
