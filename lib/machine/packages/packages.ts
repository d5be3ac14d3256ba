/**
 * The packages of a configuration on this machine: found in its registry folder (`registry_folder.ts`) or downloaded
 * from the control plane, verified and unpacked.
 *
 * Owns `packages` under the program's home folder. A package has its folder (`packageFolder`) only when it is complete
 * and its SHA-256 is the control plane's, and, on a device with pinned keys, one that these keys have signed. An
 * interrupted download resumes, also after a restart. Nothing in an archive leads out of its folder. A version that no
 * part with this home uses any more is removed, but never before its replacement is in use. A moving version (a word
 * such as `latest`, or a range) is a link to the folder of the version that it stands for. The next call turns the link
 * when the version changes; if the new version is not available, the link stays.
 *
 * The room owns the packages of a machine: the wanted packages, their sources and their folders.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import { type BackoffLimits, backoffMs } from "../../base/async/backoff.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import { createHash, randomUUID } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { type Package, PackageType } from "../../../proto/gen/packages_pb.ts";
import type { Platform } from "../../base/host.ts";
import type { AcceptedKeys } from "../../base/release/accepted_keys.ts";
import { parseRange, parseVersion } from "../../base/semver.ts";
import { FileError, type LinkFiles, type ReadFiles, type WriteFiles } from "../../base/files/files.ts";
import { bytesUpTo } from "../../base/files/byte_reader.ts";
import { unpackInto } from "../../base/files/archive.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { chainOf, isRetryable, messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { CloudClient } from "../../cloud_client/client.ts";
import { packageFolder, versionInFolder } from "../config/placeholder.ts";
import { fileNameFrom } from "../../base/files/names.ts";
import type { PackageConfig } from "../config/settings.ts";
import { findArchive, isMoving, type RegistryArchive } from "./registry_folder.ts";

/** The variable with the path of the pinned keys. */
export const KEYS_VARIABLE = "SVC_RELEASE_KEYS";
/** Limits of a download, and of its unpacked size. */
const BYTES_MAX = 4 * 1024 ** 3;
const LIMITS = { filesMax: 100_000, bytesMax: 32 * 1024 ** 3 };
/** A download without progress for this long is interrupted, and continued later. */
const STALL_MS = 30_000;
/** Size limit of a signature, and of the list of keys. */
const SIGNATURE_BYTES_MAX = 1024 * 1024;
const REFUSAL_CHARS_MAX = 300;
const RETRY: BackoffLimits = { firstMs: 2_000, mostMs: 120_000, jitter: 0.3 };
/** A version as part of a folder's name. */
const EXACT = /^\w[\w.+-]{0,127}$/;
/** Suffix of marks beside a version's folder, such as the mark of a successful first run. */
const NOTE = /\.[a-z_]+$/;

/** The progress of a package. */
export interface PackageProgress {
  readonly config: PackageConfig;
  readonly state: "downloading" | "loading" | "ready" | "failed";
  readonly error?: string;
  readonly updatedMs: number;
  readonly bytesDownloaded: number;
  /** 0 if unknown. */
  readonly bytesTotal: number;
}

/** A version that the control plane has. */
interface FarPackage extends Pick<Package, "url" | "checksum"> {
  readonly version: string;
}

