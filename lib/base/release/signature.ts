/**
 * Signatures of releases: who signs what, and which keys are trusted.
 *
 * A statement identifies one file completely; Ed25519 signs its canonical JSON (docs/packages.md). Each new key is
 * signed by its predecessor, so that a program that trusts one key finds the way to the newest, and stops trusting the
 * old key there. Pure: the caller owns the initial trust and the stored keys.
 */

import { Buffer } from "node:buffer";
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  verify,
} from "node:crypto";
import { SvcError } from "../error.ts";
import type { Json } from "../schema/schema.ts";

/** The content of a signature: this file is that release. */
export interface ReleaseStatement {
  readonly name: string;
  readonly version: string;
  /** `linux/amd64`; empty for a file that fits every platform. */
  readonly platform: string;
  /** 64 hexadecimal digits. */
  readonly sha256: string;
  /** Bytes. */
  readonly size: number;
  /** When it was signed, in milliseconds since 1970. */
  readonly signed_ms: number;
}

/** The content of a `.sig` file. */
export interface SignedRelease {
  readonly statement: ReleaseStatement;
  /** The id of the key. */
  readonly key: string;
  /** Base64. */
  readonly signature: string;
}

/** An entry of a list of public keys. */
export interface ReleaseKey {
  /** The first 16 hexadecimal digits of the SHA-256 of the key. */
  readonly id: string;
  /** 32 bytes in base64. */
  readonly public_key: string;
  readonly created_ms: number;
  /** The previous key, and its signature of this entry; empty for the first key. */
  readonly previous: string;
  readonly signature: string;
}

const RELEASE_FORMAT = "svc-release-1";
const KEY_FORMAT = "svc-release-key-1";
/** The bytes before the 32 bytes of an Ed25519 key in the form that crypto libraries read. */
const PUBLIC_KEY_HEAD = Buffer.from("302a300506032b6570032100", "hex");
const KEYS_MAX = 1000;

/** Signs a statement with a private key (PEM). */
export function signRelease(statement: ReleaseStatement, privateKeyPem: string): SignedRelease {
  return { statement, ...signedBy(RELEASE_FORMAT, { ...statement }, privateKeyPem) };
}

/** The members of a signature besides its statement. */
export function signedBy(
  format: string,
  statement: { [key: string]: Json },
  privateKeyPem: string,
): Omit<SignedRelease, "statement"> {
  const key = keyId(publicKeyOf(privateKeyPem));
  return { key, signature: signed(format, statement, privateKeyPem) };
}

/**
 * The statement of a `.sig` file if one of the keys has signed it. Throws `data_loss` for a broken file or signature,
 * `permission_denied` for a key that is not among them.
 */
export function verifyRelease(sig: unknown, keys: readonly ReleaseKey[]): ReleaseStatement {
  const { statement, ...by } = checkedRelease(sig);
  const what = `the signature of ${statement.name} ${statement.version}`;
  verifiedBy(RELEASE_FORMAT, what, { statement: { ...statement }, ...by }, keys);
  return statement;
}

/** Throws, as `verifyRelease`, unless one of the keys has signed the statement. */
export function verifiedBy(
  format: string,
  what: string,
  { statement, key, signature }: Omit<SignedRelease, "statement"> & { statement: { [key: string]: Json } },
  keys: readonly ReleaseKey[],
): void {
  const found = keys.find(({ id }) => id === key);
  if (!found) {
    const trusted = keys.map(({ id }) => id).join(", ");
    throw new SvcError(
      "permission_denied",
      `${what} is of key "${key}", wanted one of those trusted: ${trusted}`,
    );
  }
  if (isSigned(format, statement, signature, found.public_key)) return;

  throw new SvcError("data_loss", `${what} is not what key "${key}" signed: the statement has been changed`);
}

/** A new pair of keys; given the previous private key (PEM), as its successor. */
export function newReleaseKey(
  nowMs: number,
  previousPrivateKeyPem?: string,
): { readonly key: ReleaseKey; readonly privateKeyPem: string } {
  const pair = generateKeyPairSync("ed25519");
  const privateKeyPem = pair.privateKey.export({ format: "pem", type: "pkcs8" }) as string;
  const publicKey = publicKeyOf(privateKeyPem);
  const previous = previousPrivateKeyPem === undefined ? "" : keyId(publicKeyOf(previousPrivateKeyPem));
  const entry = { id: keyId(publicKey), public_key: publicKey, created_ms: nowMs, previous };
  const signature = previousPrivateKeyPem === undefined
    ? ""
    : signed(KEY_FORMAT, entry, previousPrivateKeyPem);
  return { key: { ...entry, signature }, privateKeyPem };
}

/** The trusted keys, and the chain from them to newer keys. */
export class KeyRing {
  constructor(readonly keys: readonly ReleaseKey[]) {}

