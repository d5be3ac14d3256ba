import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { mqlIn, mqlText } from "./pipelines.ts";

Deno.test("mqlText: the stages of a query have up to 64 KiB together, and come back as they were", () => {
  const stagesOf = (...lengths: number[]) => lengths.map((length) => new Uint8Array(length).fill(7));
  for (const stages of [stagesOf(1), stagesOf(65_536), stagesOf(65_000, 0, 536)]) {
    assertEquals(mqlIn(mqlText(stages)), stages);
  }
  const refused: [Uint8Array[], string][] = [
    [[], "no stage"],
    [stagesOf(65_537), "65537 bytes"],
    [stagesOf(65_000, 537), "65537 bytes"],
  ];
  for (const [stages, found] of refused) {
    const { code } = assertThrows(
      () => mqlText(stages),
      SvcError,
      `mql_binary: found ${found}, wanted 1 to 65536 bytes`,
    );
    assertEquals(code, "invalid_argument");
  }
});
