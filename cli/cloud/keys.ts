/**
 * Commands on API keys: their owners, and their rights.
 */

import { type Grant, GRANT_KINDS, Keys, newKeySecret, ROLES } from "../../lib/cloud/access/keys.ts";
import { Fleet } from "../../lib/cloud/fleet/fleet.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { table } from "../table.ts";
import { chosenOrganization, type CloudCommand, cloudCommand, ORG } from "./desk.ts";
import { UsageError } from "../flags.ts";

const ROLE = {
  name: "role",
  type: "string",
  default: "operator",
  value: "ROLE",
  help: "owner or operator",
} as const;
const ON = {
  name: "on",
  type: "string",
  default: "",
  value: "KIND:ID",
  help:
    "The target of the role: organization:ID, location:ID or machine:ID; by default the only organization.",
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
    async (desk, _, { role, on, name }) => {
      const grant = await grantOf(desk.store, role, on);
      const secret = await newKeySecret();
      const key = await desk.change(
        "key create",
        { kind: grant.kind, id: grant.resourceId },
        (sql, nowMs) => new Keys(sql).create(secret, name, [grant], nowMs),
      );
      desk.print({ ...key, ...grant }, [`id:  ${key.id}`, `key: ${key.key}`]);
    },
  ),
  cloudCommand(
    "key list",
    [],
    "Lists the API keys with their owners and rights.",
    [],
    async ({ store, print }) => {
      const all = await new Keys(store).all();
      const may = (grants: readonly Grant[]) =>
        grants.map((one) => `${one.role} of ${one.kind} ${one.resourceId}`).join(", ");
      const rows = all.map((
        key,
      ) => [key.id, key.name, `of ${key.organizationId ?? "nobody"}`, may(key.grants)]);
      print(all, table(rows));
    },
  ),
  cloudCommand(
    "key grant",
    ["ID"],
    "Gives an API key a role, also in another organization than the key's.",
    [ROLE, ON],
    async (desk, [id], { role, on }) => {
      const grant = await grantOf(desk.store, role, on);
      await desk.change("key grant", { kind: "key", id }, (sql) => new Keys(sql).grant(id, grant));
      desk.print({ id, ...grant }, []);
    },
  ),
  cloudCommand(
    "key own",
    ["ID"],
    "Assigns an API key to an organization, whose owners may then rename, rotate and delete it.",
    [ORG],
    async (desk, [id], { org }) => {
      const { id: organizationId } = await chosenOrganization(desk.store, org);
      await desk.change("key own", { kind: "key", id }, (sql) => new Keys(sql).own(id, organizationId));
      desk.print({ id, organizationId }, []);
    },
  ),
  cloudCommand(
    "key rotate",
    ["ID"],
    "Replaces an API key with a new one that has the same id.",
    [],
    async ({ change, print }, [id]) => {
      const secret = await newKeySecret();
      const key = await change("key rotate", { kind: "key", id }, (sql) => new Keys(sql).rotate(id, secret));
      print(key, [`id:  ${key.id}`, `key: ${key.key}`]);
    },
  ),
  cloudCommand(
    "key revoke",
    ["ID"],
    "Revokes an API key at once.",
    [],
    async ({ change, print }, [id]) => {
      await change("key revoke", { kind: "key", id }, (sql) => new Keys(sql).delete(id));
      print({ id }, []);
    },
  ),
];

async function grantOf(store: Store, role: string, on: string): Promise<Grant> {
  const known = ROLES.find((one) => one === role);
  if (!known) throw new UsageError(`--role: found "${role}", wanted ${ROLES.join(" or ")}`);
  if (on === "") {
    return { role: known, kind: "organization", resourceId: (await chosenOrganization(store, "")).id };
  }
  const [kind, id = ""] = on.split(":");
  const fleet = new Fleet(store);
  const found = GRANT_KINDS.find((one) => one === kind);
  if (!found) throw new UsageError(`--on: found "${on}", wanted for example machine:ID`);
  const { id: resourceId } = await {
    organization: () => fleet.organization(id),
    location: () => fleet.location(id),
    machine: () => fleet.machine(id),
  }[found]();
  return { role: known, kind: found, resourceId };
}
