/**
 * The grammar of SQL: PostgreSQL's, with paths of any depth and with names in any letter case.
 */

import { type Expr, parse, type SelectFromStatement, type Statement, toSql } from "pgsql-ast-parser";
import { messageOf, SvcError } from "../../../base/error.ts";

export type { Expr, ExprCall, ExprRef, SelectFromStatement } from "pgsql-ast-parser";

const TEXT_MAX = 20_000;
const SHOWN_MAX = 100;

export function badSql(why: string): SvcError {
  return new SvcError("invalid_argument", `sql_query: ${why}`);
}

/** Reads one SELECT. A path is one name with dots in it. Throws `invalid_argument`. */
export function parsedSelect(text: string): SelectFromStatement {
  if (text.length > TEXT_MAX) {
    throw badSql(`it has ${text.length} characters, wanted at most ${TEXT_MAX}`);
  }
  let statements: Statement[];
  try {
    statements = parse(quotedPaths(text));
  } catch (error) {
    // The parser shows the query and its own table below the first line.
    throw badSql(messageOf(error).split("\n")[0].replace(/:$/, ""));
  }
  const [first] = statements;
  if (statements.length === 1 && first.type === "select") return first;
  throw badSql(`found ${statements.map(({ type }) => type).join(", ") || "nothing"}, wanted one SELECT`);
}

/** An expression as a person may have written it. */
export function shown(expr: Expr): string {
  return toSql.expr(expr).slice(0, SHOWN_MAX);
}

const PART = String.raw`(?:[A-Za-z_]\w*|"(?:[^"]|"")*"|` + "`[^`]*`)";
const WORDS = new RegExp(String.raw`'(?:[^']|'')*'|${PART}(?:\s*\.\s*${PART})*(?!\w|\s*\()`, "g");

/** Turns each path, and each name whose letter case or quotes the parser would not keep, into one quoted name. */
function quotedPaths(text: string): string {
  return text.replace(WORDS, (found) => {
    if (found.startsWith("'")) return found;
    const parts = Array.from(found.matchAll(new RegExp(PART, "g")), ([part]) => part);
    const mixed = /[a-z]/.test(found) && /[A-Z]/.test(found);
    if (parts.length === 1 && !mixed && !found.startsWith("`")) return found;
    const bare = parts.map((part) => /^["`]/.test(part) ? part.slice(1, -1).replaceAll('""', '"') : part);
    return `"${bare.join(".").replaceAll('"', '""')}"`;
  });
}
