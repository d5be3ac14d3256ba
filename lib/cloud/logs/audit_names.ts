/**
 * The names in an organization's audit log: of who acted, and of the objects.
 *
 * Nobody learns of others than the organization's own keys and members: a stranger who was refused, an administrator
 * and a guest have no id here.
 */

import { placeholders, type Sql } from "../store/store.ts";
import { isPerson } from "../access/context.ts";
import type { AuditEntry } from "../access/audit.ts";

export interface NamedEntry extends Omit<AuditEntry, "who"> {
  /** Its id; empty for somebody who does not belong to the organization. */
  readonly who: string;
  readonly whoName: string;
  /** `operator`: at the command line of the control plane's host. */
  readonly whoKind: "key" | "person" | "operator" | "other";
  readonly resourceName: string;
}

/** Words of an object that may be ids. */
const IDS = /[\w-]{10,}/g;

/** Limits of the keys that a search by name looks at, and of those that it finds. */
const ACTORS_MAX = 10_000;
const NAMED_MAX = 1_000;

/** Things of an organization with a name. */
const NAMES = [
  "SELECT id, name FROM organizations WHERE id = ? AND id IN",
  "SELECT id, name FROM locations WHERE organization_id = ? AND id IN",
  `SELECT m.id, m.name FROM machines m JOIN locations l ON l.id = m.location_id
    WHERE l.organization_id = ? AND m.id IN`,
  `SELECT p.id, p.name FROM parts p JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
    WHERE l.organization_id = ? AND p.id IN`,
  "SELECT id, name FROM fragments WHERE organization_id = ? AND id IN",
  "SELECT id, name FROM api_keys WHERE organization_id = ? AND id IN",
];

export async function namedEntries(
  sql: Sql,
  organizationId: string,
  members: ReadonlyMap<string, string>,
  entries: readonly AuditEntry[],
): Promise<NamedEntry[]> {
  const words = entries.flatMap(({ who, resource }) => [who, ...resource.match(IDS) ?? []]);
  const ids = [...new Set(words)].filter((id) => !isPerson(id));
  const names = new Map(members);
  const strangers = new Set<string>();
  if (ids.length > 0) {
    for (const text of NAMES) {
      const found = await sql.query<{ id: string; name: string }>(
        `${text} (${placeholders(ids)})`,
        organizationId,
        ...ids,
      );
      for (const { id, name } of found) names.set(id, name);
    }
    // A key that is gone tells nothing about anybody.
    const text = `SELECT id FROM api_keys WHERE id IN (${placeholders(ids)})`;
    const known = await sql.query<{ id: string }>(text, ...ids);
    for (const { id } of known) if (!names.has(id)) strangers.add(id);
  }
  const shown = (id: string) => strangers.has(id) ? "somebody else" : names.get(id) ?? id;
  return entries.map((entry) => ({
    ...entry,
    ...actorNamed(entry.who, { names, strangers, members }),
    resource: entry.resource.replaceAll(IDS, (id) => strangers.has(id) ? "somebody else" : id),
    resourceName: entry.resource.replaceAll(IDS, shown),
  }));
}

/** Keys and members of the organization with a text in their name. */
export async function actorsNamed(
  sql: Sql,
  organizationId: string,
  members: ReadonlyMap<string, string>,
  text: string,
): Promise<string[]> {
  const wanted = text.toLowerCase();
  const keys = await sql.query<{ id: string; name: string }>(
    "SELECT id, name FROM api_keys WHERE organization_id = ? LIMIT ?",
    organizationId,
    ACTORS_MAX,
  );
  const all = [...members, ...keys.map(({ id, name }) => [id, name] as const)];
  return all.filter(([, name]) => name.toLowerCase().includes(wanted)).slice(0, NAMED_MAX).map(([id]) => id);
}

function actorNamed(
  who: string,
  { names, strangers, members }: {
    readonly names: ReadonlyMap<string, string>;
    readonly strangers: ReadonlySet<string>;
    readonly members: ReadonlyMap<string, string>;
  },
): Pick<NamedEntry, "who" | "whoName" | "whoKind"> {
  if (isPerson(who)) return { who: "", whoName: "", whoKind: "operator" };
  if (strangers.has(who) || who === "") return { who: "", whoName: "", whoKind: "other" };
  return { who, whoName: names.get(who) ?? "", whoKind: members.has(who) ? "person" : "key" };
}
