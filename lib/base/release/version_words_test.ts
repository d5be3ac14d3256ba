import { assertEquals } from "@std/assert";
import { isPrerelease, VERSION_WORDS } from "./version_words.ts";

Deno.test("isPrerelease: numbers with a suffix, not builds, times and words", () => {
  const versions = [
    "1.3.0-rc.1",
    "v2.0.0-0",
    "1.3.0",
    "1.3.0+build-7",
    "2026-11-28T10-00-00",
    ...VERSION_WORDS,
  ];
  assertEquals(versions.filter(isPrerelease), ["1.3.0-rc.1", "v2.0.0-0"]);
});
