/**
 * The key ring that signs the tokens of a server, and the salt that hides its listed keys: in memory, or in a file, so
 * that clients need not log in again after a restart.
 *
 * Owns the file: only its user can read it, and each write replaces it as a whole. A key signs for the lifetime of a
 * token, and stays valid for the same time again. If others can read the file, or its content is wrong, the server
 * writes a warning and a file with new keys, so that a stranger who has read a key gains nothing. Changes of the file
 * take effect while the server runs; its removal ends every token.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import { Buffer } from "node:buffer";
import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import { dirname } from "node:path";
import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { ReadFiles, WatchFiles, WriteFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import { fromBase64url } from "../../base/key_hash.ts";
import type { Logger } from "../../base/log/log.ts";
import { isObject } from "../../base/schema/schema.ts";
import { TOKEN_MS } from "./tokens.ts";

export interface TokenKeyRingParts {
  readonly host: ReadFiles & WriteFiles & WatchFiles;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "info" | "warn">;
}

interface TokenKey {
  readonly key: KeyObject;
  readonly madeMs: number;
}

/** The content of a file. */
interface Content {
  readonly salt: Uint8Array;
  /** The newest last. */
  readonly keys: readonly TokenKey[];
}

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const OTHERS = 0o077;
const FILE_BYTES_MAX = 16 * 1024;
const KEYS_MAX = 8;
const SALT_BYTES = 32;
/** How long a key signs. */
const SIGNS_MS = TOKEN_MS;
/** Interval of checks of the file and of the key's age; the system does not report every change of a file. */
const FILE_CHECK_MS = 60_000;

export class TokenKeyRing {
  #content: Content;
  #path: string | undefined;
  /** The text that this process has last read or written. */
  #text: string | undefined;
  readonly #problems = new LogOnChange();
  /** Whether writing the file has failed, which has been logged. */
  #unwritten = false;
  readonly #work = new SerialQueue();
  #unwatch = () => {};
  #cancelCheck = () => {};
  #changed = () => {};
  #closed = false;

  private constructor(private readonly parts: TokenKeyRingParts) {
    this.#content = { salt: randomBytes(SALT_BYTES), keys: [newKey(parts.clock)] };
  }

  /** The keys of a file, which is created if it is missing; without a path, keys of this process alone. */
  static async open(path: string | undefined, parts: TokenKeyRingParts): Promise<TokenKeyRing> {
    const keys = new TokenKeyRing(parts);
    await keys.moveTo(path);
    return keys;
  }

  /** The valid keys; the first one signs. */
  readonly good = (): readonly KeyObject[] => this.#content.keys.map(({ key }) => key).reverse();

  readonly salt = (): Uint8Array => this.#content.salt;

  /** Calls `changed` whenever the valid keys change. */
  onChange(changed: () => void): void {
    this.#changed = changed;
  }

  /** Stores the keys in another file, or in none. Never rejects: it logs an unusable file. */
  moveTo(path: string | undefined): Promise<void> {
    return this.#enqueue(async () => {
      if (path === this.#path) return;
      this.#unfollow();
      this.#path = path;
      this.#text = undefined;
      await this.#checkFile();
      this.#follow();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#unfollow();
    await this.#work.idle();
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    return this.#work.run(async () => {
      if (!this.#closed) await work();
    });
  }

  #follow(): void {
    const { host, clock } = this.parts;
    const path = this.#path;
    if (path === undefined || this.#closed) return;
    const look = () => void this.#enqueue(() => this.#checkFile());
    const again = () => {
      this.#cancelCheck = clock.after(FILE_CHECK_MS, () => {
        look();
        again();
      });
    };
    again();
    this.#unwatch = host.watchFile(path, look);
  }

  #unfollow(): void {
    this.#unwatch();
    this.#cancelCheck();
    [this.#unwatch, this.#cancelCheck] = [() => {}, () => {}];
  }

  /** Adopts the content of the file, and adds a new key when it is due. */
  async #checkFile(): Promise<void> {
    const { logger } = this.parts;
    const path = this.#path;
    if (path === undefined) return;

    const known = this.#text;
    try {
      const text = await this.#read(path);
      if (text === undefined) {
        // A file that has never existed gets the keys in use.
        if (known !== undefined) this.#startAnew(`${path} is gone`);
        return await this.#write(this.#content);
      }
      if (text !== known) {
        this.#adopt(contentOf(text), text);
        if (known !== undefined) logger.info("tokens have other keys from now on", { file: path });
      }
    } catch (error) {
      const problem = `${path} is unusable: ${chainOf(error)}`;
      // If the file was not replaceable before, the keys of this process stay in use.
      if (this.#problems.isNew(problem)) this.#startAnew(problem);
      return await this.#write(this.#content);
    }

    await this.#rotate();
  }

  /** The text of the file; `undefined` if there is none. Throws if others may have read it. */
  async #read(path: string): Promise<string | undefined> {
    const { host } = this.parts;
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

  /** Starts with a new key, which invalidates all earlier tokens. */
  #startAnew(why: string): void {
    const { logger, clock } = this.parts;
    logger.warn(`${why}: a new key signs tokens, and clients with older tokens must log in again`);
    this.#adopt({ salt: randomBytes(SALT_BYTES), keys: [newKey(clock)] }, undefined);
  }

  #adopt(content: Content, text: string | undefined): void {
    this.#content = content;
    this.#text = text;
    this.#changed();
  }

  async #rotate(): Promise<void> {
    const { clock, logger } = this.parts;
    const { salt, keys } = this.#content;
    const nowMs = clock.nowMs();
    if (nowMs - keys.at(-1)!.madeMs < SIGNS_MS) return;
    // A key has signed until the next one was made.
    const left = keys.filter((_, index) => nowMs - (keys[index + 1]?.madeMs ?? nowMs) < TOKEN_MS);
    const content = { salt, keys: [...left, newKey(clock)].slice(-KEYS_MAX) };
    await this.#write(content);
    this.#adopt(content, this.#text);
    logger.info("a new key signs tokens", { file: this.#path });
  }

  async #write(content: Content): Promise<void> {
    const { host, logger } = this.parts;
    const path = this.#path!;
    const text = textOf(content);
    try {
      await host.makeFolder(dirname(path), { mode: FOLDER_MODE });
      await host.writeFile(path, text, { mode: FILE_MODE });
      [this.#text, this.#unwritten] = [text, false];
      this.#problems.clear();
    } catch (error) {
      if (!this.#unwritten) {
        logger.warn(`cannot store the keys of tokens, which end with this process: ${chainOf(error)}`);
      }
      this.#unwritten = true;
    }
  }
}

function newKey(clock: Clock): TokenKey {
  return { key: generateKeyPairSync("ed25519").privateKey, madeMs: clock.nowMs() };
}

function textOf({ salt, keys }: Content): string {
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
function contentOf(text: string): Content {
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
