import { assertEquals } from "@std/assert";
import { timeText } from "./table.ts";

Deno.test("a time that no calendar has is shown as none", () => {
  const shown = [1_700_000_000n, 8_640_000_000_001n, 2n ** 63n - 1n, -(2n ** 63n)]
    .map((seconds) => timeText({ seconds, nanos: 0 }));
  assertEquals([...shown, timeText(undefined)], ["2023-11-14 22:13:20", "-", "-", "-", "-"]);
});
