/**
 * Downloads of packages from the control plane: resumed, verified, and unpacked into the folder of their version.
 *
 * Owns `packages/downloads` under the program's home folder. A folder of a version is there only when it is complete and
 * its SHA-256 is the control plane's, and, on a device with pinned keys, one that these keys have signed. Nothing in an
 * archive leads out of its folder.
 */

import { randomUUID } from "node:crypto";
import { dirname, join } from "node:path";
import type { Package } from "../../../proto/gen/packages_pb.ts";
import { KeyCounts } from "../../base/async/key_counts.ts";
import { Semaphore } from "../../base/async/semaphore.ts";
import { SerialQueues } from "../../base/async/serial_queue.ts";
import type { Clock } from "../../base/clock.ts";
import {
  AttemptProgress,
  type DownloadErrors,
  HttpDownload,
  type RefusedAnswer,
} from "../../base/download/http_download.ts";
import { SvcError } from "../../base/error.ts";
import { unpackWithLinks } from "../../base/files/archive.ts";
import { findDamage } from "./damage.ts";
import type { LinkFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Platform } from "../../base/host.ts";
import type { Logger } from "../../base/log/log.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import type { AcceptedKeys } from "../../base/release/accepted_keys.ts";
import { FIRST_RUN_MARK, packageFolder } from "../config/placeholder.ts";
import type { PackageConfig } from "../config/settings.ts";
import { isMoving, type WantedPackage } from "./registry_folder.ts";

/** Limits of an unpacked package. */
const LIMITS = { filesMax: 100_000, bytesMax: 32 * 1024 ** 3 };
/** A download without progress for this long is interrupted, and continued later. */
const STALL_MS = 30_000;
/** Downloads at once: a large package does not hold back all others. */
const PARALLEL_MAX = 4;

/** A version that the control plane has. */
export interface FarPackage extends Pick<Package, "url" | "checksum"> {
  readonly version: string;
}

/** A change of the progress of a download. */
export type DownloadState =
  | { readonly state: "loading" }
  | { readonly state: "downloading"; readonly bytesDownloaded: number; readonly bytesTotal: number };

