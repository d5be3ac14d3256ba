import { assertEquals } from "@std/assert";
import { isLinkLocal } from "./link_local.ts";

Deno.test("isLinkLocal: the addresses of fe80::/10, in any form", () => {
  const addresses = ["fe80::1", "FE80::1", "fe9f:1::2", "feab::", "febf:ffff::1%eth0"];
  assertEquals(addresses.filter((address) => !isLinkLocal(address)), []);
});

Deno.test("isLinkLocal: neither other addresses nor names that begin alike", () => {
  const others = [
    "fe8::1",
    "fea:1::2",
    "fec0::1",
    "fe7f::1",
    "fd00::fe80",
    "::1",
    "169.254.1.1",
    "feast.local",
    "fe80",
  ];
  assertEquals(others.filter(isLinkLocal), []);
});
