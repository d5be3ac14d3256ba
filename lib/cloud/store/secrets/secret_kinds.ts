/**
 * The kinds of secrets of a control plane: how each is made, and how long an old one stays valid beside a new one.
 */

import { generateKeyPair, generateKeyPairSync, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { newReleaseKey, type ReleaseKey } from "../../../base/release/signature.ts";
import { TOKEN_MS } from "../../../wire/auth/tokens.ts";
import { newAuthority } from "./authority.ts";

export interface SecretKind {
  /** Its name in commands. */
  readonly word: "token" | "authority" | "release" | "links";
  /** Its name in the database of an older version. */
  readonly earlier: string;
  /** How long a new key is published before it signs. */
  readonly leadMs: number;
  /** How long signatures of an old key stay valid after its last one. */
  readonly lifetimeMs: number;
  /** Makes a new value as the successor of the previous one, if there is one. */
  make(nowMs: number, previous: string | undefined): string | Promise<string>;
}

/** The chain of keys that sign releases, and the private half of the newest one. */
export interface ReleaseSecret {
  /** Oldest first. */
  readonly keys: readonly ReleaseKey[];
  readonly privateKeyPem: string;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Certificates of machines are valid for this long, links to data for at most this long. */
const CERTIFICATE_MS = 90 * DAY_MS;
const DATA_LINK_MS = 7 * DAY_MS;
const DOWNLOAD_LINK_MS = 2 * HOUR_MS;

const RSA_BITS = 2048;

/** Generates an RSA key, which takes a moment. */
async function newRsaKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)("rsa", { modulusLength: RSA_BITS });
  return privateKey.export({ format: "pem", type: "pkcs8" }) as string;
}

const newLinkSecret = () => randomBytes(32).toString("base64url");

const KINDS = {
  // All control planes on the database know a new key before it signs.
  token: {
    word: "token",
    earlier: "signing-key",
    leadMs: MINUTE_MS,
    lifetimeMs: TOKEN_MS,
    make: () => generateKeyPairSync("ed25519").privateKey.export({ format: "pem", type: "pkcs8" }) as string,
  },
  // Machines verify these tokens themselves: machines that are switched on know a new key before it signs.
  "machine-token": {
    word: "token",
    earlier: "machine-token",
    leadMs: 10 * MINUTE_MS,
    lifetimeMs: TOKEN_MS,
    make: newRsaKey,
  },
  // People have to make their systems trust the new one.
  authority: {
    word: "authority",
    earlier: "authority",
    leadMs: 30 * DAY_MS,
    lifetimeMs: CERTIFICATE_MS,
    make: async (nowMs) => JSON.stringify(await newAuthority(nowMs)),
  },
  // The last signature of the old key is that of the new one, so that programs that trust the old key find the new
  // one.
  release: {
    word: "release",
    earlier: "release-keys",
    leadMs: 0,
    lifetimeMs: 0,
    make: (nowMs, previous) => {
      const before: ReleaseSecret | undefined = previous === undefined ? undefined : JSON.parse(previous);
      const { key, privateKeyPem } = newReleaseKey(nowMs, before?.privateKeyPem);
      return JSON.stringify({ keys: [...before?.keys ?? [], key], privateKeyPem } satisfies ReleaseSecret);
    },
  },
  "download-links": {
    word: "links",
    earlier: "download-links",
    leadMs: MINUTE_MS,
    lifetimeMs: DOWNLOAD_LINK_MS,
    make: newLinkSecret,
  },
  "data-links": {
    word: "links",
    earlier: "data-links",
    leadMs: MINUTE_MS,
    lifetimeMs: DATA_LINK_MS,
    make: newLinkSecret,
  },
} as const satisfies { readonly [name: string]: SecretKind };

export type SecretName = keyof typeof KINDS;
export const SECRET_KINDS: { readonly [N in SecretName]: SecretKind } = KINDS;

/** The secrets that a word on the command line selects. */
export function secretsNamed(word: string): SecretName[] {
  return (Object.keys(KINDS) as SecretName[]).filter((name) => KINDS[name].word === word);
}
