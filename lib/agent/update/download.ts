/**
 * Downloads of releases by http, https and from files; an interrupted download resumes.
 *
 * Owns `cache/part`, which has for each download a file and a note of its source. `fetch` returns a file in `cache`
 * whose name contains its sum; the file is complete, synced and equal to the release. A full disk costs only the
 * partial file. No decision depends on the time of day; if a certificate is not valid yet, the error suggests that the
 * clock is wrong.
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  computeSha256,
  type DownloadErrors,
  type DownloadProgress,
  type FileContent,
  HttpDownload,
  type RefusedAnswer,
  type WantedFile,
} from "../../base/download/http_download.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { clockHint } from "../../base/log/clock_hint.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import { fileNameOf, type Release } from "./release.ts";
import type { AcceptedKeys } from "../../base/release/accepted_keys.ts";
import type { Build } from "./state.ts";
import type { Fetcher } from "./fetcher.ts";

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
/** Time without data after which a server counts as gone. */
const STALL_MS = 60_000;
const PART_SUFFIX = ".part";
const EXECUTABLE_MODE = 0o755;

export class Download implements Fetcher {
  readonly #parts: DownloadParts;
  readonly #http: HttpDownload;

  constructor(parts: DownloadParts) {
    const { files, clock, fetch } = parts;
    this.#parts = parts;
    this.#http = new HttpDownload({ files, clock, fetch, stallMs: STALL_MS, errors: ERRORS });
  }

  async fetch(
    release: Release,
    progress: (progress: DownloadProgress) => void,
    signal: AbortSignal,
  ): Promise<Build> {
    const { url, key, version } = release;
    const part = join(this.#folder, `${partName(url)}${PART_SUFFIX}`);
    await this.#parts.files.makeFolder(this.#folder);
    try {
      const promise = await this.#promised(release, signal);
      const found = await this.#inCache(release, promise.sha256);
      if (found) return found;

      const source = `${key} ${url}`;
      const wanted: WantedFile = { ...promise, name: version, part, source, mode: EXECUTABLE_MODE };
      const content = url.startsWith("file:")
        ? await this.#http.copy(fileURLToPath(url), wanted, progress, signal)
        : await this.#http.fetch(url, wanted, progress, signal, (fromBytes) => {
          this.#parts.logger.info(`${version}: resuming after ${fromBytes} bytes`);
        });
      return await this.#accept(release, wanted, content);
    } catch (error) {
      throw this.#shown(error, release);
    }
  }

  async stamp({ url }: Release, signal: AbortSignal): Promise<string | undefined> {
    if (url.startsWith("file:")) {
      const found = await this.#parts.files.findFile(fileURLToPath(url));
      return found && String(Math.round(found.modifiedMs));
    }
    const answer = await this.#http.ask(url, { method: "HEAD" }, signal);
    await answer.body?.cancel();
    const changedMs = Date.parse(answer.headers.get("last-modified") ?? "");
    return answer.ok && Number.isFinite(changedMs) ? String(changedMs) : undefined;
  }

  async withheld(release: Release, signal: AbortSignal): Promise<string | undefined> {
    const { keys, platform } = this.#parts;
    const { name, version, sha256, url, wanted } = release;
    if (wanted === undefined || url.startsWith("file:")) return undefined;
    const file = { name, version, sha256, url, platform, wanted };
    return await keys?.withheld(file, (at) => this.#http.json(at, signal));
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
  async #promised(release: Release, signal: AbortSignal): Promise<Partial<FileContent>> {
    const { keys, base, files, platform } = this.#parts;
    const { name, version, sha256, url, custom, wanted } = release;
    if (!keys || !await keys.required()) return { sha256 };
    if (custom && await allowsUrls(base, files)) return { sha256 };
    if (url.startsWith("file:")) throw unsigned(base, "nobody signs a file of this device");
    const file = { name, version: custom ? undefined : version, sha256, url, platform, wanted };
    try {
      const statement = await keys.check(file, (at) => this.#http.json(at, signal));
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

  /** Turns a complete partial file into a file of `cache`. */
  async #accept(release: Release, wanted: WantedFile, content: FileContent): Promise<Build> {
    const { files, base } = this.#parts;
    const { name, version, key } = release;
    const file = fileNameOf(name, version, content.sha256);
    await files.moveDurably(wanted.part, join(base, "cache", file));
    await this.#http.discard(wanted);
    return { key, version, file, ...content };
  }

  /** The error to report for a failure. */
  #shown(thrown: unknown, { url }: Release): SvcError {
    const error = SvcError.from(thrown);
    const hint = clockHint(chainOf(error), this.#parts.clock.nowMs(), UNTIL_SET);
    // Drops the cause, whose text may contain the address with its password.
    return new SvcError(error.code, shownUrlsIn(`${url}: ${chainOf(error)}${hint}`), {
      retryMs: error.retryMs,
    });
  }
}

const ERRORS: DownloadErrors = {
  refused: refusalOf,
  tooLong: (foundBytes, mostBytes) =>
    new SvcError("data_loss", `the server sends ${foundBytes} bytes, wanted at most ${mostBytes}`),
  wrongContent: ({ sha256, sizeBytes }, wanted) => {
    const found = `found ${sizeBytes} bytes with sum ${sha256}`;
    return new SvcError("data_loss", `${found}, wanted ${wanted.sha256 ?? sha256}`);
  },
  badJson: (url, mostBytes) => {
    const found = mostBytes === undefined ? "no JSON" : `more than ${mostBytes} bytes`;
    return new SvcError("data_loss", `${url} sends ${found}, wanted a signature`);
  },
};

function refusalOf({ url, file, status, retryMs }: RefusedAnswer): SvcError {
  if (!file) return new SvcError(status === 404 ? "not_found" : "unavailable", `${url} answers ${status}`);

  const code = status === 404 || status === 410 ? "not_found" : "unavailable";
  const until = retryMs === undefined
    ? ""
    : `, and wants to be asked again in ${Math.ceil(retryMs / 1000)} s`;
  const problem = `the server answers ${status} to the download of ${file.name}, wanted 200${until}`;
  return new SvcError(code, problem, { retryMs });
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

function partName(url: string): string {
  return createHash("sha256").update(url).digest("hex").slice(0, 16);
}
