/**
 * Downloads of packages from the control plane: resumed, verified, and unpacked into the folder of their version.
 *
 * Owns `packages/downloads` under the program's home folder. A folder of a version is there only when it is complete and
 * its SHA-256 is the control plane's, and, on a device with pinned keys, one that these keys have signed. Nothing in an
 * archive leads out of its folder.
 */

import { createHash, randomUUID } from "node:crypto";
import { dirname, join } from "node:path";
import type { Package } from "../../../proto/gen/packages_pb.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { unpackInto } from "../../base/files/archive.ts";
import { bytesUpTo } from "../../base/files/byte_reader.ts";
import { FileError, type LinkFiles, type ReadFiles, type WriteFiles } from "../../base/files/files.ts";
import type { Platform } from "../../base/host.ts";
import type { Logger } from "../../base/log/log.ts";
import type { AcceptedKeys } from "../../base/release/accepted_keys.ts";
import type { PackageConfig } from "../config/settings.ts";
import { isMoving } from "./registry_folder.ts";

/** Limits of a download, and of its unpacked size. */
const BYTES_MAX = 4 * 1024 ** 3;
const LIMITS = { filesMax: 100_000, bytesMax: 32 * 1024 ** 3 };
/** A download without progress for this long is interrupted, and continued later. */
const STALL_MS = 30_000;
/** Size limit of a signature, and of the list of keys. */
const SIGNATURE_BYTES_MAX = 1024 * 1024;
const REFUSAL_CHARS_MAX = 300;
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
  /** The last logged problem of a package's channel, by its id. */
  readonly #withheld = new Map<string, string | undefined>();

  /** `report` is called at every step of a package. */
  constructor(
    private readonly parts: PackageDownloadsParts,
    private readonly report: (config: PackageConfig, progress: DownloadState) => void,
  ) {}

  /** Downloads a version and unpacks it into the folder. */
  async fetch(
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

    const archive = join(downloads, `${found.checksum}.part`);
    const bytesMax = await this.#signedBytes(config, found, signal) ?? BYTES_MAX;
    await this.#download(config, found, archive, bytesMax, signal);
    this.report(config, { state: "loading" });
    await this.unpack(archive, folder);
    await host.remove(archive);

    logger.info("a package is installed", { name, folder });
  }

  /** Unpacks beside the folder, and renames it when everything is on disk. */
  async unpack(archive: string, folder: string): Promise<void> {
    const { home, host } = this.parts;
    const temporary = join(home, "packages", "downloads", randomUUID());
    try {
      await host.makeFolder(temporary);
      for (const path of await unpackInto(host, temporary, host.readPieces(archive), LIMITS)) {
        await host.syncFile(join(temporary, path));
      }
      await host.makeFolder(dirname(folder));
      await host.moveDurably(temporary, folder);
    } catch (error) {
      await host.removeTree(temporary);
      throw error;
    }
  }

  /** Logs, once, why newer versions of an installed package may be withheld from this device. */
  async logWithheld(config: PackageConfig, found: FarPackage, signal: AbortSignal): Promise<void> {
    const { keys, clock, logger } = this.parts;
    const { wanted, ...file } = this.#signedFile(config, found);
    if (wanted === undefined) return;
    const get = (at: string) => jsonAt(at, clock, signal);
    const problem = await keys?.withheld({ ...file, wanted }, get);
    if (problem !== undefined && problem !== this.#withheld.get(file.name)) logger.warn(problem);
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
    const { keys, clock } = this.parts;
    return (await keys?.check(this.#signedFile(config, found), (at) => jsonAt(at, clock, signal)))?.size;
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

  /** Completes the file, starting from its present content. */
  async #download(
    config: PackageConfig,
    { url, checksum }: FarPackage,
    path: string,
    bytesMax: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { host } = this.parts;
    const there = await host.fileSize(path) ?? 0;
    const stalled = new AbortController();
    const watch = () =>
      this.parts.clock.after(STALL_MS, () => {
        stalled.abort(new SvcError("deadline_exceeded", `no data for ${STALL_MS / 1000} s`));
      });
    let callOff = watch();
    try {
      const headers = there > 0 ? { range: `bytes=${there}-`, "if-range": `"${checksum}"` } : undefined;
      const answer = await fetch(url, { headers, signal: AbortSignal.any([signal, stalled.signal]) });
      const complete = answer.status === 416;
      if (complete) await answer.body?.cancel();
      else if (!answer.ok || !answer.body) throw await refusal(answer);
      else {
        const body = answer.body;
        const from = answer.status === 206 ? there : 0;
        const bytesTotal = from + Number(answer.headers.get("content-length") ?? -from);
        await append(host, path, { from, bytesMax }, body, (bytesDownloaded) => {
          callOff();
          callOff = watch();
          this.report(config, { state: "downloading", bytesDownloaded, bytesTotal });
        });
      }
    } catch (error) {
      if (stalled.signal.aborted) throw stalled.signal.reason;
      if (error instanceof FileError) {
        const code = error.code === "resource_exhausted" ? error.code : "unavailable";
        throw new SvcError(code, `the download was interrupted: ${error.message}`, { cause: error });
      }
      if (error instanceof SvcError) throw error;
      throw new SvcError("unavailable", `the download was interrupted: ${messageOf(error)}`, {
        cause: error,
      });
    } finally {
      callOff();
    }

    const hash = createHash("sha256");
    for await (const chunk of host.readPieces(path)) hash.update(chunk);
    const sha256 = hash.digest("hex");
    if (sha256 === checksum) return;

    await host.remove(path);
    throw new SvcError("data_loss", `the download has SHA-256 ${sha256}, wanted ${checksum}`);
  }
}

/** The platform in the published notation: `linux/amd64`. */
export function publishedPlatform(host: Platform): string {
  const { os, arch } = host.platform();
  return `${os}/${arch === "x64" ? "amd64" : arch}`;
}

async function append(
  files: WriteFiles,
  path: string,
  { from, bytesMax }: { readonly from: number; readonly bytesMax: number },
  body: AsyncIterable<Uint8Array>,
  came: (bytes: number) => void,
): Promise<void> {
  const file = await files.open(path, from > 0 ? "append" : "new");
  try {
    let at = from;
    for await (const chunk of body) {
      if (at + chunk.length > bytesMax) {
        throw new SvcError("failed_precondition", `the package is larger than ${bytesMax} bytes`);
      }
      await file.write(chunk);
      at += chunk.length;
      came(at);
    }
    await file.sync();
  } finally {
    file.close();
  }
}

/** The JSON at an address, within a time and a size. */
async function jsonAt(url: string, clock: Clock, signal: AbortSignal): Promise<unknown> {
  const late = () =>
    new SvcError("deadline_exceeded", `the signature did not come within ${STALL_MS / 1000} s`);
  const limit = deadline(clock, STALL_MS, late, signal);
  try {
    const answer = await fetch(url, { signal: limit.signal });
    if (!answer.ok || !answer.body) throw await refusal(answer);
    const bytes = await bytesUpTo(answer.body, SIGNATURE_BYTES_MAX);
    if (!bytes) {
      throw new SvcError("data_loss", `the signature is larger than ${SIGNATURE_BYTES_MAX} bytes`);
    }
    return parsed(new TextDecoder().decode(bytes));
  } catch (error) {
    if (limit.signal.aborted) throw limit.signal.reason;
    if (error instanceof SvcError) throw error;
    throw new SvcError("unavailable", `cannot fetch the signature: ${messageOf(error)}`, { cause: error });
  } finally {
    limit.done();
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new SvcError("data_loss", "the signature is not JSON");
  }
}

/** The first piece of a text, whatever comes after it. */
async function readBeginning({ body }: Response): Promise<string> {
  for await (const piece of body ?? []) return new TextDecoder().decode(piece);
  return "";
}

async function refusal(answer: Response): Promise<SvcError> {
  const line = (await readBeginning(answer)).split("\n")[0].slice(0, REFUSAL_CHARS_MAX);
  const refused = answer.status === 404 ? "not_found" : "permission_denied";
  const code = answer.status < 500 ? refused : "unavailable";
  return new SvcError(code, `the download was refused with ${answer.status}: ${line}`);
}
