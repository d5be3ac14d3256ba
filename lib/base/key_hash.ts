/**
 * Hashes of API keys, which are stored and passed on in place of the keys.
 *
 * The form is `scrypt$N$r$p$salt$hash`, salt and hash in base64url. A holder of the hash can check a key and cannot
 * find it: a key has so much entropy that the hash need not be slow, only not fast.
 */

import { Buffer } from "node:buffer";
import { createHash, randomBytes, scrypt, timingSafeEqual } from "node:crypto";

const COST = { N: 1024, r: 8, p: 1 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
const HASH = /^scrypt\$(\d{1,6})\$(\d{1,2})\$(\d{1,2})\$([\w-]{22})\$([\w-]{43})$/;
/** Stands in for the hash of an unknown key, so that refusing one takes equally long. */
const NOBODY = `scrypt$1024$8$1$${"A".repeat(22)}$${"A".repeat(43)}`;

export async function hashOfKey(key: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await digest(key, salt, COST);
  const { N, r, p } = COST;
  return `scrypt$${N}$${r}$${p}$${salt.toString("base64url")}$${hash.toString("base64url")}`;
}

/** A label that differs for every hash, even of the same key; it reveals neither the hash nor the key. */
export function fingerprintOf(hash: string): string {
  return createHash("sha256").update(hash).digest("base64url").slice(0, 22);
}

export function isKeyHash(text: string): boolean {
  return HASH.test(text);
}

/** Whether the hash is that of this key. A missing hash takes the same time and matches no key. */
export async function isHashOf(hash: string | undefined, key: string): Promise<boolean> {
  const [, n, r, p, salt, wanted] = HASH.exec(hash ?? NOBODY) ?? HASH.exec(NOBODY)!;
  const cost = { N: Number(n), r: Number(r), p: Number(p) };
  const found = await digest(key, Buffer.from(salt, "base64url"), cost);
  return timingSafeEqual(found, Buffer.from(wanted, "base64url")) && hash !== undefined;
}

/**
 * The bytes of a text in base64url, in the one form that `toString("base64url")` gives them: without padding, other
 * characters, or bits beyond the last byte. `undefined` for any other text, so that no text has a second spelling.
 */
export function fromBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64url");
  return bytes.toString("base64url") === text ? bytes : undefined;
}

function digest(key: string, salt: Uint8Array, cost: typeof COST): Promise<Buffer> {
  return new Promise((resolve, reject) =>
    scrypt(key, salt, HASH_BYTES, cost, (error, hash) => error ? reject(error) : resolve(hash))
  );
}
