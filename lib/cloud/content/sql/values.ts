/**
 * Values of DuckDB as values of BSON.
 */

import { Long } from "../answer.ts";
import type { DuckDb, DuckDBDataChunk, DuckDBType, DuckDBValue, DuckDBValueConverter } from "./duckdb.ts";

/** The rows of a chunk with columns of these types; its own types do not say what is JSON. */
export function bsonRows(
  duckDb: DuckDb,
  chunk: DuckDBDataChunk,
  types: readonly DuckDBType[],
): unknown[][] {
  const { DuckDBTypeId: Id, JSDuckDBValueConverter: common } = duckDb;
  const texts: readonly number[] = [Id.TIME, Id.TIME_TZ, Id.TIME_NS, Id.INTERVAL, Id.BIT, Id.UUID];
  const convert = (value: DuckDBValue, type: DuckDBType, inner: DuckDBValueConverter<unknown>): unknown => {
    if (value === null) return null;
    if (type.alias === "JSON") return jsonIn(String(value));
    if (texts.includes(type.typeId)) return String(value);
    const found = common(value, type, inner as never) as unknown;
    if (typeof found === "bigint") return wholeNumber(found);
    // An infinite time becomes null.
    return found instanceof Date && Number.isNaN(found.getTime()) ? null : found;
  };
  return chunk.getRows().map((row) => row.map((value, at) => convert(value, types[at], convert)));
}

/** Whole numbers in BSON have 64 bits; larger ones become floating-point numbers. */
function wholeNumber(value: bigint): number | Long {
  const number = Number(value);
  if (Number.isInteger(number) && Math.abs(number) < 2 ** 31) return number;
  return BigInt.asIntN(64, value) === value ? Long.fromBigInt(value) : number;
}

/** DuckDB may return JSON that JavaScript cannot parse; it stays a text. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
