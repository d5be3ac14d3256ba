/** The host names of machine parts, and the domain that they share. */

import { SvcError } from "../../base/error.ts";
import type { Part } from "./parts.ts";
import { notedSetting, noteSetting } from "../store/settings.ts";
import type { Sql, Store } from "../store/store.ts";

/** The domain of all machine names by default; it does not exist in public DNS. */
export const MACHINE_DOMAIN = "svc.internal";
const DOMAIN_CHARS_MAX = 120;
/** The key under which commands find the domain. */
const NOTE = "machine domain";
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
