/**
 * `SHA256SUMS` beside the executables of a target, and its signature.
 *
 * The key lies outside of the tree, so that no commit, archive or executable carries it by mistake.
 */

import { isAbsolute, relative, resolve } from "node:path";
import { newReleaseKey, publicKeyOf } from "../../lib/base/release/signature.ts";
import {
  type Provenance,
  signSums,
  SUMS_FILE,
  SUMS_SIGNATURE_FILE,
  sumsText,
} from "../../lib/base/release/sums.ts";
import { UsageError } from "../flags.ts";

/** Makes a key of the project, readable by its owner alone; returns its public half in base64. */
export async function makeSignKey(file: string, root: string): Promise<string> {
  requireOutside(file, root);
  const { privateKeyPem } = newReleaseKey(0);
  await Deno.writeTextFile(file, privateKeyPem, { createNew: true, mode: 0o600 });
  return publicKeyOf(privateKeyPem);
}

/** The private key (PEM) in a file. */
export async function readSignKey(file: string, root: string): Promise<string> {
  requireOutside(file, root);
  const pem = await Deno.readTextFile(file);
  publicKeyOf(pem);
  return pem;
}

/** Writes the sums of the existing files among `files`, and signs them; without a key removes an old signature. */
export async function writeSums(
  folder: string,
  files: readonly string[],
  provenance: Provenance,
  privateKeyPem: string | undefined,
): Promise<void> {
  const sums: { file: string; sha256: string }[] = [];
  for (const file of files) {
    const bytes = await Deno.readFile(`${folder}/${file}`).catch(() => undefined);
    if (bytes) sums.push({ file, sha256: await bytesSum(bytes) });
  }
  const text = sumsText(provenance, sums);
  await Deno.writeTextFile(`${folder}/${SUMS_FILE}`, text);
  const signature = `${folder}/${SUMS_SIGNATURE_FILE}`;
  if (privateKeyPem !== undefined) await Deno.writeFile(signature, signSums(text, privateKeyPem));
  else await Deno.remove(signature).catch(() => {});
}

export async function bytesSum(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

function requireOutside(file: string, root: string): void {
  const path = relative(resolve(root), resolve(file));
  if (path.startsWith("..") || isAbsolute(path)) return;
  throw new UsageError(`${file}: found a key in the tree, wanted one outside of it`);
}
