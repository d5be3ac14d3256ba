/**
 * Completions of `svc-cloud` command lines: the known words, and the entries of the control plane in question. A
 * completion changes nothing, not even the version of the database.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { shownUrl } from "../../lib/base/log/shown_url.ts";
import { Keys, ROLES } from "../../lib/cloud/access/keys.ts";
import { ORGANIZATION_MAKERS } from "../../lib/cloud/access/context.ts";
import { Fragments } from "../../lib/cloud/config/fragments/fragments.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { MappingSessions } from "../../lib/cloud/mapping/sessions.ts";
import { CHANNELS, PROGRAMS, RELEASE_PLATFORMS } from "../../lib/cloud/packages/releases.ts";
import { Rollouts } from "../../lib/cloud/rollouts/rollouts.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import type { Blank, Candidate } from "../command.ts";
import { type CloudProgramContext, located, locateDatabase } from "./command_context.ts";
import { requireFolder } from "./data_folder.ts";
import { LOG_LEVELS } from "./logs.ts";
import { cloudProfiles } from "./remote/profiles.ts";
import { connect } from "../../lib/cloud/store/open_store.ts";
import type { CloudFlags } from "./cloud_flags.ts";
import { PACKAGE_KINDS, VISIBILITIES } from "../../lib/cloud/packages/item.ts";

const PLAIN: { readonly [placeholder: string]: readonly string[] } = {
  ROLE: ROLES,
  LEVEL: LOG_LEVELS,
  CHANNEL: CHANNELS,
  TYPE: PACKAGE_KINDS,
  "OS/ARCH": RELEASE_PLATFORMS,
  PROGRAM: PROGRAMS,
};

/** The candidates for a blank. Throws if there is no control plane. */
export async function cloudCandidates(
  { host }: CloudProgramContext,
  values: CloudFlags,
  blank: Blank,
): Promise<readonly Candidate[]> {
  const { placeholder, command, flag } = blank;
  const plain = plainWords(blank);
  if (plain) return plain.map((word) => ({ word }));
  if (placeholder === "PROFILE") {
    const { profiles } = await cloudProfiles(host).read();
    return Object.entries(profiles).map(([word, { baseUrl }]) => ({ word, about: shownUrl(baseUrl) }));
  }
  // The names of a control plane elsewhere are not those of the one here.
  if (values.profile !== "") return [];
  const find = LOOKUPS[flag ?? ""] ?? LOOKUPS[placeholder] ??
    LOOKUPS[`${command.split(" ")[0]} ${placeholder}`];
  if (!find) return [];
  const place = located(values, host);
  await requireFolder(place, host);
  const store = connect(await locateDatabase(place, host), new SystemClock());
  try {
    return await find(store);
  } finally {
    await store.close();
  }
}

/** The words that fit without a look into the database. */
function plainWords({ placeholder, command, flag }: Blank): readonly string[] | undefined {
  if (placeholder === "WHO") return flag === "organizations" ? ORGANIZATION_MAKERS : VISIBILITIES;
  if (placeholder === "NAME" && /^release /.test(command)) return PROGRAMS;
  return PLAIN[placeholder];
}

/** Keyed by the name of a flag, a placeholder, or a command's subject. */
const LOOKUPS: { readonly [what: string]: (store: Store) => Promise<Candidate[]> } = {
  org: async (store) => (await new Organizations(store).all()).map(named),
  location: async (store) => {
    const all = await ofOrganizations(store, (id) => new Locations(store).ofOrganization(id));
    return all.map(named);
  },
  PART: async (store) => {
    const all = await ofOrganizations(store, (id) => new Parts(store).ofOrganization(id));
    return all.map((one) => namedOrId(one, `part of ${one.machineName}`));
  },
  MACHINE: machines,
  "KIND:NAME": async (store) => {
    const organizations = await new Organizations(store).all();
    const locations = await ofOrganizations(store, (id) => new Locations(store).ofOrganization(id));
    const kinds = { organization: organizations, location: locations, machine: await allMachines(store) };
    return Object.entries(kinds).flatMap(([kind, all]) => all.map((one) => ofKind(kind, one)));
  },
  SESSION: async (store) => {
    const organizations = await new Organizations(store).all();
    const all = await Promise.all(
      organizations.map(({ id }) => new MappingSessions(store).list(id)),
    );
    return all.flat().filter(({ end }) => !end).map(({ id, mapName }) => ({ word: id, about: mapName }));
  },
  ROLLOUT: async (store) => {
    const organizations = await new Organizations(store).all();
    const all = await Promise.all(organizations.map(({ id }) => new Rollouts(store).list(id)));
    return all.flat().map(({ id, name, state }) => ({ word: id, about: `${name}, ${state}` }));
  },
  FRAGMENT: async (store) => {
    const organizations = await new Organizations(store).all();
    const all = await Promise.all(organizations.map(({ id }) => new Fragments(store).list(id)));
    return all.flat().map(named);
  },
  "key NAME|ID": async (store) =>
    (await new Keys(store).all()).map(({ id, name }) => ({ word: id, about: name })),
};

async function machines(store: Store): Promise<Candidate[]> {
  return (await allMachines(store)).map(named);
}

async function allMachines(store: Store) {
  return await ofOrganizations(store, (id) => new Machines(store).ofOrganization(id));
}

/** The target of a role: its kind and name, or its id alone. */
function ofKind(kind: string, one: { readonly id: string; readonly name: string }): Candidate {
  const { word, about } = named(one);
  return { word: word === one.id ? word : `${kind}:${word}`, about };
}

async function ofOrganizations<T>(
  store: Store,
  list: (organizationId: string) => Promise<readonly T[]>,
): Promise<T[]> {
  const lists = await Promise.all((await new Organizations(store).all()).map(({ id }) => list(id)));
  return lists.flat();
}

function named(one: { readonly id: string; readonly name: string }): Candidate {
  return namedOrId(one, one.id);
}

/** A name with a space would become two words. */
function namedOrId({ id, name }: { readonly id: string; readonly name: string }, about: string): Candidate {
  return /^[\w.-]+$/.test(name) ? { word: name, about } : { word: id, about: name };
}
