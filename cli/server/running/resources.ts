/**
 * Finds what a command line names on a machine: a resource, and a method of its API.
 *
 * The contracts of the built-in APIs are in this program; the machine itself describes the others.
 */

import { APIS } from "../../../lib/api/mod.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { suggest } from "../../../lib/base/schema/suggest.ts";
import { describeService } from "../../../lib/wire/grpc/reflection_client.ts";
import type { DescMethod, DescService } from "../../../lib/wire/rpc/proto.ts";
import { UsageError } from "../../flags.ts";
import type { MachineClient } from "./reach.ts";
import { onlyOf } from "../../lookup.ts";

const NAMES_SHOWN = 20;

export interface FoundResource {
  /** `rdk:component:motor` */
  readonly api: string;
  /** `motor1`, or `far:motor1` on a remote. */
  readonly name: string;
  readonly desc: DescService;
  /** The fields of requests that name the resource. */
  readonly namedBy: readonly string[];
  /** The methods to watch. */
  readonly watched: readonly string[];
  /** Why clients cannot call it, if so. */
  readonly error?: string;
}

interface KnownResource {
  readonly api: string;
  readonly type: string;
  readonly name: string;
  /** Why clients cannot call it, if so. */
  readonly error?: string;
}

/** The resource with this name, `type/name` or `namespace:kind:type/name`. It may be unhealthy. */
export async function findResource(machine: MachineClient, wanted: string): Promise<FoundResource> {
  const all = await knownResources(machine);
  const found = all.filter((one) =>
    [one.name, `${one.type}/${one.name}`, `${one.api}/${one.name}`].includes(wanted)
  );
  const only = onlyOf(found);
  if (only) return await described(machine, only);
  if (found.length > 1) {
    const listed = found.map(({ type, name }) => `${type}/${name}`).join(", ");
    throw new SvcError("invalid_argument", `"${wanted}" means ${found.length} resources: ${listed}`);
  }
  const names = all.map(({ name }) => name).sort();
  const near = suggest(wanted, [...names, ...all.map(({ type, name }) => `${type}/${name}`)]);
  throw new SvcError("not_found", `the machine has no resource "${wanted}"${hint(near, names)}`);
}

/** Throws the reason if clients cannot call the resource now. */
export function requireHealthy({ name, error }: FoundResource): void {
  if (error !== undefined) throw new SvcError("failed_precondition", `${name} is unhealthy: ${error}`);
}

/** The names that clients call, and those of resources that cannot be built. */
async function knownResources({ robot, limits }: MachineClient): Promise<KnownResource[]> {
  const [{ resources }, status] = await Promise.all([
    robot.resourceNames({}, limits),
    robot.getMachineStatus({}, limits),
  ]);
  const known = resources.map(({ namespace, type, subtype, name }): KnownResource => {
    return { api: `${namespace}:${type}:${subtype}`, type: subtype, name };
  });
  const keys = new Set(known.map(({ api, name }) => `${api}/${name}`));
  for (const { name, error, remote } of status.resources) {
    if (!name || name.subtype === "" || error === "") continue;
    const api = `${name.namespace}:${name.type}:${name.subtype}`;
    const isListed = [name.name, `${remote}:${name.name}`].some((one) => keys.has(`${api}/${one}`));
    if (!isListed && !api.startsWith("rdk-internal:")) {
      known.push({ api, type: name.subtype, name: name.name, error });
    }
  }
  return known;
}

async function described(
  machine: MachineClient,
  { api, name, error }: KnownResource,
): Promise<FoundResource> {
  const known = APIS.find((one) => one.name === api);
  if (known) {
    const { desc, namedBy, captured } = known;
    return { api, name, desc, namedBy, error, watched: captured === "none" ? [] : Object.keys(captured) };
  }
  const { resourceRpcSubtypes } = await machine.robot.resourceRPCSubtypes({}, machine.limits);
  const own = resourceRpcSubtypes.find(({ subtype }) =>
    subtype && `${subtype.namespace}:${subtype.type}:${subtype.subtype}` === api
  );
  if (!own) throw new SvcError("not_found", `the machine does not describe the API ${api} of ${name}`);
  const desc = await describeService(machine.channel, own.protoService, machine.limits);
  return { api, name, desc, namedBy: ["name"], error, watched: [] };
}

/** The method with this name, however its words are joined: `GetPosition`, `getPosition`, `get_position`. */
export function findMethod({ desc, name }: FoundResource, wanted: string): DescMethod {
  const found = desc.methods.find((method) => folded(method.name) === folded(wanted));
  if (found) return found;
  const names = desc.methods.map((method) => method.name);
  const near = suggest(wanted, names) ?? suggest(`Get${wanted}`, names);
  throw new UsageError(`${name} has no method "${wanted}"${hint(near, names)}`);
}

function folded(name: string): string {
  return name.replaceAll(/[-_]/g, "").toLowerCase();
}

function hint(near: string | undefined, names: readonly string[]): string {
  if (near !== undefined) return `; did you mean ${near}?`;
  if (names.length === 0) return "; it has none";
  const shown = names.slice(0, NAMES_SHOWN).join(", ");
  return `; it has ${shown}${names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : ""}`;
}
