/**
 * Commands on API keys: their owners, and their rights.
 *
 * The room owns the commands on who may do what: keys, and the accounts of people.
 */

import { type Grant, GRANT_KINDS, Keys, newKeySecret, ROLES } from "../../../lib/cloud/access/keys.ts";
import { Locations } from "../../../lib/cloud/tenants/locations.ts";
import { Organizations } from "../../../lib/cloud/tenants/organizations.ts";
import { didYouMean } from "../../../lib/base/schema/suggest.ts";
import type { Store } from "../../../lib/cloud/store/store.ts";
import { UsageError } from "../../flags.ts";
import { namedOne } from "../../lookup.ts";
import { shownMs } from "../../table.ts";
import { named } from "../logs.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  fleetNames,
  machineNamed,
  ORG,
  unknown,
} from "../command_context.ts";

export const ROLE = {
  name: "role",
  type: "string",
  default: "operator",
  value: "ROLE",
  help: "owner, operator (views, restarts and drives machines) or viewer",
} as const;
export const ON = {
  name: "on",
  type: "string",
  default: "",
  value: "KIND:NAME",
  help:
    "The target of the role: organization:NAME, location:NAME or machine:NAME, or an id; by default the only organization.",
} as const;

export const KEY_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "key create",
    [],
    "Creates an API key and prints it, once only.",
    [
      ROLE,
      ON,
      { name: "name", type: "string", default: "", value: "NAME", help: "The name of the key." },
    ],
    async (context, _, { role, on, name }) => {
      const grant = await wantedGrant(context.store, role, on);
      const secret = await newKeySecret(context.who);
      const key = await context.change(
        "key create",
        { kind: grant.kind, id: grant.resourceId },
        (sql, nowMs) => new Keys(sql).create(secret, name, [grant], nowMs),
      );
      context.print({ ...key, ...grant }, [`id:  ${key.id}`, `key: ${key.key}`]);
    },
  ),
  cloudCommand(
    "key list",
    [],
    "Lists the API keys with their owners, rights, creators, and the minute of their last use.",
    [{ ...ORG, help: "Only the keys that belong to this organization." }],
    async ({ store, list }, _, { org }) => {
      const every = await new Keys(store).all();
      const owner = org === "" ? undefined : (await chosenOrganization(store, org)).id;
      const all = owner === undefined ? every : every.filter((key) => key.organizationId === owner);
      const names = await fleetNames(store);
      const nameOf = (id: string) => names.get(id) ?? id;
      const may = (grants: readonly Grant[]) =>
        grants.map((one) => `${one.role} of ${one.kind} ${nameOf(one.resourceId)}`).join(", ");
      const keyNames = new Map(every.map((key) => [key.id, key.name]));
      const readable = all.map((key) => ({ ...key, creatorName: named(key.creator, keyNames) }));
      list("keys", readable, {
        columns: [
          { heading: "NAME", cutTo: 14 },
          { heading: "ID", cutTo: 9 },
          { heading: "OWNER", cutTo: 10, rank: 1 },
          { heading: "MAY", cutTo: 16 },
          { heading: "CREATOR", cutTo: 10, rank: 3 },
          { heading: "CREATED (UTC)", rank: 4 },
          { heading: "USED (UTC)", rank: 2 },
        ],
        rows: readable.map((key) => [
          key.name,
          key.id,
          key.organizationId ? nameOf(key.organizationId) : "nobody",
          may(key.grants),
          key.creatorName || "-",
          shownMs(key.createdMs ?? null),
          shownMs(key.usedMs),
        ]),
        empty: "there is no key yet: svc-cloud key create makes one",
      });
    },
  ),
  cloudCommand(
    "key grant",
    ["NAME|ID"],
    "Gives an API key a role, also in another organization than the key's.",
    [ROLE, ON],
    async (context, [given], { role, on }) => {
      const id = await keyNamed(context.store, given);
      const grant = await wantedGrant(context.store, role, on);
      await context.change("key grant", { kind: "key", id }, (sql) => new Keys(sql).grant(id, grant));
      context.print({ id, ...grant }, []);
    },
  ),
  cloudCommand(
    "key own",
    ["NAME|ID"],
    "Assigns an API key to an organization, whose owners may then rename, rotate and delete it.",
    [ORG],
    async (context, [given], { org }) => {
      const id = await keyNamed(context.store, given);
      const { id: organizationId } = await chosenOrganization(context.store, org);
      await context.change("key own", { kind: "key", id }, (sql) => new Keys(sql).own(id, organizationId));
      context.print({ id, organizationId }, []);
    },
  ),
  cloudCommand(
    "key rotate",
    ["NAME|ID"],
    "Replaces an API key with a new one that has the same id.",
    [],
    async ({ store, change, print }, [given]) => {
      const id = await keyNamed(store, given);
      const secret = await newKeySecret();
      const key = await change("key rotate", { kind: "key", id }, (sql) => new Keys(sql).rotate(id, secret));
      print(key, [`id:  ${key.id}`, `key: ${key.key}`]);
    },
  ),
  cloudCommand(
    "key revoke",
    ["NAME|ID"],
    "Revokes an API key at once.",
    [],
    async ({ store, change, print }, [given]) => {
      const id = await keyNamed(store, given);
      await change("key revoke", { kind: "key", id }, (sql) => new Keys(sql).delete(id));
      print({ id }, []);
    },
  ),
];

/** The id of the key with this id, beginning of an id, or name. */
async function keyNamed(store: Store, wanted: string): Promise<string> {
  return namedOne("API key", wanted, await new Keys(store).all()).id;
}

/** The role that `--role` and `--on` name. */
export async function wantedGrant(store: Store, role: string, on: string): Promise<Grant> {
  const known = ROLES.find((one) => one === role);
  if (!known) throw unknown("--role", role, ROLES);
  if (on === "") {
    return { role: known, kind: "organization", resourceId: (await chosenOrganization(store, "")).id };
  }
  const [kind = "", ...rest] = on.split(":");
  const wanted = rest.join(":");
  const found = GRANT_KINDS.find((one) => one === kind);
  if (!found) {
    const hint = didYouMean(kind, GRANT_KINDS);
    throw new UsageError(`--on: found "${on}", wanted for example machine:NAME${hint}`);
  }
  const { id: resourceId } = await {
    organization: async () => namedOne("organization", wanted, await new Organizations(store).all()),
    location: async () => namedOne("location", wanted, await new Locations(store).all()),
    machine: () => machineNamed(store, wanted),
  }[found]();
  return { role: known, kind: found, resourceId };
}
