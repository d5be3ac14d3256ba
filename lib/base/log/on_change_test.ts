import { assertEquals } from "@std/assert";
import { LogOnChange } from "./on_change.ts";

Deno.test("LogOnChange: a text is new once for each subject, and again after a change or the end of the problem", () => {
  const changes = new LogOnChange();
  assertEquals(["", "a", "a", "b", "a"].map((text) => changes.isNew(text)), [false, true, false, true, true]);
  assertEquals([changes.isNew("a", "other"), changes.last("other"), changes.last()], [true, "a", "a"]);
  assertEquals([changes.isNew(""), changes.isNew(""), changes.isNew("a")], [true, false, true]);

  changes.clear();
  assertEquals([changes.last(), changes.isNew("a")], ["", true]);
});

Deno.test("LogOnChange: remembers a limited number of subjects, the latest ones", () => {
  const changes = new LogOnChange(2);
  for (const subject of ["1", "2", "3"]) changes.isNew("problem", subject);
  assertEquals(["3", "2", "1"].map((subject) => changes.isNew("problem", subject)), [false, false, true]);
});