  /**
   * The keys to trust from now on, given a list from anywhere: replaces each trusted key that has successors in the
   * list by the last one of its line. Entries that no trusted key has signed have no effect.
   */
  follow(list: unknown): KeyRing {
    const entries = Array.isArray(list) ? list.slice(0, KEYS_MAX).filter(isKey) : [];
    const newest = this.keys.map((key) => lastAfter(key, entries));
    return new KeyRing(newest.filter((key, at) => newest.findIndex(({ id }) => id === key.id) === at));
  }

  /** As `verifyRelease`, by the trusted keys. */
  verify(sig: unknown): ReleaseStatement {
    return verifyRelease(sig, this.keys);
  }
}

/** A public key from its 32 bytes in base64, as people write it down to pin it. Throws `invalid_argument`. */
export function pinnedKey(base64: string): ReleaseKey {
  if (!isPublicKey(base64)) {
    throw new SvcError("invalid_argument", `found release key "${base64}", wanted 32 bytes in base64`);
  }
  return { id: keyId(base64), public_key: base64, created_ms: 0, previous: "", signature: "" };
}

/** JSON with the keys of its objects in order and no spaces: equal values have equal texts. */
export function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1);
  const fields = members.map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
  return `{${fields.join(",")}}`;
}

function lastAfter(key: ReleaseKey, entries: readonly ReleaseKey[]): ReleaseKey {
  const passed = new Set([key.id]);
  for (let at = key;;) {
    const successor = entries.find((one) => !passed.has(one.id) && follows(one, at));
    if (!successor) return at;
    passed.add(successor.id);
    at = successor;
  }
}

function follows({ signature, ...entry }: ReleaseKey, before: ReleaseKey): boolean {
  return entry.previous === before.id && entry.id === keyId(entry.public_key) &&
    isSigned(KEY_FORMAT, entry, signature, before.public_key);
}

function signed(format: string, value: { [key: string]: Json }, privateKeyPem: string): string {
  return sign(null, bytesOf(format, value), createPrivateKey(privateKeyPem)).toString("base64");
}

function isSigned(
  format: string,
  value: { [key: string]: Json },
  signature: string,
  publicKey: string,
): boolean {
  const key = createPublicKey({ key: publicKeyFrom(publicKey), format: "der", type: "spki" });
  return verify(null, bytesOf(format, value), key, Buffer.from(signature, "base64"));
}

/** The format comes first: a signature for one purpose is never valid for another. */
function bytesOf(format: string, value: { [key: string]: Json }): Uint8Array {
  return Buffer.from(`${format}\n${canonicalJson(value)}`);
}

/** A key of 32 bytes in base64 in the form that crypto libraries read (DER). */
export function publicKeyFrom(base64: string): Buffer {
  return Buffer.concat([PUBLIC_KEY_HEAD, Buffer.from(base64, "base64")]);
}

/** The public half of a private key (PEM): 32 bytes in base64. */
export function publicKeyOf(privateKeyPem: string): string {
  const der = createPublicKey(createPrivateKey(privateKeyPem)).export({
    format: "der",
    type: "spki",
  }) as Buffer;
  return der.subarray(PUBLIC_KEY_HEAD.length).toString("base64");
}

function keyId(publicKey: string): string {
  return createHash("sha256").update(Buffer.from(publicKey, "base64")).digest("hex").slice(0, 16);
}

function isPublicKey(base64: unknown): base64 is string {
  return typeof base64 === "string" && /^[A-Za-z0-9+/]{43}=$/.test(base64);
}

function isKey(value: unknown): value is ReleaseKey {
  const { id, public_key, created_ms, previous, signature } = (value ?? {}) as { [key: string]: unknown };
  return typeof id === "string" && isPublicKey(public_key) && typeof created_ms === "number" &&
    typeof previous === "string" && typeof signature === "string";
}

function checkedRelease(sig: unknown): SignedRelease {
  const { statement, key, signature } = (sig ?? {}) as { [key: string]: unknown };
  const { name, version, platform, sha256, size, signed_ms } = (statement ?? {}) as {
    [key: string]: unknown;
  };
  const texts = [key, signature, name, version, platform, sha256].every((one) => typeof one === "string");
  const numbers = [size, signed_ms].every((one) => Number.isSafeInteger(one));
  if (texts && numbers && /^[0-9a-f]{64}$/.test(sha256 as string)) {
    const whole = { name, version, platform, sha256, size, signed_ms } as ReleaseStatement;
    return { statement: whole, key: key as string, signature: signature as string };
  }

  throw new SvcError(
    "data_loss",
    "the signature file is broken, wanted an object with statement {name, version, platform, sha256, size, " +
      "signed_ms}, key and signature",
  );
}
