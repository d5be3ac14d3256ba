/**
 * A migration step: records the parts and fragments that name an item of the registry, which only the configurations
 * contained before.
 *
 * The step reads configurations as the program did when the step was written, and is not changed later.
 */

import type { Sql } from "../store.ts";

/** Limit of configurations in memory. */
const ROWS_A_QUERY = 20;
const USES_MAX = 1_000;
const ITEM = /^[\w.-]{1,100}[/:][\w.-]{1,200}$/;
const VERSION = /^[ -~]{0,128}$/;

export const PACKAGE_USE_TABLES: readonly (string | ((sql: Sql) => Promise<void>))[] = [
  `CREATE TABLE part_packages (
    part_id TEXT NOT NULL REFERENCES parts (id) ON DELETE CASCADE,
    item TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (part_id, item, version)
  )`,
  `CREATE INDEX part_packages_by_item ON part_packages (item)`,
  `CREATE TABLE fragment_packages (
    fragment_id TEXT NOT NULL REFERENCES fragments (id) ON DELETE CASCADE,
    item TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (fragment_id, item, version)
  )`,
  `CREATE INDEX fragment_packages_by_item ON fragment_packages (item)`,
  recordPackageUses,
];

export async function recordPackageUses(sql: Sql): Promise<void> {
  for (const kind of ["part", "fragment"]) {
    let last = "";
    for (;;) {
      const found = await sql.query<{ id: string; config: string }>(
        `SELECT id, config FROM ${kind}s WHERE id > ?
           AND (config LIKE '%"packages"%' OR config LIKE '%"module_id"%') ORDER BY id LIMIT ?`,
        last,
        ROWS_A_QUERY,
      );
      for (const { id, config } of found) {
        for (const [item, version] of usesIn(config)) {
          await sql.query(
            `INSERT INTO ${kind}_packages (${kind}_id, item, version) VALUES (?, ?, ?)`,
            id,
            item,
            version,
          );
        }
      }
      const end = found.at(-1);
      if (!end || found.length < ROWS_A_QUERY) break;
      last = end.id;
    }
  }
}

/** Each item with the version at which a configuration names it, once. */
function usesIn(config: string): [string, string][] {
  const { modules, packages } = JSON.parse(config) as { modules?: unknown; packages?: unknown };
  const listed = (list: unknown) => (Array.isArray(list) ? list : []).filter((one) => one instanceof Object);
  const named: [unknown, unknown][] = [
    ...listed(modules).map((one): [unknown, unknown] => [one.module_id, one.version]),
    ...listed(packages).map((one): [unknown, unknown] => [one.package, one.version]),
  ];
  const uses = named.flatMap(([id, version]): [string, string][] => {
    if (typeof id !== "string" || !ITEM.test(id)) return [];
    const isVersion = typeof version === "string" && VERSION.test(version);
    return [[id.replace(":", "/"), isVersion ? version : ""]];
  });
  return [...new Map(uses.map((use) => [use.join(" "), use])).values()].slice(0, USES_MAX);
}
