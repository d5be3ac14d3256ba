import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { parseLimits } from "./limits.ts";

Deno.test("parseLimits: refuses unknown keys and invalid values with the file name", async () => {
  assertEquals(parseLimits({ log_lines_per_call: 5 }, "f").logLinesPerCall, 5);
  for (const json of [[], { log_lines_per_cal: 5 }, { log_lines_per_call: 0 }, { log_lines_per_call: "5" }]) {
    await assertRejects(async () => void await parseLimits(json, "f"), SvcError, "f: ");
  }
  const { message } = await assertRejects(async () => void await parseLimits({ nope: 1 }, "f"), SvcError);
  assertEquals(message, "f: nope: unknown key");
});
