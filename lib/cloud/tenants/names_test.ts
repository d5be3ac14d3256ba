import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { checkedName } from "./names.ts";

Deno.test("checkedName: refuses empty, long, control and invisible characters", () => {
  for (const name of ["a", "Größe 測試 🙂", 'it\'s "x" $(id)', "x".repeat(200)]) {
    assertEquals(checkedName(name), name);
  }
  for (
    const name of [
      "",
      "  ",
      "x".repeat(201),
      "a\nb",
      "a\tb",
      "\x1b[2J",
      "a\u202eb",
      "\u2066",
      "a\0",
      "\x9b31m",
    ]
  ) {
    assertEquals(assertThrows(() => checkedName(name), SvcError).code, "invalid_argument");
  }
  assertEquals(assertThrows(() => checkedName("\x1b[2J"), SvcError).message.includes("\x1b"), false);
});
