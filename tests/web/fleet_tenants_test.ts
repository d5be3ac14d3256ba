/**
 * Every view of the fleet's page, as people of two tenants and as a stranger see it: nobody sees or receives anything of
 * another tenant. The list of views comes from the router, so a view without an address here fails.
 */

import { assert, assertEquals } from "@std/assert";
import type { Browser } from "playwright-core";
import { AppService } from "../../proto/gen/app_pb.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectAs, type Credentials, newTenant, type Place, type Tenant } from "../attack/cloud/tenant.ts";
import { serveCloud, svcCloud } from "../cloud/program.ts";
import { withDatabase } from "../cloud/stores.ts";
import { needingTest } from "../support/needing.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage } from "./browser.ts";

const FLEET = new URL("../../lib/web/fleet/", import.meta.url);
/** Nothing arrives for so long: what a view asks for at its beginning is there. */
const QUIET_MS = 250;
/** Views that follow something ask again and again; by then they have shown what they show. */
const VIEW_MS = 2_500;

/** At so many addresses each member finds names of the own tenant. */
const TELLING_MIN = 5;

/** The addresses of each view, with the ids of a tenant. */
const ADDRESSES: Readonly<Record<string, (ids: Tenant["ids"]) => readonly string[]>> = {
  "": () => ["#/"],
  machine: ({ machine, part }) =>
    ["", "/configuration", "/settings", "/logs", `/configuration/${part}`].map((tab) =>
      `#/machine/${machine}${tab}`
    ),
  data: ({ dataset, training_job: job, package: map, mapping_session: session }) => [
    ...["images", "readings", "datasets", "training", "maps", "mapping"].map((tab) => `#/data/${tab}`),
    `#/data/datasets/${dataset}`,
    `#/data/training/${job}`,
    `#/data/maps/${map.split("/").at(-1)}`,
    `#/data/mapping/${session}`,
  ],
  rollouts: ({ rollout }) => ["#/rollouts", `#/rollouts/${rollout}`],
  fragments: ({ fragment, part }) => [
    "#/fragments",
    ...["", "/uses", "/revisions", "/machine", `/machine/${part}`].map((tab) =>
      `#/fragments/${fragment}${tab}`
    ),
  ],
  compare: ({ part }) => ["#/compare", `#/compare/${part}/${part}`],
  locations: () => ["#/locations"],
  logs: () => ["#/logs"],
  alerts: () => ["#/alerts"],
  registry: () => ["#/registry"],
  releases: () => ["#/releases"],
  people: () => ["#/people"],
  usage: () => ["#/usage"],
  backups: () => ["#/backups"],
  audit: () => ["#/audit"],
  account: () => ["#/account"],
  // These are asked for without a session, by secrets that nobody else has.
  invitation: () => ["#/invitation/none"],
  provider: () => ["#/provider/state=none"],
};

/** The views that the router knows. */
async function routedViews(): Promise<string[]> {
  const app = await Deno.readTextFile(new URL("app.svelte", FLEET));
  const later = await Deno.readTextFile(new URL("later_views.ts", FLEET));
  const found = [
    ...app.matchAll(/route\.view === "([^"]*)"/g),
    ...app.matchAll(/^ {2}\["([^"]*)", "[^"]*"\],$/gm),
    ...later.matchAll(/\bview: "([^"]*)"/g),
  ];
  return [...new Set(found.map(([, view]) => view))].sort();
}

/** Goes through addresses as the holder of a key: all that the page has shown and received, by address. */
async function walk(
  browser: Browser,
  at: string,
  key: Credentials,
  addresses: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { page } = await openPage(browser, at);
  const heard = new Map<string, string>();
  const note = (text: string) => heard.set(address, (heard.get(address) ?? "") + text);
  let address = "";
  let lastMs = performance.now();
  page.on("response", (response) => {
    lastMs = performance.now();
    const { pathname, origin } = new URL(response.url());
    // Pictures that the page has made itself come from nowhere.
    if (origin !== at || response.url().startsWith("blob:")) return;
    if (/\.(js|css|svg|wasm|html)$|^\/$/.test(pathname)) return;
    response.body().then((body) => note(body.toString("latin1")), () => {});
  });
  const stored = JSON.stringify({ id: key.id, key: key.key });
  await page.addInitScript(`sessionStorage["svc-api-key"] = ${JSON.stringify(stored)}`);
  await page.goto(at);
  await page.getByRole("navigation", { name: "Fleet" }).waitFor();
  for (address of addresses) {
    await page.evaluate(`location.hash = ${JSON.stringify(address)}`);
    const beganMs = lastMs = performance.now();
    const isQuiet = () => performance.now() - lastMs >= QUIET_MS || performance.now() - beganMs >= VIEW_MS;
    await until(isQuiet, { withinMs: 10 * VIEW_MS });
    note(await page.evaluate<string>("document.documentElement.outerHTML"));
  }
  await page.context().close();
  return heard;
}

