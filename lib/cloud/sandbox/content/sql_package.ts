/** The names of DuckDB's package and addon, for those that load or embed it. */

/** The package, by whose name executables embed the addon and its library. */
export const SQL_PACKAGE = "@duckdb/node-api";
/** The addon in its package for a system. */
export const SQL_ADDON = "duckdb.node";
