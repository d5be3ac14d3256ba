import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../error.ts";
import {
  canonicalJson,
  KeyRing,
  newReleaseKey,
  pinnedKey,
  type ReleaseStatement,
  signRelease,
  verifyRelease,
} from "./signature.ts";

const STATEMENT: ReleaseStatement = {
  name: "svc-server",
  version: "1.2.3",
  platform: "linux/amd64",
  sha256: "ab".repeat(32),
  size: 42,
  signed_ms: 1_700_000_000_000,
};

function codeOf(run: () => unknown): string {
  return assertThrows(run, SvcError).code;
}

Deno.test("verifyRelease: accepts a signature only for its own statement and key", () => {
  const { key, privateKeyPem } = newReleaseKey(1);
  const sig = JSON.parse(JSON.stringify(signRelease(STATEMENT, privateKeyPem)));
  assertEquals(verifyRelease(sig, [pinnedKey(key.public_key)]), STATEMENT);
  for (const field of ["name", "version", "platform", "sha256", "size", "signed_ms"] as const) {
    const value = STATEMENT[field];
    const other = typeof value === "number" ? value + 1 : value.replace(/.$/, "0");
    const changed = { ...sig, statement: { ...STATEMENT, [field]: other } };
    assertEquals(codeOf(() => verifyRelease(changed, [key])), "data_loss", field);
  }
  assertEquals(codeOf(() => verifyRelease({ ...sig, signature: "" }, [key])), "data_loss");
  assertEquals(codeOf(() => verifyRelease({ ...sig, statement: null }, [key])), "data_loss");
  assertEquals(codeOf(() => verifyRelease("no", [key])), "data_loss");
  assertEquals(codeOf(() => verifyRelease(sig, [newReleaseKey(1).key])), "permission_denied");
  assertEquals(codeOf(() => verifyRelease(sig, [])), "permission_denied");
});

Deno.test("canonicalJson: gives the same text for any order of keys", () => {
  const turned = Object.fromEntries(Object.entries(STATEMENT).reverse());
  assertEquals(canonicalJson(turned), canonicalJson({ ...STATEMENT }));
  assertEquals(
    canonicalJson({ b: [1, { d: null, c: "é\n" }], a: true }),
    '{"a":true,"b":[1,{"c":"é\\n","d":null}]}',
  );
});

Deno.test("KeyRing.follow: moves trust along the chain of keys and drops the old keys", () => {
  const first = newReleaseKey(1);
  const second = newReleaseKey(2, first.privateKeyPem);
  const third = newReleaseKey(3, second.privateKeyPem);
  const list = JSON.parse(JSON.stringify([third.key, first.key, second.key]));
  const ring = new KeyRing([pinnedKey(first.key.public_key)]).follow(list);
  assertEquals(ring.keys, [third.key]);
  assertEquals(ring.verify(signRelease(STATEMENT, third.privateKeyPem)), STATEMENT);
  assertEquals(codeOf(() => ring.verify(signRelease(STATEMENT, first.privateKeyPem))), "permission_denied");
  // Nothing leads back, nor forth where the list says nothing.
  assertEquals(ring.follow([first.key]).keys, [third.key]);
  assertEquals(new KeyRing([first.key]).follow([third.key]).keys, [first.key]);
});

Deno.test("KeyRing.follow: does not trust a key that no trusted key signed", () => {
  const first = newReleaseKey(1);
  const thief = newReleaseKey(2);
  const forged = { ...newReleaseKey(3, thief.privateKeyPem).key, previous: first.key.id };
  const second = newReleaseKey(2, first.privateKeyPem).key;
  const swapped = { ...second, public_key: thief.key.public_key };
  const renamed = { ...swapped, id: thief.key.id };
  for (const list of [[forged], [swapped], [renamed], [thief.key], [null, 1, {}], "keys", undefined]) {
    assertEquals(new KeyRing([first.key]).follow(list).keys, [first.key]);
  }
  assertEquals(codeOf(() => pinnedKey("abc")), "invalid_argument");
});
