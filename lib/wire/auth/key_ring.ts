/**
 * The key ring that signs the tokens of a server, and the salt that hides its listed keys: in memory, or in a file, so
 * that clients need not log in again after a restart.
 *
 * Owns the keys in use and their age; `key_file.ts` owns the file. A key signs for the lifetime of a token, and stays
 * valid for the same time again. If others can read the file, or its content is wrong, the server writes a warning and a
 * file with new keys, so that a stranger who has read a key gains nothing. Changes of the file take effect while the
 * server runs; its removal ends every token.
 */

import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Clock } from "../../base/clock.ts";
import { generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import {
  type KeyFileHost,
  KEYS_MAX,
  SALT_BYTES,
  type TokenKey,
  TokenKeyFile,
  type TokenKeys,
} from "./key_file.ts";
import { TOKEN_MS } from "./tokens.ts";

export interface TokenKeyRingParts {
  readonly host: KeyFileHost;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "info" | "warn">;
}

/** How long a key signs. */
const SIGNS_MS = TOKEN_MS;

export class TokenKeyRing {
  #content: TokenKeys;
  #file: TokenKeyFile | undefined;
  readonly #problems = new LogOnChange();
  /** Whether writing the file has failed, which has been logged. */
  #unwritten = false;
  readonly #work = new SerialQueue();
  #changed = () => {};
  #closed = false;

  private constructor(private readonly parts: TokenKeyRingParts) {
    this.#content = newKeys(parts.clock);
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
      if (path === this.#file?.path) return;
      this.#file?.unfollow();
      this.#file = path === undefined ? undefined : new TokenKeyFile(this.parts.host, path);
      await this.#checkFile();
      if (!this.#closed) {
        this.#file?.follow(this.parts.clock, () => void this.#enqueue(() => this.#checkFile()));
      }
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#file?.unfollow();
    await this.#work.idle();
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    return this.#work.run(async () => {
      if (!this.#closed) await work();
    });
  }

  /** Adopts the content of the file, and adds a new key when it is due. */
  async #checkFile(): Promise<void> {
    const file = this.#file;
    if (!file) return;

    const { path, isKnown } = file;
    try {
      const found = await file.read();
      if (found === "missing") {
        // A file that has never existed gets the keys in use.
        if (isKnown) this.#startAnew(file, `${path} is gone`);
        return await this.#write(file, this.#content);
      }
      if (found !== "unchanged") {
        this.#adopt(found);
        if (isKnown) this.parts.logger.info("tokens have other keys from now on", { file: path });
      }
    } catch (error) {
      const problem = `${path} is unusable: ${chainOf(error)}`;
      // If the file was not replaceable before, the keys of this process stay in use.
      if (this.#problems.isNew(problem)) this.#startAnew(file, problem);
      return await this.#write(file, this.#content);
    }

    await this.#rotate(file);
  }

  /** Starts with a new key, which invalidates all earlier tokens. */
  #startAnew(file: TokenKeyFile, why: string): void {
    const { logger, clock } = this.parts;
    logger.warn(`${why}: a new key signs tokens, and clients with older tokens must log in again`);
    file.forget();
    this.#adopt(newKeys(clock));
  }

  #adopt(content: TokenKeys): void {
    this.#content = content;
    this.#changed();
  }

  async #rotate(file: TokenKeyFile): Promise<void> {
    const { clock, logger } = this.parts;
    const { salt, keys } = this.#content;
    const nowMs = clock.nowMs();
    const newest = keys.at(-1);
    if (newest && nowMs - newest.madeMs < SIGNS_MS) return;
    // A key has signed until the next one was made.
    const left = keys.filter((_, index) => nowMs - (keys[index + 1]?.madeMs ?? nowMs) < TOKEN_MS);
    const content = { salt, keys: [...left, newKey(clock)].slice(-KEYS_MAX) };
    await this.#write(file, content);
    this.#adopt(content);
    logger.info("a new key signs tokens", { file: file.path });
  }

  async #write(file: TokenKeyFile, content: TokenKeys): Promise<void> {
    try {
      await file.write(content);
      this.#unwritten = false;
      this.#problems.clear();
    } catch (error) {
      if (!this.#unwritten) {
        this.parts.logger.warn(
          `cannot store the keys of tokens, which end with this process: ${chainOf(error)}`,
        );
      }
      this.#unwritten = true;
    }
  }
}

function newKeys(clock: Clock): TokenKeys {
  return { salt: randomBytes(SALT_BYTES), keys: [newKey(clock)] };
}

function newKey(clock: Clock): TokenKey {
  return { key: generateKeyPairSync("ed25519").privateKey, madeMs: clock.nowMs() };
}
