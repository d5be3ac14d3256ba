/**
 * Downloads by http and https into a partial file, which a later attempt continues, also one of another process.
 *
 * Owns the partial file and a note beside it (`.json`) of the content that its bytes belong to. After `fetch` and `copy`
 * the file is complete, synced and of the wanted sum and size; the caller moves it to its place and calls `discard`.
 * Bytes that turn out to be wrong are removed, and so are those of a disk that is full: both say nothing about the next
 * attempt. A server that falls silent is given up after a time; time for writing does not count.
 *
 * The room owns how files come from a server, whoever needs them: agents their programs, machines their packages.
 */

import { createHash } from "node:crypto";
import { type Clock, deadline } from "../clock.ts";
import { chainOf, SvcError } from "../error.ts";
import { bytesUpTo } from "../files/byte_reader.ts";
import { FileError, type ReadFiles, type WriteFiles } from "../files/files.ts";
import {
  conditionFor,
  contentEncodingOf,
  decoded,
  isDecoded,
  isSameContent,
  rangeStart,
  retryAfterMs,
  type Validators,
  validatorsIn,
} from "./answer.ts";

export interface HttpDownloadParts {
  readonly files: ReadFiles & WriteFiles;
  readonly clock: Clock;
  /** Time without data after which a server counts as gone. */
  readonly stallMs: number;
  readonly errors: DownloadErrors;
  readonly fetch?: typeof fetch;
}

/** The errors that the caller words, so that its users read of releases or of packages. */
export interface DownloadErrors {
  /** The server answers a request for a file, or for JSON, with another status than a good one. */
  refused(answer: RefusedAnswer): SvcError;
  tooLong(foundBytes: number, mostBytes: number): SvcError;
  wrongContent(found: FileContent, wanted: Partial<FileContent>): SvcError;
  /** A small file of JSON has more than `mostBytes`, or no JSON, if that is undefined. */
  badJson(url: string, mostBytes: number | undefined): SvcError;
}

export interface RefusedAnswer {
  readonly url: string;
  /** Absent for JSON. */
  readonly file?: WantedFile;
  readonly status: number;
  /** The beginning of the body's first line. */
  readonly line: string;
  /** What `Retry-After` asks for. */
  readonly retryMs?: number;
}

export interface FileContent {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** The file to download, and what is known of it before. */
export interface WantedFile extends Partial<FileContent> {
  /** For errors. */
  readonly name: string;
  /** The path of the partial file. */
  readonly part: string;
  /** Names the content: a partial file of another one is not continued. May be secret. */
  readonly source: string;
  /** The tag that a server gives this content; a partial file without a note is continued by it. */
  readonly etag?: string;
  /** Permissions of the file. */
  readonly mode?: number;
}

export interface DownloadProgress {
  readonly doneBytes: number;
  /** Absent if unknown. */
  readonly totalBytes?: number;
}

type ReportProgress = (progress: DownloadProgress) => void;

/** Space that downloads leave free. */
const RESERVE_BYTES = 32 * 1024 ** 2;
/** Far above the size of any release or package. */
const SIZE_MAX_BYTES = 4 * 1024 ** 3;
/** Far above the size of any signature, and of any list of keys. */
const JSON_MAX_BYTES = 1024 * 1024;
/** Interval of the checks of free space. */
const LOOK_BYTES = 16 * 1024 ** 2;
const LINE_CHARS_MAX = 300;
const REDIRECTIONS_MAX = 20;
const REDIRECTIONS: readonly number[] = [301, 302, 303, 307, 308];
/** An attempt that brings less than this has made no progress. */
const PROGRESS_BYTES = 16 * 1024;
const NOTE_SUFFIX = ".json";

/** The content of a partial file: the sum of its source, and what the server said of it. */
interface Note extends Validators {
  readonly source: string;
}

/** Where the bytes of an answer belong. */
interface Extent {
  readonly from: number;
  readonly totalBytes: number | undefined;
}

export class HttpDownload {
  constructor(private readonly parts: HttpDownloadParts) {}