/** All that only people of a tenant may know: names, and ids. The id of a package is made of its name. */
function secretsOf({ secret, shared, hidden, ids }: Tenant): string[] {
  const { package: _, ...others } = ids;
  return [secret, shared, ...hidden, ...Object.values(others)];
}

/** Addresses of tenants, each once: those that name nothing first. */
function addressesOf(...tenants: readonly Tenant[]): string[] {
  const all = Object.values(ADDRESSES).flatMap((of) => tenants.flatMap(({ ids }) => of(ids)));
  const isNaming = (address: string) =>
    tenants.some(({ ids }) => Object.values(ids).some((id) => address.includes(id)));
  return [...new Set(all.filter((one) => !isNaming(one))), ...all.filter(isNaming)];
}

/** What a walk has heard of another tenant, other than the ids that an address has named until then. */
function leaksOf(heard: ReadonlyMap<string, string>, who: string, other: Tenant): string[] {
  let secrets = secretsOf(other);
  const found: string[] = [];
  for (const [address, text] of heard) {
    secrets = secrets.filter((one) => !address.includes(one));
    found.push(...secrets.filter((one) => text.includes(one)).map((one) => `${who} at ${address}: ${one}`));
  }
  return found;
}

async function keyWith(place: Place, { owner, ids }: Tenant, role: string): Promise<Credentials> {
  const channel = await connectAs(place, owner);
  try {
    const authorization = {
      authorizationType: "role",
      authorizationId: `organization_${role}`,
      resourceType: "organization",
      resourceId: ids.organization,
    };
    return await client(AppService, channel).createKey({ name: role, authorizations: [authorization] });
  } finally {
    channel.close();
  }
}

/** A key with a role on an empty organization. */
async function stranger({ flags }: Place): Promise<Credentials> {
  const { id } = JSON.parse(await svcCloud("org", "create", "strangers", "--json", ...flags));
  const on = ["--role", "owner", "--on", `organization:${id}`];
  return JSON.parse(await svcCloud("key", "create", ...on, "--json", ...flags));
}

async function walkAsEverybody(browser: Browser, place: Place, url: string): Promise<void> {
  const tenants = [await newTenant(place, "first"), await newTenant(place, "second")] as const;
  const leaks: string[] = [];
  for (const [at, own] of tenants.entries()) {
    const other = tenants[1 - at];
    const addresses = addressesOf(own, other);
    const keys = { owner: own.owner, operator: own.operator, viewer: await keyWith(place, own, "viewer") };
    for (const [role, key] of Object.entries(keys)) {
      const heard = await walk(browser, url, key, addresses);
      leaks.push(...leaksOf(heard, `${role} ${at}`, other));
      // The walk must be able to find something: what is the tenant's own, its people see.
      const telling = [...heard].filter(([, text]) => text.includes(own.secret)).map(([address]) => address);
      console.log(`${role} ${at}: ${heard.size} addresses, own names at ${telling.length}`);
      assert(telling.length >= TELLING_MIN, `${role} saw own names only at ${telling.join(", ")}`);
    }
  }
  const heard = await walk(browser, url, await stranger(place), addressesOf(...tenants));
  for (const tenant of tenants) leaks.push(...leaksOf(heard, "stranger", tenant));
  assertEquals(leaks, []);
}

Deno.test("every view of the fleet's page has an address in the walk of the tenants", async () => {
  assertEquals(Object.keys(ADDRESSES).sort(), await routedViews());
});

needingTest(
  "nobody sees or receives anything of another tenant in any view of the fleet's page",
  await browserWithPage(FLEET_PAGE),
  async (chromium) => {
    const browser = await launch(chromium);
    try {
      await withDatabase("sqlite", async ({ flags, connect }) => {
        const server = await serveCloud(flags);
        try {
          const place = { address: new URL(server.url).host, flags, connect };
          await walkAsEverybody(browser, place, server.url);
        } finally {
          await server.stop();
        }
      });
    } finally {
      await browser.close();
    }
  },
);
