/**
 * The file of a token key ring: its keys and its salt, readable by one user alone.
 *
 * Owns the form of the file, its modes and limits, and what this process last saw in it. Each write replaces the file as
 * a whole.
 */

import { Buffer } from "node:buffer";
import { createPrivateKey, type KeyObject } from "node:crypto";
import { dirname } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { ReadFiles, WatchFiles, WriteFiles } from "../../base/files/files.ts";
import { fromBase64url } from "../../base/key_hash.ts";
import { isObject } from "../../base/schema/schema.ts";

export type KeyFileHost = ReadFiles & WriteFiles & WatchFiles;

export interface TokenKey {
  readonly key: KeyObject;
  readonly madeMs: number;
}

/** The content of a file. */
export interface TokenKeys {
  readonly salt: Uint8Array;
  /** The newest last. */
  readonly keys: readonly TokenKey[];
}

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const OTHERS = 0o077;
const FILE_BYTES_MAX = 16 * 1024;
export const KEYS_MAX = 8;
export const SALT_BYTES = 32;
/** Interval of checks of the file and of the key's age; the system does not report every change of a file. */
const FILE_CHECK_MS = 60_000;

export class TokenKeyFile {
  /** The text that this process has last read or written. */
  #text: string | undefined;
  #unfollow = () => {};

  constructor(private readonly host: KeyFileHost, readonly path: string) {}

  /** Whether this process has read the file or written it, and not forgotten it since. */
  get isKnown(): boolean {
    return this.#text !== undefined;
  }

  /**
   * The content of the file if it has changed since it was last read or written. Throws if others may have read it, or
   * if its form is wrong.
   */
  async read(): Promise<TokenKeys | "missing" | "unchanged"> {
    const text = await this.#readText();
    if (text === undefined) return "missing";
    if (text === this.#text) return "unchanged";
    const content = contentOf(text);
    this.#text = text;
    return content;
  }

  async write(content: TokenKeys): Promise<void> {
    const text = textOf(content);
    await this.host.makeFolder(dirname(this.path), { mode: FOLDER_MODE });
    await this.host.writeFile(this.path, text, { mode: FILE_MODE });
    this.#text = text;
  }

  /** Counts the file as unknown: its content does not matter any more. */
  forget(): void {
    this.#text = undefined;
  }

  /** Calls `check` when the file changes, and from time to time. */
  follow(clock: Clock, check: () => void): void {
    let cancel = () => {};
    const again = () => {
      cancel = clock.after(FILE_CHECK_MS, () => {
        check();
        again();
      });
    };
    again();
    const unwatch = this.host.watchFile(this.path, check);
    this.#unfollow = () => {
      unwatch();
      cancel();
    };
  }

  unfollow(): void {
    this.#unfollow();
    this.#unfollow = () => {};
  }

  /** The text of the file; `undefined` if there is none. Throws if others may have read it. */
  async #readText(): Promise<string | undefined> {
    const { host, path } = this;
    const facts = await host.stat(path, { links: true });
    if (!facts) return undefined;
    if (facts.kind !== "file") throw new Error(`found a ${facts.kind}, wanted a file`);
    if ((facts.mode & OTHERS) !== 0) {
      throw new Error(`others may read it (mode ${facts.mode.toString(8)}), wanted mode 600`);
    }
    if (facts.sizeBytes > FILE_BYTES_MAX) {
      throw new Error(`it has ${facts.sizeBytes} bytes, wanted at most ${FILE_BYTES_MAX}`);
    }
    return await host.readTextFile(path);
  }
}

function textOf({ salt, keys }: TokenKeys): string {
  const json = {
    salt: Buffer.from(salt).toString("base64url"),
    keys: keys.map(({ key, madeMs }) => ({
      key: key.export({ type: "pkcs8", format: "der" }).toString("base64url"),
      made_ms: madeMs,
    })),
  };
  return `${JSON.stringify(json, undefined, 2)}\n`;
}

/** Throws if a text does not have the form of `textOf`. */
function contentOf(text: string): TokenKeys {
  const json = parsed(text);
  const { salt, keys } = isObject(json) ? json : {};
  const bytes = fromBase64url(typeof salt === "string" ? salt : "");
  if (bytes?.length !== SALT_BYTES) throw wrong(`salt: wanted ${SALT_BYTES} bytes in base64url`);
  if (!Array.isArray(keys) || keys.length < 1 || keys.length > KEYS_MAX) {
    throw wrong(`keys: wanted a list of 1 to ${KEYS_MAX} keys`);
  }
  return { salt: bytes, keys: keys.map((one, index) => keyOf(one, `keys.${index}`)) };
}

function keyOf(json: unknown, at: string): TokenKey {
  const { key: text, made_ms: madeMs } = isObject(json) ? json : {};
  if (typeof madeMs !== "number" || !Number.isFinite(madeMs)) throw wrong(`${at}.made_ms: wanted a number`);

  let key: KeyObject;
  try {
    key = createPrivateKey({
      key: fromBase64url(String(text)) ?? Buffer.alloc(0),
      type: "pkcs8",
      format: "der",
    });
  } catch (error) {
    throw wrong(`${at}.key: wanted a private key (PKCS #8 in base64url): ${messageOf(error)}`);
  }

  if (key.asymmetricKeyType !== "ed25519") {
    throw wrong(`${at}.key: found ${key.asymmetricKeyType}, wanted ed25519`);
  }
  return { key, madeMs };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The message of the parser would reveal the content.
    throw wrong("wanted JSON");
  }
}

function wrong(message: string): SvcError {
  return new SvcError("invalid_argument", message);
}
