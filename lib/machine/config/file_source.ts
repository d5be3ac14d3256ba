/**
 * The configuration of a file: read at the start, and again whenever it reads differently.
 *
 * However the file is changed (written in place, replaced by renaming, removed and made anew, a link turned), what
 * counts is its content when it has been still for a moment: a short one for text that is whole, as no part of a
 * JSON object is whole itself, and a longer one for all else, which somebody may still be writing. The system tells of
 * changes; a slow look of our own finds those that it does not tell of, as on a network file system. Bytes that were
 * read before are no news.
 */

import { createHash } from "node:crypto";
import type { Environment } from "../../base/host.ts";
import type { ReadFiles, WatchFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Problem } from "../../base/schema/schema.ts";
import { parseConfig, readConfigBytes } from "./config_file.ts";
import type { ConfigSource, Draft } from "./config_source.ts";

/**
 * A whole text must have been still this long: a program that writes over a file without emptying it first leaves a
 * mixture of both for as long as it writes, which may read well.
 */
const WHOLE_STILL_MS = 40;
/** A file that cannot be read as a whole, or is not there, is news when it has been still this long. */
const STILL_MS = 500;
/** A file that is never still is read all the same. */
const STILL_WAIT_MAX_MS = 2_000;
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
    const news = async (): Promise<News | undefined> => {
      const look = await this.#look();
      if (look.mark === this.#seen) return undefined;
      return { draft: this.#draft(look), take: () => void (this.#seen = look.mark) };
    };
    const following = new Following(this.#parts, news, hear);
    return () => following.end();
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

/** What is different from before, if it is taken. */
interface News {
  readonly draft: Draft | SvcError;
  take(): void;
}

/** Changes that follow each other closely: the time of the first, and of the last. */
interface Stir {
  sinceMs: number;
  readonly lastMs: number;
}

/** When a file counts as still that has to be so for `ms`. */
function stillAtMs(ms: number, { sinceMs, lastMs }: Stir): number {
  return Math.min(lastMs + ms, sinceMs + STILL_WAIT_MAX_MS);
}

/** Looks at the file when it has changed and is still again. */
class Following {
  readonly #stirred = () => this.#stir();
  #unwatch: () => void;
  #ended = false;
  #busy = Promise.resolve();
  #callOff = () => {};
  /** Only while something stirs. */
  #stirring: Stir | undefined;

  constructor(
    private readonly parts: FileSourceParts,
    private readonly news: () => Promise<News | undefined>,
    private readonly hear: (news: Draft | SvcError) => void,
  ) {
    this.#unwatch = this.#watch();
    // It may have changed since it was read first.
    this.#stir();
  }

  async end(): Promise<void> {
    this.#ended = true;
    this.#callOff();
    this.#unwatch();
    await this.#busy;
  }

  #watch(): () => void {
    return this.parts.host.watchFile(this.parts.path, this.#stirred);
  }

  #wait(ms: number, then: () => Promise<void>): void {
    this.#callOff();
    if (this.#ended) return;
    this.#callOff = this.parts.clock.after(ms, () => this.#busy = this.#busy.then(then));
  }

  #stir(): void {
    const nowMs = this.parts.clock.monotonicMs();
    this.#stirring = { sinceMs: this.#stirring?.sinceMs ?? nowMs, lastMs: nowMs };
    this.#lookWhenStill(WHOLE_STILL_MS, this.#stirring);
  }

  #lookWhenStill(ms: number, stir: Stir): void {
    this.#wait(stillAtMs(ms, stir) - this.parts.clock.monotonicMs(), () => this.#settled(stir));
  }

  async #settled(stir: Stir): Promise<void> {
    const { clock } = this.parts;
    this.#stirring = undefined;
    // Folders and links may be others now. Watched before it is read, nothing is missed between the two.
    this.#unwatch();
    if (!this.#ended) this.#unwatch = this.#watch();
    const news = await this.news();
    if (this.#ended) return;
    const nowMs = clock.monotonicMs();
    const again = this.#stirredAgain();
    if (again && nowMs < stir.sinceMs + STILL_WAIT_MAX_MS) {
      // It has changed once more meanwhile, and is looked at again.
      again.sinceMs = stir.sinceMs;
      return;
    }
    if (news?.draft instanceof SvcError && nowMs < stillAtMs(STILL_MS, stir)) {
      this.#stirring = stir;
      return this.#lookWhenStill(STILL_MS, stir);
    }
    news?.take();
    if (news) this.hear(news.draft);
    if (!again) this.#pollLater();
  }

  #stirredAgain(): Stir | undefined {
    return this.#stirring;
  }

  #pollLater(): void {
    this.#wait(POLL_MS, async () => {
      if (await this.news()) this.#stir();
      else if (!this.#stirring) this.#pollLater();
    });
  }
}
