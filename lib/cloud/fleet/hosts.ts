/**
 * The host names of machine parts, and the part of a host name.
 */

import { SvcError } from "../../base/error.ts";
import type { CallContext } from "../../wire/service.ts";
import type { Closeness } from "../access/access.ts";
import { actorOf, type CloudContext } from "../context.ts";
import { Fleet, type Part } from "./fleet.ts";
import type { Sql } from "../store/store.ts";

/** The domain of all machine names; it does not exist in public DNS. */
const DOMAIN = "svc.internal";
const HOST_CHARS_MAX = 253;
/** Locations in one certificate: each TLS handshake carries all its names. */
const CERTIFIED_LOCATIONS_MAX = 200;

/** The host names of a part. */
export function partNames({ name, locationId }: Pick<Part, "name" | "locationId">) {
  const word = name.toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 63) || "part";
  return { fqdn: `${word}.${locationId}.${DOMAIN}`, localFqdn: `${word}.${locationId}.local.${DOMAIN}` };
}

/**
 * Names for a certificate that cover the machines of all locations, or of the oldest 200. None where several
 * organizations share the control plane: everybody who connects sees a certificate, and ids of one organization are
 * none of another's business.
 */
export async function machineNames(sql: Sql): Promise<string[]> {
  if ((await sql.query("SELECT id FROM organizations LIMIT 2")).length > 1) return [];
  const oldest = "SELECT id FROM locations ORDER BY created_ms, id LIMIT ?";
  const found = await sql.query<{ id: string }>(oldest, CERTIFIED_LOCATIONS_MAX);
  return found.map(({ id }) => `*.${id}.${DOMAIN}`);
}

/** The parts of a host name: none, or several if people gave them names with the same spelling. */
async function partsOf(sql: Sql, host: string): Promise<Part[]> {
  if (host.length > HOST_CHARS_MAX) return [];
  const [, locationId] = host.split(".");
  if (!locationId || locationId.includes("\0")) return [];
  return (await new Fleet(sql).partsIn([locationId])).filter((part) => {
    const { fqdn, localFqdn } = partNames(part);
    return host === fqdn || host === localFqdn;
  });
}

/**
 * The part of a host name, for a caller with `need` on it. Throws `permission_denied`, with the same words, for a
 * caller without the role and for a missing part; records the attempt.
 */
export async function partFor(
  { store, access, audit }: CloudContext,
  ctx: CallContext,
  host: string,
  need: Closeness,
): Promise<Part> {
  if (host === "") throw new SvcError("invalid_argument", "found no host, wanted the name of a machine");
  const parts = await partsOf(store, host);
  const refused = new SvcError("permission_denied", `this needs an API key that opens the machine "${host}"`);
  if (parts.length === 0) throw refused;
  for (const { id } of parts) {
    if (await access.may(ctx.entity, need, { kind: "part", id })) continue;
    await audit.refused(actorOf(ctx), [{ kind: "part", id }]);
    throw refused;
  }
  if (parts.length === 1) return parts[0];
  const names = parts.map(({ name, machineName }) => `"${name}" of ${machineName}`).join(" and ");
  throw new SvcError("failed_precondition", `${names} have the name ${host}: rename one of them`);
}
