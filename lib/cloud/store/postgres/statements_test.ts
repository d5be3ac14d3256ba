/** The texts of statements for PostgreSQL, and what the driver's objects keep of them. */

import { assert, assertEquals, assertRejects, assertStrictEquals, assertStringIncludes } from "@std/assert";
import { NumberedTexts, PreparedTexts, runStatement, type StatementSender } from "./statements.ts";

Deno.test("NumberedTexts: each ? gets its number, whether a text is new, known or was forgotten", () => {
  const texts = new NumberedTexts();
  assertEquals(texts.of("SELECT 1"), "SELECT 1");
  const wanted = "INSERT INTO t VALUES ($1, $2), ($3, $4)";
  const rows = (count: number) => `INSERT INTO t VALUES ${Array(count).fill("(?, ?)").join(", ")}`;
  assertEquals(texts.of(rows(2)), wanted);
  assertStringIncludes(texts.of(rows(11)), "($19, $20), ($21, $22)");
  // There are more texts than it keeps, and one comes again and again.
  for (let count = 1; count < 1_700; count++) {
    assertEquals(texts.of(`SELECT ${count} WHERE ? = ?`), `SELECT ${count} WHERE $1 = $2`);
    if (count % 100 === 0) assertEquals(texts.of(rows(2)), wanted);
  }
});

Deno.test("PreparedTexts: however many texts come, those that are prepared have few values", () => {
  const texts = new PreparedTexts();
  assertEquals([texts.admit("SELECT 1", 0), texts.admit("SELECT ?", 1)], [true, true]);
  assertEquals(texts.admit("INSERT", 2_000), false);
  let values = 0;
  for (let count = 1; count <= 400; count++) {
    for (const table of ["logs", "readings"]) {
      if (texts.admit(`INSERT INTO ${table} ${count}`, count)) values += count;
    }
  }
  assert(values > 10_000 && values < 40_000, `${values} values`);
  // Those from before stay so.
  assertEquals(["SELECT ?", "INSERT INTO logs 5", "SELECT 2"].map((text) => texts.admit(text, 500)), [
    true,
    true,
    false,
  ]);
});

Deno.test("runStatement: the driver's object keeps neither text nor values, also after a failure", async () => {
  const failure = new Error("no such table");
  const sent: Record<string, unknown>[] = [];
  const sender = (answer: Promise<unknown>): StatementSender => ({
    unsafe(text, values) {
      const statement = Object.assign(answer, {
        ...{ strings: [text], args: values, string: text, signature: text, parameters: values },
      });
      sent.push(statement as unknown as Record<string, unknown>);
      return statement;
    },
  });
  const rows = [{ one: 1 }], values = [new Uint8Array(1000)];
  assertStrictEquals(await runStatement(sender(Promise.resolve(rows)), "SELECT $1", values), rows);
  const failing = runStatement(sender(Promise.reject(failure)), "SELECT $1", values);
  assertStrictEquals(await assertRejects(() => failing), failure);
  for (const { strings, args, string, signature, parameters } of sent) {
    assertEquals([strings, args, string, signature, parameters], Array(5).fill(undefined));
  }
  assertEquals([sent.length, values.length], [2, 1]);
});
