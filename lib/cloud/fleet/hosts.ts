/**
 * The host names of machine parts, and the part of a host name.
 */

import { SvcError } from "../../base/error.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import type { AccessLevel } from "../access/access.ts";
import { actorOf, type CloudContext } from "../context.ts";
import { Fleet, type Part } from "./fleet.ts";
import { notedSetting, noteSetting } from "../store/settings.ts";
import type { Sql, Store } from "../store/store.ts";

/** The domain of all machine names by default; it does not exist in public DNS. */
export const MACHINE_DOMAIN = "svc.internal";
const DOMAIN_CHARS_MAX = 120;
/** The key under which commands find the domain. */
const NOTE = "machine domain";
const HOST_CHARS_MAX = 253;
const HOST_SHOWN_CHARS = 80;
const HOST_NAME = /^[\w-]+(\.[\w-]+)+$/;
/** Locations in one certificate: each TLS handshake carries all its names. */
const CERTIFIED_LOCATIONS_MAX = 200;

/** The host names of a part. */
export function partNames(
  { hostWord, locationId }: Pick<Part, "hostWord" | "locationId">,
  domain = MACHINE_DOMAIN,
) {
  return {
    fqdn: `${hostWord}.${locationId}.${domain}`,
    localFqdn: `${hostWord}.${locationId}.local.${domain}`,
  };
}

/** Every name by which programs may call a part: those from before the operator chose a domain stay valid. */
export function everyName(part: Pick<Part, "hostWord" | "locationId">, domain = MACHINE_DOMAIN): string[] {
  const names = [domain, MACHINE_DOMAIN].flatMap((one) => Object.values(partNames(part, one)));
  return [...new Set(names)];
}

/** The name in `rover-main.abc.svc.internal:8090`: programs may send the address that they dial. */
export function withoutPort(host: string): string {
  return host.replace(/:\d+$/, "");
}

/** A domain for machine names, in lower case. Throws `invalid_argument`. */
export function checkedDomain(text: string): string {
  const domain = text.toLowerCase().replace(/\.$/, "");
  const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
  if (domain.length <= DOMAIN_CHARS_MAX && domain.split(".").every((word) => label.test(word))) return domain;
  throw new SvcError(
    "invalid_argument",
    `found the domain ${
      JSON.stringify(text)
    }, wanted a DNS name of at most ${DOMAIN_CHARS_MAX} characters, such ` +
      "as robots.example.com",
  );
}

/** Stores the domain of the machines for commands. */
export async function noteDomain(store: Store, domain: string): Promise<void> {
  await store.transaction((sql) => noteSetting(sql, NOTE, domain));
}

/** The domain last stored for the control plane of this database. */
export async function notedDomain(sql: Sql): Promise<string> {
  return await notedSetting(sql, NOTE) ?? MACHINE_DOMAIN;
}

/**
 * Names for a certificate that cover the machines of all locations, or of the oldest 200. Empty if several
 * organizations share the control plane, because everybody who connects sees the certificate, which must not reveal
 * ids of an organization to others.
 */
export async function machineNames(sql: Sql, domain = MACHINE_DOMAIN): Promise<string[]> {
  if ((await sql.query("SELECT id FROM organizations LIMIT 2")).length > 1) return [];
  const oldest = "SELECT id FROM locations ORDER BY created_ms, id LIMIT ?";
  const found = await sql.query<{ id: string }>(oldest, CERTIFIED_LOCATIONS_MAX);
  return found.map(({ id }) => `*.${id}.${domain}`);
}

/** The part with a host name. */
async function partAt({ store, machineDomain }: CloudContext, host: string): Promise<Part | undefined> {
  if (host.length > HOST_CHARS_MAX || host.includes("\0")) return undefined;
  const [word, locationId = ""] = host.split(".");
  const part = await new Fleet(store).partAtHost(locationId, word);
  return part && everyName(part, machineDomain).includes(host) ? part : undefined;
}

/** An address, or the name that people give a machine, is no host name; nobody's key would help. */
function requireName(host: string): void {
  if (HOST_NAME.test(host)) return;
  const found = host === "" ? "no host" : `the host ${JSON.stringify(host.slice(0, HOST_SHOWN_CHARS))}`;
  throw new SvcError(
    "invalid_argument",
    `found ${found}, wanted the DNS name of a machine, such as main.LOCATION.${MACHINE_DOMAIN} (svc-cloud hosts ` +
      "prints it)",
  );
}

/**
 * The part of a host name, for a caller with `need` on it. Throws `invalid_argument` for other texts, and
 * `permission_denied`, with the same words, for a caller without the role and for a missing part; records the attempt.
 */
export async function partFor(
  cloud: CloudContext,
  ctx: CallContext,
  host: string,
  need: AccessLevel,
): Promise<Part> {
  const { access, audit } = cloud;
  requireName(host);
  const part = await partAt(cloud, host);
  const refused = new SvcError("permission_denied", `this needs an API key that opens the machine "${host}"`);
  if (!part) throw refused;
  const ref = { kind: "part", id: part.id } as const;
  if (await access.may(ctx.entity, need, ref)) return part;
  await audit.refused(actorOf(ctx), [ref]);
  throw refused;
}
