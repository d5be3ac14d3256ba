import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { TrustedProxies } from "./proxies.ts";

const PROXIES = new TrustedProxies(["127.0.0.1", "::1", "10.0.0.0/8"]);

function callerOf(remoteAddress: string, ...fields: [string, string][]) {
  const peer = { kind: "grpc", remoteAddress, remotePort: 9, origin: "http://cloud" } as const;
  const { remoteAddress: found, origin } = PROXIES.callerOf(peer, fields);
  return `${found} ${origin}`;
}

Deno.test("TrustedProxies: only a trusted proxy says who calls, and only its last word counts", () => {
  const from = (value: string) => ["x-forwarded-for", value] as [string, string];
  assertEquals(callerOf("203.0.113.9", from("1.2.3.4")), "203.0.113.9 http://cloud");
  assertEquals(callerOf("127.0.0.1", from("203.0.113.9")), "203.0.113.9 http://cloud");
  // What the caller itself wrote stands before what the proxy appended.
  assertEquals(callerOf("127.0.0.1", from("1.2.3.4, 203.0.113.9")), "203.0.113.9 http://cloud");
  assertEquals(callerOf("127.0.0.1", from("1.2.3.4"), from("203.0.113.9")), "203.0.113.9 http://cloud");
  // A chain of proxies.
  assertEquals(
    callerOf("::ffff:127.0.0.1", from("1.2.3.4, 203.0.113.9, 10.1.2.3")),
    "203.0.113.9 http://cloud",
  );
  assertEquals(callerOf("::1", from("2001:db8::7")), "2001:db8::7 http://cloud");
  assertEquals(callerOf("::1", from("[2001:db8::7]:443")), "2001:db8::7 http://cloud");
  assertEquals(callerOf("127.0.0.1", from("203.0.113.9:5555")), "203.0.113.9 http://cloud");
});

Deno.test("TrustedProxies: without a word, or with nonsense, the caller stays the proxy", () => {
  assertEquals(callerOf("127.0.0.1"), "127.0.0.1 http://cloud");
  for (const value of ["unknown", "", ",", "a.b.c.d", "1.2.3.4 5", "999.1.1.1", "x".repeat(9999)]) {
    assertEquals(callerOf("127.0.0.1", ["X-Forwarded-For", value]), "127.0.0.1 http://cloud");
  }
  assertEquals(callerOf("127.0.0.1", ["x-forwarded-for", "evil, 10.2.2.2"]), "10.2.2.2 http://cloud");
  assertEquals(callerOf("127.0.0.1", ["x-forwarded-proto", "https"]), "127.0.0.1 https://cloud");
  assertEquals(callerOf("203.0.113.9", ["x-forwarded-proto", "https"]), "203.0.113.9 http://cloud");
  assertEquals(callerOf("127.0.0.1", ["x-forwarded-proto", "javascript"]), "127.0.0.1 http://cloud");
});

Deno.test("TrustedProxies: wrong addresses are refused", () => {
  for (const wrong of ["", "proxy", "1.2.3", "10.0.0.0/33", "::1/129", "10.0.0.0/", "10.0.0.0/8/8", "*"]) {
    assertThrows(() => new TrustedProxies([wrong]), SvcError, `found "${wrong}"`);
  }
});
