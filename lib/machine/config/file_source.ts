/**
 * The configuration file as a source: read at the start, and again whenever its content changes.
 *
 * However the file changes (written in place, replaced by renaming, removed and created again, a link changed), its
 * content counts once it has been stable for a moment: a short one for a complete JSON object, of which no part is
 * complete itself, and a longer one for anything else, which an editor may still be writing. A watch announces changes
 * of the file's time and size; a slow poll of the content finds all others. Unchanged bytes are no news. A pipe, such
 * as `/dev/stdin`, is read at the start only.
 */

import { createHash } from "node:crypto";
import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Environment } from "../../base/host.ts";
import type { ReadFiles, WatchFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Problem } from "../../base/schema/schema.ts";
import { parseConfig, positionsIn, readConfigBytes } from "./file.ts";
import type { ConfigDraft, ConfigSource } from "./source.ts";

/**
 * A complete text must be stable this long: a program that overwrites a file without emptying it first leaves a
 * mixture of both contents meanwhile, which may be valid.
 */
const WHOLE_STILL_MS = 40;
/** An incomplete or missing file is reported when it has been stable this long. */
const STILL_MS = 500;
/** A file that never becomes stable is read after this time. */
const STILL_WAIT_MAX_MS = 2_000;
/** Interval of the poll. */
const POLL_MS = 5_000;
const REVISION_LENGTH = 12;

export interface FileSourceParts {
  readonly path: string;
  readonly host: Environment & ReadFiles & WatchFiles;
  readonly clock: Clock;
}

/** The content: its bytes, or the failure to read them, and a text that is equal for equal contents. */
type Look = { readonly mark: string } & ({ readonly bytes: Uint8Array } | { readonly error: SvcError });

export class FileSource implements ConfigSource {
  readonly name: string;
  readonly #parts: FileSourceParts;
  #seen = "";
  #isPiped = false;

  constructor(parts: FileSourceParts) {
    this.name = parts.path;
    this.#parts = parts;
  }

  async first(): Promise<ConfigDraft> {
    this.#isPiped = await this.#isPipe();
    const look = await this.#look();
    this.#seen = look.mark;
    const draft = this.#draft(look);
    if (draft instanceof SvcError) throw draft;
    return draft;
  }

  follow(hear: (news: ConfigDraft | SvcError) => void): () => Promise<void> {
    if (this.#isPiped) return () => Promise.resolve();
    const news = async (): Promise<News | undefined> => {
      const look = await this.#isPipe() ? this.#unreadable() : await this.#look();
      if (look.mark === this.#seen) return undefined;
      return { draft: this.#draft(look), take: () => void (this.#seen = look.mark) };
    };
    const following = new Following(this.#parts, news, hear);
    return () => following.end();
  }

  /** The next start reads the file itself. */
  keep(_draft: ConfigDraft): Promise<void> {
    return Promise.resolve();
  }

  kept(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  async #isPipe(): Promise<boolean> {
    return (await this.#parts.host.stat(this.name))?.kind === "other";
  }

  /** Reading a pipe may wait for ever. */
  #unreadable(): Look {
    const message = `${this.name}: found a pipe or a device, wanted a file`;
    return { error: new SvcError("invalid_argument", message), mark: `error: ${message}` };
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

  #draft(look: Look): ConfigDraft | SvcError {
    if ("error" in look) return look.error;
    const { env } = this.#parts.host;
    const problems: Problem[] = [];
    try {
      const options = { file: this.name, env: (name: string) => env.call(this.#parts.host, name), problems };
      const json = parseConfig(look.bytes, options);
      const where = positionsIn(look.bytes, options);
      return { json, revision: look.mark.slice(0, REVISION_LENGTH), problems, where };
    } catch (thrown) {
      return SvcError.from(thrown);
    }
  }
}

/** The difference to the last content. */
interface News {
  readonly draft: ConfigDraft | SvcError;
  take(): void;
}

/** A series of changes: the times of the first and of the last one. */
interface Stir {
  sinceMs: number;
  readonly lastMs: number;
}

/** The time at which a file counts as stable for `ms`. */
function stillAtMs(ms: number, { sinceMs, lastMs }: Stir): number {
  return Math.min(lastMs + ms, sinceMs + STILL_WAIT_MAX_MS);
}

/** Reads the file when it has changed and is stable again. */
class Following {
  readonly #stirred = () => this.#stir();
  #unwatch: () => void;
  #ended = false;
  readonly #work = new SerialQueue();
  #callOff = () => {};
  /** Only during a series of changes. */
  #stirring: Stir | undefined;

  constructor(
    private readonly parts: FileSourceParts,
    private readonly news: () => Promise<News | undefined>,
    private readonly hear: (news: ConfigDraft | SvcError) => void,
  ) {
    this.#unwatch = this.#watch();
    // It may have changed since the first read.
    this.#stir();
  }

  async end(): Promise<void> {
    this.#ended = true;
    this.#callOff();
    this.#unwatch();
    await this.#work.idle();
  }

  #watch(): () => void {
    return this.parts.host.watchFile(this.parts.path, this.#stirred);
  }

  #wait(ms: number, then: () => Promise<void>): void {
    this.#callOff();
    if (this.#ended) return;
    this.#callOff = this.parts.clock.after(ms, () => void this.#work.run(then));
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
    // Folders and links may have changed. Watching before reading misses nothing between the two.
    this.#unwatch();
    if (!this.#ended) this.#unwatch = this.#watch();
    const news = await this.news();
    if (this.#ended) return;

    const nowMs = clock.monotonicMs();
    const again = this.#stirredAgain();
    if (again && nowMs < stir.sinceMs + STILL_WAIT_MAX_MS) {
      // It has changed again meanwhile, and is read again.
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
