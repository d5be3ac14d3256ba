/**
 * Hashes of API keys, which are stored and passed on in place of the keys.
 *
 * The form is `scrypt$N$r$p$salt$hash`, salt and hash in base64url. A holder of the hash can check a key and cannot
 * find it: a key has so much entropy that the hash need not be slow, only not fast.
 */

import { Buffer } from "node:buffer";
import { createHash, randomBytes, scrypt, timingSafeEqual } from "node:crypto";

const COST = { N: 1024, r: 8, p: 1 };
/** People choose passwords with little entropy, so each guess has to cost something: 32 MiB. */
const PASSWORD_COST = { N: 32_768, r: 8, p: 1 };
/** A hash that wants more memory is none of ours. */
const MEMORY_MAX = 64 * 1024 ** 2;
const SALT_BYTES = 16;
const HASH_BYTES = 32;
const HASH = /^scrypt\$(\d{1,6})\$(\d{1,2})\$(\d{1,2})\$([\w-]{22})\$([\w-]{43})$/;
/** Stand in for the hashes of unknown keys and passwords, so that refusing one takes equally long. */
const NOBODY = formOf(COST, "A".repeat(22), "A".repeat(43));
const NOBODYS_PASSWORD = formOf(PASSWORD_COST, "A".repeat(22), "A".repeat(43));

export function hashOfKey(key: string): Promise<string> {
  return hashAt(COST, key);
}

export function hashOfPassword(password: string): Promise<string> {
  return hashAt(PASSWORD_COST, password);
}

async function hashAt(cost: typeof COST, key: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await digest(key, salt, cost);
  return formOf(cost, salt.toString("base64url"), hash.toString("base64url"));
}

function formOf({ N, r, p }: typeof COST, salt: string, hash: string): string {
  return `scrypt$${N}$${r}$${p}$${salt}$${hash}`;
}

/** A label that differs for every hash, even of the same key; it reveals neither the hash nor the key. */
export function fingerprintOf(hash: string): string {
  return createHash("sha256").update(hash).digest("base64url").slice(0, 22);
}

export function isKeyHash(text: string): boolean {
  return HASH.test(text);
}

/** Whether the hash is that of this key. A missing hash takes the same time and matches no key. */
export function isHashOf(hash: string | undefined, key: string): Promise<boolean> {
  return matches(hash, key, NOBODY);
}

/** The same for a password. */
export function isHashOfPassword(hash: string | undefined, password: string): Promise<boolean> {
  return matches(hash, password, NOBODYS_PASSWORD);
}

async function matches(hash: string | undefined, key: string, nobody: string): Promise<boolean> {
  const [, n, r, p, salt = "", wanted = ""] = HASH.exec(hash ?? nobody) ?? HASH.exec(nobody)!;
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
    scrypt(
      key,
      salt,
      HASH_BYTES,
      { ...cost, maxmem: MEMORY_MAX },
      (error, hash) => error ? reject(error) : resolve(hash),
    )
  );
}
