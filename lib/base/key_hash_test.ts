import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { hashOfKey, isHashOf, isKeyHash } from "./key_hash.ts";

Deno.test("a hash tells its key from others, and no two are the same", async () => {
  const hash = await hashOfKey("a key");
  assert(isKeyHash(hash));
  assertEquals(await isHashOf(hash, "a key"), true);
  assertEquals(await isHashOf(hash, "another"), false);
  assertNotEquals(await hashOfKey("a key"), hash);
});

Deno.test("what is no hash is that of no key", async () => {
  const hash = await hashOfKey("a key");
  for (
    const text of ["", "a key", "scrypt$", hash.slice(0, -1), `${hash}A`, hash.replace("1024", "9999999")]
  ) {
    assertEquals(isKeyHash(text), false, text);
    assertEquals(await isHashOf(text, "a key"), false, text);
  }
  assertEquals(await isHashOf(undefined, "a key"), false);
});
