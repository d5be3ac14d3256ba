import { assertEquals } from "@std/assert";
import { sidText } from "./tcp_owners.ts";

Deno.test("sidText: all parts of an identifier count, and nothing behind them", () => {
  // S-1-5-21-1-2-3-1001 and S-1-5-18, in the memory of Windows.
  const person = "0105000000000005150000000100000002000000030000" + "00e9030000";
  assertEquals(sidText(Uint8Array.fromHex(`${person}ffff`)), person);
  assertEquals(sidText(Uint8Array.fromHex("0101000000000005120000000000")), "010100000000000512000000");
});
