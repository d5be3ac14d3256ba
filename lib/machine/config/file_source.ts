/**
 * The configuration of a file: read at the start, and again whenever it reads differently.
 *
 * However the file is changed (written in place, replaced by renaming, removed and made anew, a link turned), what
 * counts is its content when it has been quiet for a moment. The system tells of changes; a slow look of our own
 * finds those that it does not tell of, as on a network file system. Bytes that were read before are no news.
 */

import { createHash } from "node:crypto";
import type { Environment } from "../../base/host.ts";
import type { ReadFiles, WatchFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Problem } from "../../base/schema/schema.ts";
import { parseConfig, readConfigBytes } from "./config_file.ts";
import type { ConfigSource, Draft } from "./config_source.ts";

/** The file must have been quiet this long, so that nobody's half-written file is read. */
const QUIET_MS = 500;
/** A file that is never quiet is read all the same. */
const QUIET_WAIT_MAX_MS = 2_000;
/** Between two looks of our own. */
const POLL_MS = 5_000;
const REVISION_LENGTH = 12;

export interface FileSourceParts {
  readonly path: string;
  readonly host: Environment & ReadFiles & WatchFiles;
  readonly clock: Clock;
}

/** What was found: the bytes, or why there are none, and a text that is the same for the same. */
type Look = { readonly mark: string } & ({ readonly bytes: Uint8Array } | { readonly error: SvcError });

export class FileSource implements ConfigSource {
  readonly name: string;
  readonly #parts: FileSourceParts;
  #seen = "";

  constructor(parts: FileSourceParts) {
    this.name = parts.path;
    this.#parts = parts;
  }

  async first(): Promise<Draft> {
    const look = await this.#look();
    this.#seen = look.mark;
    const draft = this.#draft(look);
    if (draft instanceof SvcError) throw draft;
    return draft;
  }

  follow(hear: (news: Draft | SvcError) => void): () => Promise<void> {
    const { host, clock } = this.#parts;
    let ended = false;
    let busy = Promise.resolve();
    /** Since when something has been stirring; only while it does. */
    let sinceMs: number | undefined;
    let callOff = () => {};
    const wait = (ms: number, then: () => Promise<void>) => {
      callOff();
      if (!ended) callOff = clock.after(ms, () => busy = busy.then(then));
    };
    const stirred = () => {
      const nowMs = clock.monotonicMs();
      sinceMs ??= nowMs;
      wait(Math.min(QUIET_MS, sinceMs + QUIET_WAIT_MAX_MS - nowMs), settled);
    };
    const settled = async () => {
      sinceMs = undefined;
      // Folders and links may be others now. Watched before it is read, nothing is missed between the two.
      unwatch();
      if (!ended) unwatch = host.watchFile(this.name, stirred);
      const look = await this.#look();
      if (!ended && look.mark !== this.#seen) {
        this.#seen = look.mark;
        hear(this.#draft(look));
      }
      if (sinceMs === undefined) wait(POLL_MS, poll);
    };
    const poll = async () => {
      if ((await this.#look()).mark !== this.#seen) stirred();
      else if (sinceMs === undefined) wait(POLL_MS, poll);
    };
    let unwatch = host.watchFile(this.name, stirred);
    // It may have changed since it was read first.
    stirred();
    return async () => {
      ended = true;
      callOff();
      unwatch();
      await busy;
    };
  }

  /** The file itself is what the next start begins with. */
  keep(_draft: Draft): Promise<void> {
    return Promise.resolve();
  }

  kept(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  async #look(): Promise<Look> {
    try {
      const bytes = await readConfigBytes(this.#parts.host, this.name);
      return { bytes, mark: createHash("sha256").update(bytes).digest("hex") };
    } catch (thrown) {
      const error = SvcError.from(thrown);
      return { error, mark: `error: ${chainOf(error)}` };
    }
  }

  #draft(look: Look): Draft | SvcError {
    if ("error" in look) return look.error;
    const { env } = this.#parts.host;
    const problems: Problem[] = [];
    try {
      const options = { file: this.name, env: (name: string) => env.call(this.#parts.host, name), problems };
      const json = parseConfig(look.bytes, options);
      return { json, revision: look.mark.slice(0, REVISION_LENGTH), problems };
    } catch (thrown) {
      return SvcError.from(thrown);
    }
  }
}
