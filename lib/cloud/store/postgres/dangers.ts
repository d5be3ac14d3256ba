/**
 * Finds what is dangerous about a PostgreSQL database, for its operators: settings that let others do more than they
 * should, and indexes in an order that is no longer the system's.
 */

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

/** PostgreSQL 15 is the first to know them. */
const ORDER_VERSIONS_FROM = 150_000;

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
  return [...dangers, ...await orderDangers(sql, database)];
}

/**
 * Libraries of the system define the order of texts. After an update of the system, or a restore elsewhere, an index in
 * the former order misses rows and admits double ones; PostgreSQL itself only warns its clients.
 */
async function orderDangers(sql: Sql, database: string): Promise<string[]> {
  const version = await queryOne<{ number: number }>(
    sql,
    "SELECT CAST(current_setting('server_version_num') AS BIGINT) AS number",
  );
  if (version.number < ORDER_VERSIONS_FROM) return [];
  const { made, now } = await queryOne<{ made: string | null; now: string | null }>(
    sql,
    `SELECT d.datcollversion AS made, pg_database_collation_actual_version(d.oid) AS now
     FROM pg_catalog.pg_database d WHERE d.datname = current_database()`,
  );
  if (made === null || now === null || made === now) return [];
  const name = quoted(database);
  return [
    `its indexes of texts are in the order of version ${made} of the system's collation, and the server has ${now}: ` +
    `rows may not be found, or be there twice; stop svc-cloud, then REINDEX DATABASE ${name}; ` +
    `ALTER DATABASE ${name} REFRESH COLLATION VERSION`,
  ];
}

/** A name, quoted for a statement. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