export interface PackageDownloadsParts {
  /** The program's home folder. */
  readonly home: string;
  /** The keys that must have signed downloads; without keys, the control plane's SHA-256 is enough. */
  readonly keys?: Pick<AcceptedKeys, "check" | "withheld">;
  readonly host: Platform & ReadFiles & WriteFiles & LinkFiles;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class PackageDownloads {
  readonly #http: HttpDownload;
  /** The last logged problem of a package's channel, by its id. */
  readonly #withheld = new Map<string, string | undefined>();
  /** The names of packages that have grown in an attempt since the last call of `takeProgress`. */
  readonly #worthwhile = new Set<string>();
  readonly #slots = new Semaphore(PARALLEL_MAX);
  readonly #turns = new SerialQueues();
  /** The number of packages that want a content now, by its sum. */
  readonly #wanting = new KeyCounts();
  /** The folders of damaged packages that have been installed again since the start. */
  readonly #mended = new Set<string>();

  /** `report` is called at every step of a package. */
  constructor(
    private readonly parts: PackageDownloadsParts,
    private readonly report: (config: PackageConfig, progress: DownloadState) => void,
  ) {
    const { host: files, clock } = parts;
    this.#http = new HttpDownload({ files, clock, stallMs: STALL_MS, errors: ERRORS });
  }

  /** Whether an attempt since the last call has brought a part of the package. */
  takeProgress({ name }: PackageConfig): boolean {
    return this.#worthwhile.delete(name);
  }

  /**
   * The modules' packages that are installed and damaged, with a warning. A package is installed again once only: it may
   * have no such program at all.
   */
  async findDamaged(configs: readonly WantedPackage[]): Promise<Set<PackageConfig>> {
    const { host, home, logger } = this.parts;
    const damaged = new Set<PackageConfig>();
    for (const config of configs.filter(({ type }) => type === "module")) {
      const folder = packageFolder(home, config);
      if (this.#mended.has(folder) || !await host.stat(folder)) continue;
      const problem = await findDamage(folder, config.programs ?? [], host);
      if (problem === undefined) continue;
      const { name, package: id, version } = config;
      logger.warn(
        `package "${name}" (${id} ${version}) is damaged and has to be installed again: ${problem}`,
      );
      damaged.add(config);
    }
    return damaged;
  }

  /** Notes that the package in `folder` is installed again. */
  mended(folder: string): void {
    this.#mended.add(folder);
  }

  /** Runs `work` while no other work for the same key runs. */
  inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    return this.#turns.run(key, work);
  }

  /**
   * Downloads a version and unpacks it into the folder, unless that is done. Packages of the same content take turns and
   * download it once. A damaged one is replaced when its replacement is there.
   */
  async fetch(
    config: PackageConfig,
    found: FarPackage,
    folder: string,
    signal: AbortSignal,
    isDamaged = false,
  ): Promise<void> {
    const { checksum } = found;
    this.#wanting.add(checksum, 1);
    try {
      await this.inTurn(checksum, async () => {
        if (!isDamaged && await this.parts.host.stat(folder)) return;
        await this.#slots.acquire();
        try {
          signal.throwIfAborted();
          await this.#fetch(config, found, folder, signal);
        } finally {
          this.#slots.release();
        }
      });
    } finally {
      this.#wanting.add(checksum, -1);
    }
  }

  async #fetch(
    config: PackageConfig,
    found: FarPackage,
    folder: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { host, home, logger } = this.parts;
    const { name, package: id } = config;
    logger.info("fetching a package", { name, package: id, version: found.version });

    const downloads = join(home, "packages", "downloads");
    await host.makeFolder(downloads);

    const part = join(downloads, `${found.checksum}.part`);
    const sizeBytes = await this.#signedBytes(config, found, signal);
    await this.#download(config, found, { part, sizeBytes }, signal);
    this.report(config, { state: "loading" });
    await this.unpack(part, folder);
    // The next package of this content finds it complete, and only asks the server whether it has grown.
    if (this.#wanting.of(found.checksum) === 1) await this.#http.discard({ part });

    logger.info("a package is installed", { name, folder });
  }

  /** Unpacks beside the folder, and renames it when everything is on disk; a damaged package there goes then. */
  async unpack(archive: string, folder: string): Promise<void> {
    const { home, host } = this.parts;
    const temporary = join(home, "packages", "downloads", randomUUID());
    try {
      await host.makeFolder(temporary);
      await unpackWithLinks(host, temporary, host.readPieces(archive), LIMITS);
      await host.makeFolder(dirname(folder));
      // Somebody may have removed the folder alone, with all that its first run made.
      await host.remove(`${folder}${FIRST_RUN_MARK}`);
      await host.removeTree(folder);
      await host.moveDurably(temporary, folder);
    } catch (error) {
      await host.removeTree(temporary);
      throw error;
    }
  }

  /** Logs, once, why newer versions of an installed package may be withheld from this device. */
  async logWithheld(config: PackageConfig, found: FarPackage, signal: AbortSignal): Promise<void> {
    const { keys, logger } = this.parts;
    const { wanted, ...file } = this.#signedFile(config, found);
    if (wanted === undefined) return;
    const get = (at: string) => this.#http.json(at, signal);
    const problem = await keys?.withheld({ ...file, wanted }, get);
    if (problem !== undefined && problem !== this.#withheld.get(file.name)) logger.warn(shownUrlsIn(problem));
    this.#withheld.set(file.name, problem);
  }

  /**
   * The signed size of a version; `undefined` on a device that requires no signatures. Throws unless the signature
   * covers exactly the wanted id, version and platform.
   */
  async #signedBytes(
    config: PackageConfig,
    found: FarPackage,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const get = (at: string) => this.#http.json(at, signal);
    return (await this.parts.keys?.check(this.#signedFile(config, found), get))?.size;
  }

  /** The file whose signature counts. */
  #signedFile({ package: id, version: request }: PackageConfig, { version, checksum, url }: FarPackage) {
    const address = new URL(url);
    address.searchParams.set("as", id);
    return {
      ...{
        name: id,
        version,
        sha256: checksum,
        platform: publishedPlatform(this.parts.host),
        url: address.href,
      },
      wanted: isMoving(request) ? request : undefined,
    };
  }

  async #download(
    config: PackageConfig,
    { url, version, checksum }: FarPackage,
    { part, sizeBytes }: { readonly part: string; readonly sizeBytes: number | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    const attempt = new AttemptProgress();
    const file = { name: version, part, sizeBytes, sha256: checksum, source: checksum };
    try {
      // A control plane's tag of a package is its sum; a store of its own may have another.
      await this.#http.fetch(url, { ...file, etag: `"${checksum}"` }, (progress) => {
        attempt.add(progress);
        const { doneBytes: bytesDownloaded, totalBytes: bytesTotal = 0 } = progress;
        this.report(config, { state: "downloading", bytesDownloaded, bytesTotal });
      }, signal);
    } finally {
      if (attempt.isWorthwhile) this.#worthwhile.add(config.name);
    }
  }
}

const ERRORS: DownloadErrors = {
  refused: refusalOf,
  tooLong: (_, mostBytes) =>
    new SvcError("failed_precondition", `the package is larger than ${mostBytes} bytes`),
  wrongContent: ({ sha256, sizeBytes }, wanted) =>
    new SvcError(
      "data_loss",
      sha256 === wanted.sha256
        ? `the download has ${sizeBytes} bytes, wanted ${wanted.sizeBytes}`
        : `the download has SHA-256 ${sha256}, wanted ${wanted.sha256}`,
    ),
  badJson: (_, mostBytes) =>
    new SvcError(
      "data_loss",
      mostBytes === undefined
        ? "the signature is not JSON"
        : `the signature is larger than ${mostBytes} bytes`,
    ),
};

/** The platform in the published notation: `linux/amd64`. */
export function publishedPlatform(host: Platform): string {
  const { os, arch } = host.platform();
  return `${os}/${arch === "x64" ? "amd64" : arch}`;
}

/** Statuses below 500 that pass by themselves: the server is slow, early or busy. */
const PASSING = [408, 425, 429];

function refusalOf({ status, line, retryMs }: RefusedAnswer): SvcError {
  const refused = status === 404 ? "not_found" : "permission_denied";
  const code = status < 500 && !PASSING.includes(status) ? refused : "unavailable";
  return new SvcError(code, `the download was refused with ${status}: ${line}`, { retryMs });
}