  /** Completes the partial file from the address. `resumed` is called if earlier bytes are of use. */
  async fetch(
    url: string,
    wanted: WantedFile,
    report: ReportProgress,
    signal: AbortSignal,
    resumed: (fromBytes: number) => void = () => {},
  ): Promise<FileContent> {
    return await this.#complete(wanted, async () => {
      const started = await this.#start(url, wanted, signal);
      if (!started) return;

      const { answer, from } = started;
      const encoding = contentEncodingOf(answer);
      if (!isDecoded(encoding)) {
        await answer.body?.cancel();
        throw new SvcError(
          "unavailable",
          `the server sends the file compressed (${encoding}), wanted it as it is`,
        );
      }

      if (from > 0) resumed(from);
      const length = Number(answer.headers.get("content-length") ?? NaN);
      // The length counts compressed bytes, and a position among them is useless here.
      const totalBytes = encoding === "" && Number.isFinite(length) ? from + length : undefined;
      await this.#mark(wanted, from, encoding === "" ? validatorsIn(answer) : {});
      const pieces = decoded(this.#alive(answer.body ?? emptyBody(), signal), encoding);
      await this.#store(wanted, { from, totalBytes }, pieces, report);
    });
  }

  /** Makes the partial file a copy of a file of this device. */
  async copy(
    path: string,
    wanted: WantedFile,
    report: ReportProgress,
    signal: AbortSignal,
  ): Promise<FileContent> {
    const { files } = this.parts;
    return await this.#complete(wanted, async () => {
      const found = await files.findFile(path);
      if (!found) throw new SvcError("not_found", `there is no file ${path}`);
      await files.remove(`${wanted.part}${NOTE_SUFFIX}`);

      const pieces = (async function* () {
        for await (const piece of files.readPieces(path)) {
          signal.throwIfAborted();
          yield piece;
        }
      })();
      await this.#store(wanted, { from: 0, totalBytes: found.sizeBytes }, pieces, report);
    });
  }

  /** Removes a partial file, if it is still there, and its note. */
  async discard({ part }: Pick<WantedFile, "part">): Promise<void> {
    await this.parts.files.remove(part).catch(() => {});
    await this.parts.files.remove(`${part}${NOTE_SUFFIX}`).catch(() => {});
  }

  /** The JSON at an address, within a size. */
  async json(url: string, signal: AbortSignal): Promise<unknown> {
    const answer = await this.ask(url, {}, signal);
    if (!answer.ok) throw await this.#refusal(url, undefined, answer, signal);

    const bytes = await bytesUpTo(this.#alive(answer.body ?? emptyBody(), signal), JSON_MAX_BYTES);
    if (!bytes) throw this.parts.errors.badJson(url, JSON_MAX_BYTES);
    try {
      return JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      throw this.parts.errors.badJson(url, undefined);
    }
  }

  /**
   * The beginning of a server's answer, within a time, after its redirections. The caller reads the body or cancels it.
   * What nothing else checks must not come without TLS from an address with it.
   */
  async ask(
    url: string,
    { isChecked = true, ...init }: {
      readonly method?: string;
      readonly headers?: Record<string, string>;
      /** Whether a sum or a signature tells what the answer has to be. */
      readonly isChecked?: boolean;
    },
    signal: AbortSignal,
  ): Promise<Response> {
    const { clock, stallMs } = this.parts;
    const late = () => new SvcError("deadline_exceeded", `${url} does not answer within ${stallMs / 1000} s`);
    const limit = deadline(clock, stallMs, late, signal);
    // Requests the plain bytes, because a range of a compressed body would be useless.
    const headers = { "accept-encoding": "identity", ...init.headers };
    try {
      return await this.#followed(url, { ...init, headers, signal: limit.signal }, isChecked);
    } catch (error) {
      if (limit.signal.aborted) throw limit.signal.reason;
      if (error instanceof SvcError) throw error;
      throw new SvcError("unavailable", `${url} cannot be reached: ${chainOf(error)}`, { cause: error });
    } finally {
      limit.done();
    }
  }

  /** The answer of the address that redirections lead to. */
  async #followed(url: string, init: RequestInit, mayLeaveTls: boolean): Promise<Response> {
    const { fetch: ask = fetch } = this.parts;
    for (let [at, hops] = [url, 0];; hops++) {
      const answer = await ask(at, { ...init, redirect: "manual" });
      const to = redirection(at, answer);
      if (to === undefined) return answer;

      await answer.body?.cancel();
      if (hops === REDIRECTIONS_MAX) {
        throw new SvcError("unavailable", `${url} leads on more than ${REDIRECTIONS_MAX} times`);
      }
      const { protocol, origin } = new URL(to);
      if (!["https:", "http:"].includes(protocol)) {
        throw new SvcError(
          "unavailable",
          `${url} leads to an address that begins with ${protocol}, wanted https:`,
        );
      }
      if (!mayLeaveTls && at.startsWith("https:") && protocol !== "https:") {
        throw new SvcError("unavailable", `${url} leads to ${origin} without TLS, wanted https`);
      }
      at = to;
    }
  }

  /** Fills the partial file, and checks it. Keeps its bytes after a failure if the next attempt can use them. */
  async #complete(wanted: WantedFile, fill: () => Promise<void>): Promise<FileContent> {
    const { files, errors } = this.parts;
    try {
      await fill();

      const sizeBytes = (await files.findFile(wanted.part))?.sizeBytes ?? 0;
      const found = { sha256: await computeSha256(files, wanted.part), sizeBytes };
      if (isContent(found, wanted)) return found;
      throw errors.wrongContent(found, wanted);
    } catch (error) {
      const { code } = SvcError.from(error);
      if (code === "resource_exhausted" || code === "data_loss") await this.discard(wanted);
      throw error;
    }
  }

  /**
   * The answer with the rest of the file, or with all of it, and where its bytes belong; `undefined` if the partial file
   * is complete.
   */
  async #start(
    url: string,
    wanted: WantedFile,
    signal: AbortSignal,
  ): Promise<{ readonly answer: Response; readonly from: number } | undefined> {
    const { files } = this.parts;
    const note = await this.#usableNote(wanted);
    const condition = note && conditionFor(note, wanted.sha256 !== undefined);
    const have = condition ? (await files.findFile(wanted.part))?.sizeBytes ?? 0 : 0;
    const isChecked = wanted.sha256 !== undefined;
    let answer = await this.ask(url, {
      headers: have > 0 ? { range: `bytes=${have}-`, ...condition } : {},
      isChecked,
    }, signal);

    const isOther = answer.status === 206 && note !== undefined && !isSameContent(note, answer);
    if (answer.status === 416 || isOther || (answer.status === 206 && contentEncodingOf(answer) !== "")) {
      await answer.body?.cancel();
      // The file ends where the partial one does: the attempt before ended just before its check.
      if (answer.status === 416 && have > 0 && await this.#isComplete(wanted)) return undefined;
      answer = await this.ask(url, { isChecked }, signal);
    }

    const from = answer.status === 206 && rangeStart(answer) === have ? have : 0;
    if (answer.status === 200 || from > 0) return { answer, from };
    throw await this.#refusal(url, wanted, answer, signal);
  }

  async #isComplete(wanted: WantedFile): Promise<boolean> {
    if (wanted.sha256 === undefined) return false;
    if (await computeSha256(this.parts.files, wanted.part) !== wanted.sha256) return false;

    await this.parts.files.syncFile(wanted.part);
    return true;
  }

  async #store(
    { part, sizeBytes, mode }: WantedFile,
    { from, totalBytes }: Extent,
    pieces: AsyncIterable<Uint8Array>,
    report: ReportProgress,
  ): Promise<void> {
    const { files, errors } = this.parts;
    const mostBytes = sizeBytes ?? SIZE_MAX_BYTES;
    if ((totalBytes ?? 0) > mostBytes) throw errors.tooLong(totalBytes ?? 0, mostBytes);
    await this.#mustFit(part, (totalBytes ?? 0) - from);

    const file = await files.open(part, from > 0 ? "append" : "new", mode);
    let doneBytes = from;
    try {
      let lookedBytes = from;
      report({ doneBytes, totalBytes });
      for await (const piece of pieces) {
        doneBytes += piece.length;
        if (doneBytes > mostBytes) throw errors.tooLong(doneBytes, mostBytes);
        await file.write(piece);
        report({ doneBytes, totalBytes });
        if (doneBytes - lookedBytes < LOOK_BYTES) continue;
        lookedBytes = doneBytes;
        await this.#mustFit(part, (totalBytes ?? 0) - doneBytes);
      }

      if (mode !== undefined) await files.setMode(part, mode);
      await file.sync();
    } catch (error) {
      throw ofDisk(error);
    } finally {
      file.close();
      report({ doneBytes, totalBytes });
    }

    if (totalBytes !== undefined && doneBytes !== totalBytes) {
      throw new SvcError("unavailable", `the connection ended after ${doneBytes} of ${totalBytes} bytes`);
    }
  }

  async #mustFit(part: string, moreBytes: number): Promise<void> {
    const freeBytes = await this.parts.files.freeBytes(part.replace(/[\\/][^\\/]*$/, ""));
    const wantedBytes = Math.max(0, moreBytes) + RESERVE_BYTES;
    if (freeBytes >= wantedBytes) return;
    const wanted = `${megabytes(wantedBytes)} MB, including the reserve`;
    throw new SvcError("resource_exhausted", `found ${megabytes(freeBytes)} MB of space, wanted ${wanted}`);
  }

  /** What is known of the bytes in the partial file; `undefined` if they may belong to another content. */
  async #usableNote({ part, source, etag }: WantedFile): Promise<Validators | undefined> {
    let note: Note;
    try {
      note = JSON.parse(await this.parts.files.readTextFile(`${part}${NOTE_SUFFIX}`));
    } catch {
      return etag === undefined ? undefined : { etag };
    }
    return note?.source === sumOf(source) ? note : undefined;
  }

  async #mark({ part, source }: WantedFile, from: number, validators: Validators): Promise<void> {
    const { files } = this.parts;
    // A power loss must not leave the old bytes beside the new note.
    if (from === 0) await files.removeDurably(part);
    const note: Note = { source: sumOf(source), ...validators };
    await files.writeFile(`${part}${NOTE_SUFFIX}`, JSON.stringify(note), { mode: 0o600 });
  }

  async #refusal(
    url: string,
    file: WantedFile | undefined,
    answer: Response,
    signal: AbortSignal,
  ): Promise<SvcError> {
    const { clock, errors } = this.parts;
    const line = await this.#firstLine(answer, signal);
    const retryMs = retryAfterMs(answer, clock.nowMs());
    return errors.refused({ url, file, status: answer.status, line, retryMs });
  }

  /** The beginning of a body, whatever comes after it; empty if it does not come. */
  async #firstLine({ body }: Response, signal: AbortSignal): Promise<string> {
    try {
      for await (const piece of this.#alive(body ?? emptyBody(), signal)) {
        const [line = ""] = new TextDecoder().decode(piece).split("\n");
        return line.slice(0, LINE_CHARS_MAX);
      }
    } catch (error) {
      if (signal.aborted) throw error;
    }
    return "";
  }

  /** The body's pieces; throws when the server stalls. */
  async *#alive(
    body: ReadableStream<Uint8Array<ArrayBuffer>>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    const { clock, stallMs } = this.parts;
    const reader = body.getReader();
    try {
      for (;;) {
        const late = () =>
          new SvcError("deadline_exceeded", `the server sent nothing for ${stallMs / 1000} s`);
        const limit = deadline(clock, stallMs, late, signal);
        const stop = () => void reader.cancel(limit.signal.reason).catch(() => {});
        limit.signal.addEventListener("abort", stop, { once: true });
        let read: ReadableStreamReadResult<Uint8Array<ArrayBuffer>>;
        try {
          read = await reader.read();
          if (limit.signal.aborted) throw limit.signal.reason;
        } finally {
          limit.done();
        }
        if (read.done) return;
        // A slow disk is not a silent server: the time limit covers waiting for bytes, not writing them.
        yield read.value;
      }
    } catch (error) {
      throw error instanceof SvcError || signal.aborted
        ? error
        : new SvcError("unavailable", `the connection broke: ${chainOf(error)}`, { cause: error });
    } finally {
      await reader.cancel().catch(() => {});
    }
  }
}

