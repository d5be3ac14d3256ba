import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { fromBase64url, hashOfKey, isHashOf, isKeyHash } from "./key_hash.ts";

Deno.test("hashOfKey: matches its own key only, and is different every time", async () => {
  const hash = await hashOfKey("a key");
  assert(isKeyHash(hash));
  assertEquals(await isHashOf(hash, "a key"), true);
  assertEquals(await isHashOf(hash, "another"), false);
  assertNotEquals(await hashOfKey("a key"), hash);
});

Deno.test("isHashOf: an invalid hash matches no key", async () => {
  const hash = await hashOfKey("a key");
  for (
    const text of ["", "a key", "scrypt$", hash.slice(0, -1), `${hash}A`, hash.replace("1024", "9999999")]
  ) {
    assertEquals(isKeyHash(text), false, text);
    assertEquals(await isHashOf(text, "a key"), false, text);
  }
  assertEquals(await isHashOf(undefined, "a key"), false);
});

Deno.test("fromBase64url: reads the one spelling of each text", () => {
  for (const text of ["", "AA", "AAA", "AAAA", "-_-_", "AQIDBA"]) {
    assertEquals(fromBase64url(text)?.toString("base64url"), text);
  }
  for (const text of ["A", "AA=", "AA==", "AB", "AAB", "+/+/", "AA AA", "AAAA\n", "AA.A"]) {
    assertEquals(fromBase64url(text), undefined, text);
  }
});
