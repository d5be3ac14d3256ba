/**
 * Lookups: statements that find a few small rows by an index.
 *
 * Such a statement takes some microseconds, a trip to another process a hundred times as long. So SQLite may answer it
 * in the main thread (`sqlite/main_thread.ts`), if its plan satisfies these rules: every step finds its rows by
 * equality in an index, and nothing is sorted or stored in between.
 */

export interface Lookup {
  /** One SELECT without ORDER BY, DISTINCT and LIMIT. Its columns are short: no configuration and no content. */
  readonly text: string;
  /** With more rows it runs like any other statement. */
  readonly rowsMax: number;
}

/** Declares a lookup of at most `rowsMax` rows; of one row by default. */
export function lookup(text: string, rowsMax = 1): Lookup {
  return { text, rowsMax };
}

export function sqlOf(statement: string | Lookup): string {
  return typeof statement === "string" ? statement : statement.text;
}
