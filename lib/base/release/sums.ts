/**
 * `SHA256SUMS`: the checksums of a build's executables with their provenance, and its signature by the project's key.
 *
 * The file is what `sha256sum -c` reads; lines that begin with `#` say what it was built from. The signature is plain
 * Ed25519 over the whole file, 64 bytes in `SHA256SUMS.sig`, so that `openssl pkeyutl -verify -rawin` checks it, too.
 */

import { Buffer } from "node:buffer";
import { createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import { SvcError } from "../error.ts";
import { publicKeyFrom } from "./signature.ts";

export const SUMS_FILE = "SHA256SUMS";
export const SUMS_SIGNATURE_FILE = `${SUMS_FILE}.sig`;

/**
 * The public half of the project's key, in base64; the private half is not in the tree. README.md and the
 * installers have it, too.
 */
export const PROJECT_KEY = "huKUPMLuDP/3KAkKfA3tYA1FGPJNiKZt3vKSsO+JRSc=";

export interface Provenance {
  readonly version: string;
  /** The git revision, or empty outside of a repository. */
  readonly revision: string;
  /** Of the runtime in the executables. */
  readonly deno: string;
  /** The SHA-256 of `deno.lock`, which names every package with its checksum. */
  readonly lockSha256: string;
}

/** The text of the file. */
export function sumsText(
  { version, revision, deno, lockSha256 }: Provenance,
  sums: readonly { readonly file: string; readonly sha256: string }[],
): string {
  const facts = [
    `version ${version}`,
    `revision ${revision || "unknown"}`,
    `deno ${deno}`,
    `deno.lock ${lockSha256}`,
  ];
  return [...facts.map((fact) => `# ${fact}\n`), ...sums.map(({ file, sha256 }) => `${sha256}  ${file}\n`)]
    .join("");
}

export function signSums(text: string, privateKeyPem: string): Uint8Array {
  return sign(null, Buffer.from(text), createPrivateKey(privateKeyPem));
}

/**
 * The checksums by file, if the key (base64) has signed the text. Throws `permission_denied` otherwise, `data_loss` for
 * a file of another form.
 */
export function verifiedSums(text: string, signature: Uint8Array, publicKey: string): Map<string, string> {
  const key = createPublicKey({ key: publicKeyFrom(publicKey), format: "der", type: "spki" });
  if (signature.length !== 64 || !verify(null, Buffer.from(text), key, signature)) {
    throw new SvcError("permission_denied", `${SUMS_FILE} is not signed by the key ${publicKey}`);
  }

  const sums = new Map<string, string>();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, sha256 = "", file] = /^([0-9a-f]{64}) [ *](\S.*)$/.exec(line) ?? [];
    if (file === undefined) {
      throw new SvcError(
        "data_loss",
        `${SUMS_FILE}: found "${line}", wanted a SHA-256 and the name of a file`,
      );
    }
    sums.set(file, sha256);
  }

  return sums;
}
