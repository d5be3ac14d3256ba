import { assertEquals, assertThrows } from "@std/assert";
import { concatenated, frameOf, type SqliteAnswer, SqliteFrames, type SqliteRequest } from "./frames.ts";

const ANSWER: SqliteAnswer = {
  answers: [
    { at: 0, columns: ["a", "b"], rows: [["x\0\ud800ü", 1.5], [null, new Uint8Array([0, 255])]] },
    { at: 1, columns: ["c"], rows: [[Infinity], [-Infinity], [new Uint8Array(70_000).fill(7)], [2 ** 53]] },
    { at: 2, failed: { code: "internal", message: "m" } },
  ],
  more: true,
};
const REQUESTS: SqliteRequest[] = [
  { open: "/a", reads: true },
  { statements: [["SELECT ?", "packed", new Uint8Array()], ["SELECT 1"]] },
  {
    batch: [{ text: "INSERT", values: [new Uint8Array([1]), "[0,1]"], stops: true }, {
      text: "b",
      values: [],
    }],
  },
  { close: true },
];

Deno.test("SqliteFrames: every value arrives as it was, in pieces of any size", () => {
  const bytes = concatenated([ANSWER, ...REQUESTS].flatMap(frameOf));
  for (const size of [1, 7, 4096, bytes.length]) {
    const frames = new SqliteFrames<SqliteRequest | SqliteAnswer>();
    const found = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...frames.add(bytes.slice(at, at + size)));
    assertEquals(JSON.parse(JSON.stringify(found)), JSON.parse(JSON.stringify([ANSWER, ...REQUESTS])));
    const [{ answers }] = found as [SqliteAnswer];
    assertEquals(answers.slice(0, 2), ANSWER.answers.slice(0, 2));
  }
});

Deno.test("frameOf: refuses what no database holds", () => {
  for (const value of [undefined, 1n, true, {}]) {
    assertThrows(() => frameOf({ statements: [["SELECT ?", value as never]] }), TypeError, "found a value");
  }
});
