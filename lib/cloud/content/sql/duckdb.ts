/**
 * Loads DuckDB; the only file that imports it.
 */

import { createRequire } from "node:module";
import { join } from "node:path";
import { messageOf, SvcError } from "../../../base/error.ts";
import { withPacked } from "../../../base/native/packed.ts";
import { SQL_ADDON, SQL_PACKAGE } from "../../sandbox/content/sql_package.ts";

export type {
  DuckDBConnection,
  DuckDBDataChunk,
  DuckDBInstance,
  DuckDBResult,
  DuckDBType,
  DuckDBValue,
  DuckDBValueConverter,
} from "@duckdb/node-api";

export type DuckDb = typeof import("@duckdb/node-api");

/** A name for an executable's own addon, where its bundle looks for addons (`cli/build/bundle.ts`). */
export const ADDONS = Symbol.for("svc.addons");

export async function loadDuckDb(): Promise<DuckDb> {
  try {
    await withPacked(SQL_PACKAGE, (folder) => {
      const addon = createRequire(import.meta.url)(join(folder, SQL_ADDON));
      Object.assign(globalThis, { [ADDONS]: { [SQL_ADDON]: addon } });
    });
    const module = await import("@duckdb/node-api");
    // A bundle exports a whole CommonJS module as its default.
    return "DuckDBInstance" in module ? module : (module as { default: DuckDb }).default;
  } catch (cause) {
    throw new SvcError("unavailable", `cannot load DuckDB, which runs SQL: ${messageOf(cause)}`, { cause });
  }
}