/**
 * How much an attempt brings. On a bad connection every attempt ends early; as long as each makes progress, the pauses
 * between them stay short.
 */
export class AttemptProgress {
  #beganBytes?: number;
  #doneBytes = 0;

  add({ doneBytes }: DownloadProgress): void {
    this.#beganBytes ??= doneBytes;
    this.#doneBytes = doneBytes;
  }

  get isWorthwhile(): boolean {
    return this.#doneBytes - (this.#beganBytes ?? 0) >= PROGRESS_BYTES;
  }
}

/** The SHA-256 of a file, hexadecimal. */
export async function computeSha256(files: ReadFiles, path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of files.readPieces(path)) hash.update(piece);
  return hash.digest("hex");
}

function isContent(found: FileContent, wanted: Partial<FileContent>): boolean {
  return found.sha256 === (wanted.sha256 ?? found.sha256) &&
    found.sizeBytes === (wanted.sizeBytes ?? found.sizeBytes);
}

/** A problem of this device's disk says nothing about the file. */
function ofDisk(error: unknown): unknown {
  if (!(error instanceof FileError) || error.code === "resource_exhausted") return error;
  return new SvcError("unavailable", `the download was interrupted: ${error.message}`, { cause: error });
}

function emptyBody(): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({ start: (stream) => stream.close() });
}

function sumOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** The address that an answer leads to, if it does. */
function redirection(at: string, { status, headers }: Response): string | undefined {
  const location = headers.get("location") ?? "";
  if (!REDIRECTIONS.includes(status) || location === "" || !URL.canParse(location, at)) return undefined;
  return new URL(location, at).href;
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1024 ** 2);
}
