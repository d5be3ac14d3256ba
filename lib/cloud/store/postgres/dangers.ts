/** Finds settings of a PostgreSQL database that let others do more than they should, for its operators. */

import { queryOne, type Sql } from "../store.ts";

interface Found {
  readonly role: string;
  readonly database: string;
  readonly schema: string | null;
  readonly powers: string;
  readonly anybodyCreates: number;
  readonly anybodyConnects: number;
}

/**
 * Powers that the role of svc-cloud does not need, and what an attacker who has found a hole in svc-cloud
 * could do with them.
 */
const POWERS = `concat_ws(', ',
  CASE WHEN r.rolsuper THEN 'SUPERUSER' END, CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END,
  CASE WHEN r.rolcreatedb THEN 'CREATEDB' END, CASE WHEN r.rolreplication THEN 'REPLICATION' END,
  CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END)`;

/** A sentence for each danger, with the statement that removes it. */
export async function databaseDangers(sql: Sql): Promise<string[]> {
  const found = await queryOne<Found>(
    sql,
    `SELECT r.rolname AS role, current_database() AS database, current_schema() AS schema, ${POWERS} AS powers,
       CASE WHEN has_schema_privilege('public', current_schema(), 'CREATE') THEN 1 ELSE 0 END AS "anybodyCreates",
       CASE WHEN has_database_privilege('public', current_database(), 'CONNECT') THEN 1 ELSE 0 END
         AS "anybodyConnects"
     FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`,
  );
  const { role, database, schema, powers } = found;
  const dangers: string[] = [];
  if (powers !== "") {
    const without = powers.split(", ").map((power) => `NO${power}`).join(" ");
    dangers.push(
      `the role ${role} has ${powers}, which svc-cloud does not need: ALTER ROLE ${quoted(role)} ${without}`,
    );
  }
  if (found.anybodyCreates !== 0) {
    dangers.push(
      `every role may make functions in the schema ${schema}, which svc-cloud's statements would call: ` +
        `REVOKE CREATE ON SCHEMA ${quoted(schema ?? "")} FROM PUBLIC`,
    );
  }
  if (found.anybodyConnects !== 0) {
    dangers.push(
      `every role of the server may connect to the database ${database}, and send forged notices to svc-cloud: ` +
        `REVOKE CONNECT ON DATABASE ${quoted(database)} FROM PUBLIC`,
    );
  }
  return dangers;
}

/** A name, quoted for a statement. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
