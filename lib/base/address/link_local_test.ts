import { assertEquals } from "@std/assert";
import { isLinkLocal, withoutZone, zoneOf } from "./link_local.ts";

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

Deno.test("zoneOf: the interface of an address, as URLs and as everybody else write it", () => {
  for (const host of ["fe80::1%eth0", "fe80::1%25eth0"]) {
    assertEquals(zoneOf(host), { address: "fe80::1", zone: "eth0" }, host);
  }
  assertEquals(zoneOf("FE80::A%12"), { address: "FE80::A", zone: "12" });
  assertEquals(zoneOf("::ffff:10.0.0.1%wlan-0.5"), { address: "::ffff:10.0.0.1", zone: "wlan-0.5" });
  for (const host of ["fe80::1", "cloud%20.test", "10.0.0.1%eth0", "fe80::1%", "fe80::1%eth0/x", ""]) {
    assertEquals([zoneOf(host), withoutZone(host)], [undefined, host], host);
  }
  assertEquals(withoutZone("fe80::1%25eth0"), "fe80::1");
});
