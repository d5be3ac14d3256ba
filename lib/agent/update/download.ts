/**
 * Downloads of releases by http, https and from files; an interrupted download resumes.
 *
 * Owns `cache/part`, which has for each download a file and a note of its source. `fetch` returns a file in `cache`
 * whose name contains its sum; the file is complete, synced and equal to the release. A full disk costs only the
 * partial file. No decision depends on the time of day; if a certificate is not valid yet, the error suggests that the
 * clock is wrong.
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bytesUpTo } from "../../base/files/byte_reader.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { clockHint } from "../../base/log/clock_hint.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import { fileNameOf, type Release } from "./release.ts";
import type { AcceptedKeys } from "../../base/release/accepted_keys.ts";
import type { Build } from "./state.ts";
import type { DownloadProgress, Fetcher } from "./fetcher.ts";

export interface DownloadParts {
  readonly base: string;
  readonly files: ReadFiles & WriteFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Keys that releases must be signed with; without keys, the sum from the cloud suffices. */
  readonly keys?: AcceptedKeys;
  /** In the published notation: `linux/amd64`. */
  readonly platform: string;
  readonly fetch?: typeof fetch;
}

/** What happens while the clock is wrong. */
const UNTIL_SET = "the download repeats until the time is set";
/** Space that downloads leave free. */
const RESERVE_BYTES = 32 * 1024 ** 2;
/** Far above the size of any release. */
const SIZE_MAX_BYTES = 4 * 1024 ** 3;
/** Far above the size of any signature, and of any list of keys. */
const JSON_MAX_BYTES = 1024 * 1024;
/** Time without data after which a server counts as gone. */
const STALL_MS = 60_000;
/** Interval of the checks of free space and of the progress lines. */
const LOOK_BYTES = 16 * 1024 ** 2;
/** Longest pause that a server can request. */
const RETRY_AFTER_MAX_MS = 24 * 3600_000;
const NOTE_SUFFIX = ".json";
const PART_SUFFIX = ".part";

/** The required sum and size of a file, as far as they are known before its download. */
interface Promised {
  readonly sha256?: string;
  readonly sizeBytes?: number;
}

/** The source of a partial file. */
interface Note {
  /** SHA-256 of the address, which may have a password. */
  readonly source: string;
  readonly key: string;
  readonly etag?: string;
  readonly modified?: string;
}

export class Download implements Fetcher {
  readonly #parts: DownloadParts;

  constructor(parts: DownloadParts) {
    this.#parts = parts;
  }

