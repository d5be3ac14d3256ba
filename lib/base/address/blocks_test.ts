import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../error.ts";
import { AddressBlocks } from "./blocks.ts";

Deno.test("AddressBlocks: an address alone means itself, a network all of its addresses", () => {
  const cases: [written: string, inside: string[], outside: string[]][] = [
    ["10.1.2.3", ["10.1.2.3", "::ffff:10.1.2.3"], ["10.1.2.2", "10.1.2.4", "::1"]],
    ["10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]],
    ["10.1.2.3/32", ["10.1.2.3"], ["10.1.2.4"]],
    ["fd00:1:2:3::4", ["fd00:1:2:3::4", "FD00:1:2:3:0::4"], ["fd00:1:2:3::5", "fd00:1:9::4"]],
    ["fd00::/8", ["fd00::", "fdff::1"], ["fc00::1", "fe00::1"]],
    ["fd00::4/128", ["fd00::4"], ["fd00::5"]],
    ["0.0.0.0/0", ["203.0.113.7"], ["::1", "", "localhost"]],
  ];
  for (const [written, inside, outside] of cases) {
    const blocks = new AddressBlocks([written]);
    assertEquals(inside.filter((one) => !blocks.has(one)), [], written);
    assertEquals(outside.filter((one) => blocks.has(one)), [], written);
  }
  assertEquals(new AddressBlocks(["10.0.0.0/8"]).has(undefined), false);
});

Deno.test("AddressBlocks: anything else is refused", () => {
  for (
    const written of [
      "",
      "localhost",
      "10.0.0.0/33",
      "fd00::/129",
      "10.0.0.0/",
      "10.0.0.0/8/8",
      "10.0.0.0/-1",
    ]
  ) {
    const error = assertThrows(
      () => new AddressBlocks([written]),
      SvcError,
      `found "${written}", wanted an address`,
    );
    assertEquals(error.code, "invalid_argument");
  }
});