export interface PackagesParts {
  /** The program's home folder. */
  readonly home: string;
  /** The control plane, if there is one. */
  readonly client?: Pick<CloudClient, "package" | "partId">;
  /** The keys that must have signed downloads; without keys, the control plane's SHA-256 is enough. */
  readonly keys?: Pick<AcceptedKeys, "check" | "withheld">;
  readonly host: Platform & ReadFiles & WriteFiles & LinkFiles;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class MachinePackages {
  #current = new AbortController();
  #work: Promise<unknown> = Promise.resolve();
  /** Whether an earlier configuration was prepared; it stays in force during a preparation. */
  #inUse = false;
  readonly #problems = new LogOnChange();
  /** Former targets of links since the start: a program may still run in them. */
  readonly #linked = new Set<string>();
  /** The installed version of each moving version, and the unusable one, by the folder of the moving version. */
  /** The last logged problem of a package's channel, by its id. */
  readonly #withheld = new Map<string, string | undefined>();
  readonly #versions = new Map<string, string>();
  readonly #refused = new Map<string, string>();
  readonly #progress = new Map<string, PackageProgress>();

  #moved = () => {};

  constructor(private readonly parts: PackagesParts) {}

  /** Calls `moved` when a moving version has another installed version than after the last call of `fetch`. */
  follow(moved: () => void): void {
    this.#moved = moved;
  }

  /** The packages of the newest configuration. */
  statuses(): readonly PackageProgress[] {
    return [...this.#progress.values()];
  }

  /**
   * Downloads missing packages. False if a newer call has replaced this one. While the control plane is unreachable, it
   * waits, except in the first call. Any other failed package is logged and retried in the background; its users report
   * it.
   */
  async fetch(configs: readonly PackageConfig[]): Promise<boolean> {
    this.#current.abort(new SvcError("canceled", "there is a newer configuration"));
    const stop = this.#current = new AbortController();
    await this.#work;
    this.#progress.clear();

    for (let failed = 1; !stop.signal.aborted; failed++) {
      const failures = await (this.#work = this.#fetchAll(configs, stop.signal));
      if (stop.signal.aborted) break;
      if (this.#inUse && failures.some((error) => isRetryable(error))) {
        await this.#pause(failed, stop.signal);
        continue;
      }
      if (failures.length > 0) this.#work = this.#retry(configs, stop.signal);
      this.#inUse = true;
      return true;
    }

    return false;
  }

  /** The installed version of a package whose configuration has a moving version. */
  versionOf(config: PackageConfig): string | undefined {
    return this.#versions.get(this.#folderOf(config));
  }

  /**
   * Whether a moving version of these now stands for another version than the installed one, as far as is known. A
   * version that was available but unusable does not count.
   */
  async haveMoved(configs: readonly PackageConfig[], signal: AbortSignal): Promise<boolean> {
    for (const config of configs.filter(({ version }) => isMoving(version))) {
      const folder = this.#folderOf(config);
      const now = await this.#meaning(config, signal).catch(() => undefined);
      const known = [this.#versions.get(folder), this.#refused.get(folder)];
      if (now !== undefined && now !== config.version && !known.includes(now)) return true;
    }
    return false;
  }

  async #meaning(config: PackageConfig, signal: AbortSignal): Promise<string | undefined> {
    const local = await this.#localArchive(config);
    if (local) return local.version;
    return this.parts.client && (await this.#ask(this.parts.client, config, signal)).version;
  }

  /** Removes versions that no part uses. Call it when the versions of `configs` are in use. Never rejects. */
  clean(configs: readonly PackageConfig[]): Promise<void> {
    const cleaning = this.#clean(configs);
    // The next preparation waits for it.
    this.#work = Promise.all([this.#work, cleaning]);
    return cleaning;
  }

  async #clean(configs: readonly PackageConfig[]): Promise<void> {
    const { home, client, host, logger } = this.parts;
    const named = configs.map((one) => this.#folderOf(one));
    const root = join(home, "packages");
    try {
      if (named.length === 0 && !await host.stat(root)) return;
      const led = await Promise.all(named.map(async (one) => {
        const exact = await this.#linkAt(one);
        return exact === undefined ? one : join(dirname(one), exact);
      }));
      const own = [...new Set([...named, ...led, ...this.#linked])].map((one) => one.slice(home.length + 1));
      const name = `used_${fileNameFrom(client?.partId ?? "local")}.json`;
      await host.makeFolder(root);
      await host.writeFile(join(root, name), JSON.stringify(own));

      const used = new Set<string>();
      for (const file of (await host.readFolder(root)).filter((one) => /^used_.*\.json$/.test(one))) {
        for (const folder of JSON.parse(await host.readTextFile(join(root, file)))) used.add(folder);
      }

      for (const type of await this.#namesIn(join(root, "data"))) {
        for (const folder of await this.#namesIn(join(root, "data", type))) {
          const path = `packages/data/${type}/${folder}`;
          if (used.has(path) || used.has(path.replace(NOTE, ""))) continue;
          await host.removeTree(join(home, path));
          logger.info("removed an unused package", { folder: path });
        }
      }

      if (!this.#busy(configs)) await host.removeTree(join(root, "downloads"));
    } catch (error) {
      logger.warn(`cannot remove unused packages: ${messageOf(error)}`);
    }
  }

  /** Aborts the work under way. */
  async close(): Promise<void> {
    this.#current.abort(new SvcError("canceled", "the program ends"));
    await this.#work;
  }

  #tell(config: PackageConfig, change: Partial<PackageProgress> & Pick<PackageProgress, "state">): void {
    const before = this.#progress.get(config.name);
    if (before?.state === change.state && change.state !== "downloading" && before.error === change.error) {
      return;
    }
    const updatedMs = this.parts.clock.nowMs();
    const blank = { config, bytesDownloaded: 0, bytesTotal: 0 };
    this.#progress.set(config.name, { ...blank, ...before, error: undefined, ...change, updatedMs });
  }

  #folderOf(config: PackageConfig): string {
    return packageFolder(this.parts.home, config);
  }

  /** One of these is still missing, so a partial download is worth keeping. */
  #busy(configs: readonly PackageConfig[]): boolean {
    return configs.length > 0 && this.#problems.last() !== "";
  }

  /** Retries in the background; ends when nothing is missing. */
  async #retry(configs: readonly PackageConfig[], signal: AbortSignal): Promise<void> {
    const meanings = () => JSON.stringify([...this.#versions]);
    for (let failed = 1; !signal.aborted; failed++) {
      await this.#pause(failed, signal);
      if (signal.aborted) return;
      const before = meanings();
      const failures = await this.#fetchAll(configs, signal);
      if (!signal.aborted && meanings() !== before) this.#moved();
      if (failures.length === 0) return;
    }
  }

  async #pause(failures: number, signal: AbortSignal): Promise<void> {
    await this.parts.clock.sleep(backoffMs(RETRY, failures), signal).catch(() => {});
  }

  /** One attempt at each missing package. */
  async #fetchAll(configs: readonly PackageConfig[], signal: AbortSignal): Promise<SvcError[]> {
    const failures: SvcError[] = [];
    for (const config of configs) {
      try {
        const local = await this.#localArchive(config);
        if (local) await this.#takeLocal(config, local);
        else await this.#takeFar(config, signal);
        this.#tell(config, { state: "ready" });
      } catch (error) {
        if (signal.aborted) return failures;
        this.#tell(config, { state: "failed", error: shownUrlsIn(chainOf(error)) });
        const { name, package: id, version } = config;
        const reported = `package "${name}" (${id} ${version})`;
        failures.push(new SvcError(SvcError.from(error).code, `${reported}: ${shownUrlsIn(chainOf(error))}`));
      }
    }

    const all = failures.map(({ message }) => message).join("\n");
    if (this.#problems.isNew(all)) {
      for (const { message } of failures) this.parts.logger.error(message);
      if (all === "") this.parts.logger.info("all packages are installed now");
    }

    return failures;
  }

  /** In the published notation: `linux/amd64`. */
  get #platform(): string {
    const { os, arch } = this.parts.host.platform();
    return `${os}/${arch === "x64" ? "amd64" : arch}`;
  }

  /** Unpacks an archive of the registry folder unless that is done, and links the wanted name to it. */
  async #takeLocal(config: PackageConfig, { path, version }: RegistryArchive): Promise<void> {
    const { host, logger } = this.parts;
    const wanted = this.#folderOf(config), exact = this.#folderOf({ ...config, version });
    this.#linked.add(exact);
    if (!await host.stat(exact)) {
      this.#tell(config, { state: "loading" });
      await this.#unpack(path, exact).catch((error) => this.#refuse(wanted, version, error));
      logger.info("a package was taken from the registry folder", { name: config.name, version });
    }
    await this.#lead(wanted, exact, version);
  }

  #localArchive(config: PackageConfig): Promise<RegistryArchive | undefined> {
    const { home, host } = this.parts;
    return findArchive(home, config, this.#platform.replace("/", "-"), host);
  }

  /** Makes a word or a range lead to the folder of the version that it means. */
  async #lead(wanted: string, exact: string, version: string): Promise<void> {
    if (wanted === exact) return;
    const { host } = this.parts;
    if (await this.#linkAt(wanted) !== basename(exact)) {
      // An older svc-server had a folder there.
      if ((await host.stat(wanted, { links: true }))?.kind === "folder") await host.removeTree(wanted);
      await host.turnLink(wanted, basename(exact));
    }
    this.#linked.add(exact);
    this.#versions.set(wanted, version);
    this.#refused.delete(wanted);
  }

  /** Asks the control plane for the current version, and fetches it if it is not installed. */
  async #takeFar(config: PackageConfig, signal: AbortSignal): Promise<void> {
    const { client, host, home, logger } = this.parts;
    const wanted = this.#folderOf(config);
    const isThere = await host.stat(wanted) !== undefined;
    if (isThere && !isMoving(config.version)) return;

    const linked = await this.#linkAt(wanted);
    if (linked !== undefined && isThere) this.#versions.set(wanted, versionInFolder(linked, config));
    if (!client && isThere) return;
    if (!client) {
      throw new SvcError(
        "failed_precondition",
        `it is neither in ${wanted} nor in ${home}/registry, and there is no control plane`,
      );
    }

    let found: FarPackage;
    try {
      found = await this.#ask(client, config, signal);
    } catch (error) {
      if (!isThere || !isRetryable(error)) throw error;
      return logger.debug(
        `the current version for ${config.version} of ${config.package} is unknown: ${chainOf(error)}`,
      );
    }

    const exact = this.#folderOf({ ...config, version: found.version });
    if (!await host.stat(exact)) {
      const fetched = this.#fetchOne(config, found, exact, signal);
      await fetched.catch((error) => this.#refuse(wanted, found.version, error));
    } else await this.#tellWithheld(config, found, signal);

    await this.#lead(wanted, exact, found.version);
  }

  /** Logs, once, why newer versions of an installed package may be withheld from this device. */
  async #tellWithheld(config: PackageConfig, found: FarPackage, signal: AbortSignal): Promise<void> {
    const { keys, clock, logger } = this.parts;
    const { wanted, ...file } = this.#signedFile(config, found);
    if (wanted === undefined) return;
    const get = (at: string) => jsonAt(at, clock, signal);
    const problem = await keys?.withheld({ ...file, wanted }, get);
    if (problem !== undefined && problem !== this.#withheld.get(file.name)) logger.warn(problem);
    this.#withheld.set(file.name, problem);
  }

  /** Remembers a version as unusable, unless the error is retryable. */
  #refuse(wanted: string, version: string, error: unknown): never {
    if (!isRetryable(error)) this.#refused.set(wanted, version);
    throw error;
  }