  async fetch(
    release: Release,
    progress: (progress: DownloadProgress) => void,
    signal: AbortSignal,
  ): Promise<Build> {
    const part = join(this.#folder, `${partName(release.url)}${PART_SUFFIX}`);
    await this.#parts.files.makeFolder(this.#folder);
    try {
      const promise = await this.#promised(release, signal);
      const found = await this.#inCache(release, promise.sha256);
      if (found) return found;
      await (release.url.startsWith("file:")
        ? this.#copy(release, part, promise, progress, signal)
        : this.#get(release, part, promise, progress, signal));
      return await this.#accept(release, part, promise);
    } catch (error) {
      throw await this.#mended(error, part, release);
    }
  }

  async stamp({ url }: Release, signal: AbortSignal): Promise<string | undefined> {
    if (url.startsWith("file:")) {
      const found = await this.#parts.files.findFile(fileURLToPath(url));
      return found && String(Math.round(found.modifiedMs));
    }
    const answer = await this.#ask(url, { method: "HEAD" }, signal);
    await answer.body?.cancel();
    const changedMs = Date.parse(answer.headers.get("last-modified") ?? "");
    return answer.ok && Number.isFinite(changedMs) ? String(changedMs) : undefined;
  }

  async withheld(release: Release, signal: AbortSignal): Promise<string | undefined> {
    const { keys, platform } = this.#parts;
    const { name, version, sha256, url, wanted } = release;
    if (wanted === undefined || url.startsWith("file:")) return undefined;
    const file = { name, version, sha256, url, platform, wanted };
    return await keys?.withheld(file, (at) => this.#json(at, signal));
  }

  async clean(keepMs: number): Promise<string[]> {
    const { files, clock } = this.#parts;
    const removed: string[] = [];
    for (const name of await files.readFolder(this.#folder).catch(() => [])) {
      const found = await files.findFile(join(this.#folder, name));
      const ageMs = clock.nowMs() - (found?.modifiedMs ?? 0);
      // A negative age means that the clock was set back; a later cleaning decides.
      if (ageMs < keepMs) continue;
      await files.remove(join(this.#folder, name)).then(() => removed.push(name), () => {});
    }
    return removed;
  }

  get #folder(): string {
    return join(this.#parts.base, "cache", "part");
  }

  /**
   * The known facts about a release before its download; on a device with pinned keys, the signed ones. Throws for a
   * release that this device does not accept.
   */
  async #promised(release: Release, signal: AbortSignal): Promise<Promised> {
    const { keys, base, files, platform } = this.#parts;
    const { name, version, sha256, url, custom, wanted } = release;
    if (!keys || !await keys.required()) return { sha256 };
    if (custom && await allowsUrls(base, files)) return { sha256 };
    if (url.startsWith("file:")) throw unsigned(base, "nobody signs a file of this device");
    const file = { name, version: custom ? undefined : version, sha256, url, platform, wanted };
    try {
      const statement = await keys.check(file, (at) => this.#json(at, signal));
      return { sha256: statement?.sha256 ?? sha256, sizeBytes: statement?.size };
    } catch (error) {
      throw custom && SvcError.from(error).code === "not_found" ? unsigned(base, chainOf(error)) : error;
    }
  }

  /** The cached file of a release: an earlier attempt fetched it, or the device returns to it. */
  async #inCache({ name, version, key }: Release, sha256: string | undefined): Promise<Build | undefined> {
    if (sha256 === undefined) return undefined;
    const file = fileNameOf(name, version, sha256);
    const path = join(this.#parts.base, "cache", file);
    const found = await this.#parts.files.findFile(path);
    if (!found || await computeSha256(this.#parts.files, path) !== sha256) return undefined;
    return { key, version, file, sha256, sizeBytes: found.sizeBytes };
  }

  async #get(
    release: Release,
    part: string,
    promise: Promised,
    progress: (progress: DownloadProgress) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { files, logger } = this.#parts;
    const note = await this.#note(part);
    const isSame = note?.source === sumOf(release.url) && note.key === release.key;
    const validator = isSame ? validatorOf(note, promise.sha256 !== undefined) : undefined;
    const have = validator === undefined ? 0 : (await files.findFile(part))?.sizeBytes ?? 0;
    const resumed: Record<string, string> = have > 0 ? { range: `bytes=${have}-`, ...validator } : {};
    let answer = await this.#ask(release.url, { headers: resumed }, signal);
    const isOther = answer.status === 206 && note !== undefined && !isSameContent(note, answer);
    if (answer.status === 416 || isOther || (answer.status === 206 && encodingOf(answer) !== "")) {
      await answer.body?.cancel();
      answer = await this.#ask(release.url, {}, signal);
    }
    const from = answer.status === 206 && rangeStart(answer) === have ? have : 0;
    if (!(answer.status === 200 || (answer.status === 206 && from > 0))) {
      await answer.body?.cancel();
      throw refusalOf(release, answer, this.#parts.clock.nowMs());
    }
    const encoding = encodingOf(answer);
    if (!isDecoded(encoding)) {
      await answer.body?.cancel();
      throw new SvcError(
        "unavailable",
        `the server sends the file compressed (${encoding}), wanted it as it is`,
      );
    }
    if (from > 0) logger.info(`${release.version}: resuming after ${from} bytes`);
    const length = Number(answer.headers.get("content-length") ?? NaN);
    // The length counts compressed bytes, and a position among them is useless here.
    const totalBytes = encoding === "" && Number.isFinite(length) ? from + length : undefined;
    await this.#mark(part, {
      source: sumOf(release.url),
      key: release.key,
      ...encoding === "" ? validatorsIn(answer) : {},
    });
    const body = answer.body ?? new ReadableStream({ start: (stream) => stream.close() });
    await this.#store(
      part,
      { from, totalBytes, promise },
      decoded(this.#alive(body, signal), encoding),
      progress,
    );
  }

  async #copy(
    release: Release,
    part: string,
    promise: Promised,
    progress: (progress: DownloadProgress) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { files } = this.#parts;
    const path = fileURLToPath(release.url);
    const found = await files.findFile(path);
    if (!found) throw new SvcError("not_found", `there is no file ${path}`);
    await files.remove(`${part}${NOTE_SUFFIX}`);
    const chunks = (async function* () {
      for await (const chunk of files.readPieces(path)) {
        signal.throwIfAborted();
        yield chunk;
      }
    })();
    await this.#store(part, { from: 0, totalBytes: found.sizeBytes, promise }, chunks, progress);
  }

  async #store(
    part: string,
    { from, totalBytes, promise: { sizeBytes } }: Extent,
    chunks: AsyncIterable<Uint8Array>,
    progress: (progress: DownloadProgress) => void,
  ): Promise<void> {
    const { files } = this.#parts;
    const mostBytes = sizeBytes ?? SIZE_MAX_BYTES;
    if ((totalBytes ?? 0) > mostBytes) throw tooLong(totalBytes!, mostBytes);
    await this.#mustFit((totalBytes ?? 0) - from);
    const file = await files.open(part, from > 0 ? "append" : "new", 0o755);
    let doneBytes = from;
    try {
      let lookedBytes = from;
      progress({ doneBytes, totalBytes });
      for await (const chunk of chunks) {
        doneBytes += chunk.length;
        if (doneBytes > mostBytes) throw tooLong(doneBytes, mostBytes);
        await file.write(chunk);
        if (doneBytes - lookedBytes < LOOK_BYTES) continue;
        lookedBytes = doneBytes;
        progress({ doneBytes, totalBytes });
        await this.#mustFit((totalBytes ?? 0) - doneBytes);
      }
      await files.setMode(part, 0o755);
      await file.sync();
    } finally {
      file.close();
      progress({ doneBytes, totalBytes });
    }
    if (totalBytes !== undefined && doneBytes !== totalBytes) {
      throw new SvcError("unavailable", `the connection ended after ${doneBytes} of ${totalBytes} bytes`);
    }
  }

  /** Turns a complete partial file into a file of `cache`. */
  async #accept(release: Release, part: string, promise: Promised): Promise<Build> {
    const { files, base } = this.#parts;
    const { name, version, key } = release;
    const sizeBytes = (await files.findFile(part))?.sizeBytes ?? 0;
    const sha256 = await computeSha256(files, part);
    const { sha256: wanted = sha256, sizeBytes: wantedBytes = sizeBytes } = promise;
    if (sha256 !== wanted || sizeBytes !== wantedBytes) {
      throw new SvcError("data_loss", `found ${sizeBytes} bytes with sum ${sha256}, wanted ${wanted}`);
    }
    const file = fileNameOf(name, version, sha256);
    await files.moveDurably(part, join(base, "cache", file));
    await files.remove(`${part}${NOTE_SUFFIX}`);
    return { key, version, file, sha256, sizeBytes };
  }

  /** The error to report for a failure; removes the partial file if it is unusable. */
  async #mended(thrown: unknown, part: string, { url }: Release): Promise<SvcError> {
    const { files, clock } = this.#parts;
    const error = SvcError.from(thrown);
    if (error.code === "resource_exhausted" || error.code === "data_loss") {
      await files.remove(part).catch(() => {});
      await files.remove(`${part}${NOTE_SUFFIX}`).catch(() => {});
    }
    const { retryMs } = error;
    const problem = `${url}: ${chainOf(error)}${clockHint(chainOf(error), clock.nowMs(), UNTIL_SET)}`;
    // Drops the cause, whose text may contain the address with its password.
    return new SvcError(error.code, shownUrlsIn(problem), { retryMs });
  }

  async #mustFit(moreBytes: number): Promise<void> {
    const freeBytes = await this.#parts.files.freeBytes(this.#folder);
    const wantedBytes = Math.max(0, moreBytes) + RESERVE_BYTES;
    if (freeBytes >= wantedBytes) return;
    const wanted = `${megabytes(wantedBytes)} MB, including the reserve`;
    throw new SvcError("resource_exhausted", `found ${megabytes(freeBytes)} MB of space, wanted ${wanted}`);
  }

  async #note(part: string): Promise<Note | undefined> {
    try {
      return JSON.parse(new TextDecoder().decode(await this.#parts.files.readFile(`${part}${NOTE_SUFFIX}`)));
    } catch {
      return undefined;
    }
  }

  async #mark(part: string, note: Note): Promise<void> {
    const bytes = new TextEncoder().encode(JSON.stringify(note));
    await this.#parts.files.writeFile(`${part}${NOTE_SUFFIX}`, bytes, { mode: 0o600 });
  }

  async #json(url: string, signal: AbortSignal): Promise<unknown> {
    const answer = await this.#ask(url, {}, signal);
    if (!answer.ok) {
      await answer.body?.cancel();
      const code = answer.status === 404 ? "not_found" : "unavailable";
      throw new SvcError(code, `${url} answers ${answer.status}`);
    }
    const sent = this.#alive(answer.body ?? new Blob([]).stream(), signal);
    const bytes = await bytesUpTo(sent, JSON_MAX_BYTES);
    if (!bytes) {
      throw new SvcError("data_loss", `${url} sends more than ${JSON_MAX_BYTES} bytes, wanted a signature`);
    }
    try {
      return JSON.parse(Buffer.from(bytes).toString());
    } catch {
      throw new SvcError("data_loss", `${url} sends no JSON, wanted a signature`);
    }
  }

  async #ask(
    url: string,
    init: { method?: string; headers?: Record<string, string> },
    signal: AbortSignal,
  ): Promise<Response> {
    const { clock, fetch: ask = fetch } = this.#parts;
    const late = () =>
      new SvcError("deadline_exceeded", `${url} does not answer within ${STALL_MS / 1000} s`);
    const limit = deadline(clock, STALL_MS, late, signal);
    // Requests the plain bytes, because a range of a compressed body would be useless.
    const headers = { "accept-encoding": "identity", ...init.headers };
    try {
      return await ask(url, { ...init, headers, signal: limit.signal });
    } catch (error) {
      if (limit.signal.aborted) throw limit.signal.reason;
      throw new SvcError("unavailable", `${url} cannot be reached: ${chainOf(error)}`, { cause: error });
    } finally {
      limit.done();
    }
  }

  /** The body's pieces; throws when the server stalls. */
  async *#alive(
    body: ReadableStream<Uint8Array<ArrayBuffer>>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    const reader = body.getReader();
    try {
      for (;;) {
        const late = () =>
          new SvcError("deadline_exceeded", `the server sent nothing for ${STALL_MS / 1000} s`);
        const limit = deadline(this.#parts.clock, STALL_MS, late, signal);
        const stop = () => void reader.cancel(limit.signal.reason).catch(() => {});
        limit.signal.addEventListener("abort", stop, { once: true });
        let read: ReadableStreamReadResult<Uint8Array<ArrayBuffer>>;
        try {
          read = await reader.read();
          if (limit.signal.aborted) throw limit.signal.reason;
        } finally {
          limit.signal.removeEventListener("abort", stop);
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

/** Where a download begins and ends. */
interface Extent {
  readonly from: number;
  readonly totalBytes: number | undefined;
  readonly promise: Promised;
}

function tooLong(foundBytes: number, mostBytes: number): SvcError {
  return new SvcError("data_loss", `the server sends ${foundBytes} bytes, wanted at most ${mostBytes}`);
}

/**
 * If this file exists, a device with pinned keys accepts unsigned programs from addresses in the configuration.
 * Anybody who may write the file could replace the programs themselves.
 */
function urlsAllowedFile(base: string): string {
  return join(base, "etc", "allow_unsigned_urls");
}

/** Only a file of the administrator counts, so that the control plane cannot create one indirectly. */
async function allowsUrls(base: string, files: ReadFiles): Promise<boolean> {
  const found = await files.stat(urlsAllowedFile(base), { links: true });
  return found?.kind === "file" && (found.uid === undefined || found.uid === 0) && (found.mode & 0o022) === 0;
}

function unsigned(base: string, found: string): SvcError {
  const wanted = `wanted a signature by the pinned keys, or the file ${urlsAllowedFile(base)} of root`;
  return new SvcError("permission_denied", `this device takes no unsigned program: ${found}, ${wanted}`);
}

/** The SHA-256 of a file, hexadecimal. */
export async function computeSha256(files: ReadFiles, path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of files.readPieces(path)) hash.update(chunk);
  return hash.digest("hex");
}

function refusalOf({ version }: Release, { status, headers }: Response, nowMs: number): SvcError {
  const code = status === 404 || status === 410 ? "not_found" : "unavailable";
  const retryMs = retryAfterMs(headers.get("retry-after"), nowMs);
  const until = retryMs === undefined
    ? ""
    : `, and wants to be asked again in ${Math.ceil(retryMs / 1000)} s`;
  const problem = `the server answers ${status} to the download of ${version}, wanted 200${until}`;
  return new SvcError(code, problem, { retryMs });
}

/** `Retry-After`, a number of seconds or a date, as a time from now. */
function retryAfterMs(text: string | null, nowMs: number): number | undefined {
  if (text === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isFinite(ms) && ms > 0 ? Math.min(ms, RETRY_AFTER_MAX_MS) : undefined;
}

/** Encodings that this program can decode, for a server that compresses although it was not asked to. */
const DECODED = ["", "gzip", "deflate"] as const;

function isDecoded(encoding: string): encoding is typeof DECODED[number] {
  return (DECODED as readonly string[]).includes(encoding);
}

/** The pieces without their compression. */
async function* decoded(
  pieces: AsyncIterable<Uint8Array<ArrayBuffer>>,
  encoding: typeof DECODED[number],
): AsyncGenerator<Uint8Array> {
  if (encoding === "") return yield* pieces;
  try {
    yield* ReadableStream.from(pieces).pipeThrough(new DecompressionStream(encoding));
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError("unavailable", `what the server sends as ${encoding} is none`, { cause });
  }
}

/** Words that servers and object stores use for a body without an encoding. */
const NO_ENCODING = ["", "identity", "none", "binary", "utf-8", "utf8", "aws-chunked"];

/** The encoding of a body; empty if it is sent as it is. */
function encodingOf({ headers }: Response): string {
  const named = (headers.get("content-encoding") ?? "").toLowerCase().split(",").map((one) => one.trim());
  // RFC 9110 allows the older name.
  return named.filter((one) => !NO_ENCODING.includes(one)).join(", ").replace(/^x-gzip$/, "gzip");
}

function validatorsIn({ headers }: Response): Pick<Note, "etag" | "modified"> {
  return { etag: headers.get("etag") ?? undefined, modified: headers.get("last-modified") ?? undefined };
}

/**
 * The header field for requesting the rest of a file; `undefined` if the rest might belong to another file. If the sum
 * is known, a weak tag, a date or nothing suffices, because the sum decides in the end.
 */
function validatorOf({ etag, modified }: Note, knowsSum: boolean): Record<string, string> | undefined {
  if (etag !== undefined && !etag.startsWith("W/")) return { "if-range": etag };
  if (!knowsSum) return undefined;
  // A weak tag is not allowed in this field; the tag of the answer is compared instead.
  return etag === undefined && modified !== undefined ? { "if-range": modified } : {};
}

/** Whether an answer with a part of a file has the same content, by its header fields. */
function isSameContent(note: Note, answer: Response): boolean {
  const now = validatorsIn(answer);
  return ([["etag", now.etag], ["modified", now.modified]] as const)
    .every(([name, value]) => value === undefined || note[name] === undefined || value === note[name]);
}

function rangeStart(answer: Response): number | undefined {
  const start = /^bytes (\d+)-/.exec(answer.headers.get("content-range") ?? "")?.[1];
  return start === undefined ? undefined : Number(start);
}

function partName(url: string): string {
  return sumOf(url).slice(0, 16);
}

function sumOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1024 ** 2);
}
