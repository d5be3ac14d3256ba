import { assertEquals, assertStringIncludes } from "@std/assert";
import { otherRuntime, PINNED_DENO } from "./version.ts";

Deno.test("otherRuntime: the product's own runtime gives no remark, another one is named", () => {
  assertEquals(otherRuntime(PINNED_DENO), undefined);
  assertStringIncludes(otherRuntime("2.0.1")!, `is made for Deno ${PINNED_DENO} and runs on 2.0.1`);
});
