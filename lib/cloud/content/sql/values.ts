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
  return chunk.getRows().map((row) => row.map((value, at) => convert(value, types[at]!, convert)));
}

/** Whole numbers in BSON have 64 bits; larger ones become floating-point numbers. */
function wholeNumber(value: bigint): number | Long {
  const number = Number(value);
  if (Number.isInteger(number) && Math.abs(number) < 2 ** 31) return number;
  return BigInt.asIntN(64, value) === value ? Long.fromBigInt(value) : number;
}

/** A text within JSON, or a number that JSON does not have, which DuckDB writes all the same. */
const TEXTS_AND_NUMBERS = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|nan|Infinity|inf)\b/g;

/** DuckDB may return JSON that JavaScript cannot parse: numbers such as NaN are null, and anything else stays a text. */
function jsonIn(text: string): unknown {
  const standard = () => text.replace(TEXTS_AND_NUMBERS, (one) => one.startsWith('"') ? one : "null");
  const [found] = parsed(text) ?? parsed(standard()) ?? [text];
  return found;
}

/** The value alone in a list, which may be null; `undefined` if the text is no JSON. */
function parsed(text: string): readonly [unknown] | undefined {
  try {
    return [JSON.parse(text)];
  } catch {
    return undefined;
  }
}