  /** The control plane's answer for a configuration. Throws its error, or `data_loss` for an invalid answer. */
  async #ask(
    client: Pick<CloudClient, "package">,
    config: PackageConfig,
    signal: AbortSignal,
  ): Promise<FarPackage> {
    const type = PackageType[config.type.toUpperCase() as keyof typeof PackageType];
    const request = { id: config.package, version: config.version, type, platform: this.#platform };
    const { checksum, url, info } = await client.package(request, { signal });
    const problem = (what: string, text: string, wanted: string) =>
      new SvcError("data_loss", `the control plane gives ${what} "${text.slice(0, 200)}", wanted ${wanted}`);
    if (!/^[0-9a-f]{64}$/.test(checksum)) throw problem("checksum", checksum, "a SHA-256");

    const version = isMoving(config.version) && info?.version || config.version;
    if (!EXACT.test(version)) throw problem("version", version, "letters, digits and .-+_");

    const [range, number] = [isMoving(config.version) && parseRange(config.version), parseVersion(version)];
    if (range && number && !range(number)) throw problem("version", version, config.version);

    return { checksum, url, version };
  }

  async #fetchOne(
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
    this.#tell(config, { state: "loading" });
    await this.#unpack(archive, folder);
    await host.remove(archive);

    logger.info("a package is installed", { name, folder });
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
      ...{ name: id, version, sha256: checksum, platform: this.#platform, url: address.href },
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
          this.#tell(config, { state: "downloading", bytesDownloaded, bytesTotal });
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

  /** Unpacks beside the folder, and renames it when everything is on disk. */
  async #unpack(archive: string, folder: string): Promise<void> {
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

  /** The target of a link; `undefined` for anything else. */
  async #linkAt(path: string): Promise<string | undefined> {
    const facts = await this.parts.host.stat(path, { links: true });
    return facts?.kind === "link" ? await this.parts.host.readLink(path) : undefined;
  }

  async #namesIn(folder: string): Promise<string[]> {
    return await this.parts.host.readFolder(folder).catch(() => []);
  }
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
