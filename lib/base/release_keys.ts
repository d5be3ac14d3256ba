/**
 * The keys that must sign releases and packages on this device, and their rotation.
 *
 * Owns one file, which whoever sets the device up writes: a list of public keys in base64, or a copy of the cloud's
 * list. Without the file, nothing needs a signature. The device accepts a file signed with a key outside the list if
 * the cloud's list leads from a key in it to that key; from then on the list holds the newer key.
 */

import { dirname } from "node:path";
import type { ReadFiles, WriteFiles } from "./files/files.ts";
import { chainOf, SvcError } from "./error.ts";
import { KeyRing, pinnedKey, type ReleaseKey, type ReleaseStatement } from "./release_signature.ts";
import { isObject } from "./schema/schema.ts";

export interface SignedFile {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
  /** The size, if it is known before the download. */
  readonly sizeBytes?: number;
  /** The platform that a signature must be for, unless it is for all; in the published notation: `linux/amd64`. */
  readonly platform?: string;
  /** Its signature is at the same address with `.sig`. */
  readonly url: string;
}

/** Address of the cloud's list of keys. */
const KEYS_PATH = "/releases/keys.json";

export class AcceptedKeys {
  readonly #path: string;
  readonly #files: ReadFiles & WriteFiles;

  constructor(path: string, files: ReadFiles & WriteFiles) {
    this.#path = path;
    this.#files = files;
  }

  /**
   * The signed statement about a file; nothing if no signatures are needed. Throws `failed_precondition` for a file
   * without a valid signature, and the errors of `get` if the check is not possible now. `get` fetches the JSON at an
   * address.
   */
  async check(
    file: SignedFile,
    get: (url: string) => Promise<unknown>,
  ): Promise<ReleaseStatement | undefined> {
    const ring = await this.#ring();
    if (!ring) return undefined;
    const url = new URL(file.url);
    const sig = await get(`${url.origin}${url.pathname}.sig${url.search}`);
    const statement = await this.#verified(ring, sig, () => get(`${url.origin}${KEYS_PATH}`));
    for (
      const [what, found, wanted] of [
        ["name", statement.name, file.name],
        ["version", statement.version, file.version],
        ["sum", statement.sha256, file.sha256],
        ["size", statement.size, file.sizeBytes ?? statement.size],
        ["platform", statement.platform, statement.platform && (file.platform ?? statement.platform)],
      ]
    ) {
      if (found === wanted) continue;
      const told = `the signature is for another file: found ${what} ${found}, wanted ${wanted}`;
      throw new SvcError("failed_precondition", told);
    }
    return statement;
  }

  async #verified(ring: KeyRing, sig: unknown, list: () => Promise<unknown>) {
    try {
      return ring.verify(sig);
    } catch (error) {
      if (SvcError.from(error).code !== "permission_denied") throw refusal(error);
    }
    const listed = await list();
    const next = ring.follow(isObject(listed) ? listed.keys : listed);
    try {
      const statement = next.verify(sig);
      await this.#keep(next.keys);
      return statement;
    } catch (error) {
      throw SvcError.from(error).code === "permission_denied" || SvcError.from(error).code === "data_loss"
        ? refusal(error)
        : error;
    }
  }

  /** The keys on this device; `undefined` if releases need no signature. */
  async #ring(): Promise<KeyRing | undefined> {
    let bytes: Uint8Array;
    try {
      bytes = await this.#files.readFile(this.#path);
    } catch (error) {
      if (SvcError.from(error).code === "not_found") return undefined;
      throw error;
    }
    try {
      const json: unknown = JSON.parse(new TextDecoder().decode(bytes));
      const list = isObject(json) ? json.keys : json;
      if (!Array.isArray(list) || list.length === 0) throw new SvcError("data_loss", "it lists no keys");
      return new KeyRing(list.map((one) => typeof one === "string" ? pinnedKey(one) : pinned(one)));
    } catch (error) {
      // An unreadable file refuses every release, because somebody has asked for signatures here.
      const wanted = "wanted a list of public keys in base64";
      throw new SvcError("permission_denied", `${this.#path}: ${chainOf(error)}, ${wanted}`, {
        cause: error,
      });
    }
  }

  async #keep(keys: readonly ReleaseKey[]): Promise<void> {
    await this.#files.makeFolder(dirname(this.#path));
    const text = JSON.stringify(keys.map(({ public_key }) => public_key), undefined, 1);
    await this.#files.writeFile(this.#path, text);
  }
}

function pinned(one: unknown): ReleaseKey {
  const { public_key } = (one ?? {}) as { public_key?: unknown };
  return pinnedKey(String(public_key));
}

function refusal(error: unknown): SvcError {
  return new SvcError("failed_precondition", chainOf(error), { cause: error });
}
