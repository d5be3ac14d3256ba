/**
 * The packages of a configuration on this machine: found in its registry folder (`registry_folder.ts`) or downloaded
 * from the control plane, verified and unpacked.
 *
 * Owns `packages/data` under the program's home folder, where a package has its folder (`packageFolder`) only when it is
 * complete (`package_downloads.ts`). An interrupted download resumes, also after a restart. A version that no part with
 * this home uses any more is removed, but never before its replacement is in use. A moving version (a word such as
 * `latest`, or a range) is a link to the folder of the version that it stands for. The next call turns the link when the
 * version changes; if the new version is not available, the link stays.
 *
 * The room owns the packages of a machine: the wanted packages, their sources and their folders.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import { type BackoffLimits, backoffMs } from "../../base/async/backoff.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import { basename, dirname, join } from "node:path";
import { PackageType } from "../../../proto/gen/packages_pb.ts";
import { parseRange, parseVersion } from "../../base/semver.ts";
import { chainOf, isRetryable, messageOf, SvcError } from "../../base/error.ts";
import { isObject, type Json } from "../../base/schema/schema.ts";
import type { CloudClient } from "../../cloud_client/client.ts";
import { packageFolder, versionInFolder } from "../config/placeholder.ts";
import { fileNameFrom } from "../../base/files/names.ts";
import type { ModuleConfig, PackageConfig } from "../config/config.ts";
import {
  type FarPackage,
  PackageDownloads,
  type PackageDownloadsParts,
  publishedPlatform,
} from "./package_downloads.ts";
import { findArchive, isMoving, packageOfModule, type RegistryArchive } from "./registry_folder.ts";

/** The variable with the path of the pinned keys. */
export const KEYS_VARIABLE = "SVC_RELEASE_KEYS";
const RETRY: BackoffLimits = { firstMs: 2_000, mostMs: 120_000, jitter: 0.3 };
/** Longest pause that servers can request: a machine waits with its new configuration meanwhile. */
const ASKED_MAX_MS = 3600_000;
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

export interface PackagesParts extends PackageDownloadsParts {
  /** The control plane, if there is one. */
  readonly client?: Pick<CloudClient, "package" | "partId">;
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
  readonly #versions = new Map<string, string>();
  readonly #refused = new Map<string, string>();
  readonly #progress = new Map<string, PackageProgress>();
  /** The packages of the newest configuration. */
  #wanted: readonly PackageConfig[] = [];
  readonly #downloads: PackageDownloads;
  #moved = () => {};

  constructor(private readonly parts: PackagesParts) {
    this.#downloads = new PackageDownloads(parts, (config, change) => this.#setProgress(config, change));
  }

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
    this.#wanted = configs;

    for (let attempts = 1; !stop.signal.aborted; attempts++) {
      const failures = await (this.#work = this.#fetchAll(configs, stop.signal));
      if (stop.signal.aborted) break;
      if (this.#downloads.takeProgress()) attempts = 1;
      if (this.#inUse && failures.some((error) => isRetryable(error))) {
        await this.#pause(attempts, failures, stop.signal);
        continue;
      }
      if (failures.length > 0) this.#work = this.#retry(configs, failures, stop.signal);
      this.#inUse = true;
      return true;
    }

    return false;
  }

  /**
   * Throws `unavailable` with the reason if a text in `value` leads into the folder of a package that is not there yet,
   * so that no user of it looks for a file that is still to come.
   */
  async require(value: Json): Promise<void> {
    const missing = this.#wanted.filter(({ name }) => this.#progress.get(name)?.state !== "ready");
    if (missing.length === 0) return;
    const texts = textsIn(value);
    for (const config of missing) {
      const folder = this.#folderOf(config);
      const leadsInto = (text: string) => text === folder || text.includes(`${folder}/`);
      if (!texts.some(leadsInto) || await this.parts.host.stat(folder)) continue;

      const { name, package: id, version } = config;
      const error = this.#progress.get(name)?.error;
      const state = error === undefined ? "is still being downloaded" : `is not there yet: ${error}`;
      throw new SvcError("unavailable", `package "${name}" (${id} ${version}) ${state}`);
    }
  }

  /** The same for the program of a module, which may be in a package of its own. */
  async requireProgram(config: ModuleConfig): Promise<void> {
    const own = config.type === "registry" ? this.#folderOf(packageOfModule(config)) : "";
    await this.require([config.executablePath ?? "", own]);
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

  #setProgress(
    config: PackageConfig,
    change: Partial<PackageProgress> & Pick<PackageProgress, "state">,
  ): void {
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
  async #retry(
    configs: readonly PackageConfig[],
    first: readonly SvcError[],
    signal: AbortSignal,
  ): Promise<void> {
    const meanings = () => JSON.stringify([...this.#versions]);
    let failures = first;
    for (let attempts = 1; !signal.aborted; attempts++) {
      await this.#pause(attempts, failures, signal);
      if (signal.aborted) return;

      const before = meanings();
      failures = await this.#fetchAll(configs, signal);
      if (!signal.aborted && meanings() !== before) this.#moved();
      if (failures.length === 0) return;
      // The next pause is the shortest again.
      if (this.#downloads.takeProgress()) attempts = 0;
    }
  }

  /** Waits after failed attempts; longer if the servers of all failed packages ask for more. */
  async #pause(attempts: number, failures: readonly SvcError[], signal: AbortSignal): Promise<void> {
    const askedMs = Math.min(ASKED_MAX_MS, ...failures.map(({ retryMs = 0 }) => retryMs));
    await this.parts.clock.sleep(Math.max(backoffMs(RETRY, attempts), askedMs), signal).catch(() => {});
  }

  /** One attempt at each missing package. */
  async #fetchAll(configs: readonly PackageConfig[], signal: AbortSignal): Promise<SvcError[]> {
    const failures: SvcError[] = [];
    for (const config of configs) {
      try {
        const local = await this.#localArchive(config);
        if (local) await this.#takeLocal(config, local);
        else await this.#takeFar(config, signal);
        this.#setProgress(config, { state: "ready" });
      } catch (error) {
        if (signal.aborted) return failures;
        this.#setProgress(config, { state: "failed", error: shownUrlsIn(chainOf(error)) });
        const { name, package: id, version } = config;
        const reported = `package "${name}" (${id} ${version}): ${shownUrlsIn(chainOf(error))}`;
        const { code, retryMs } = SvcError.from(error);
        failures.push(new SvcError(code, reported, { retryMs }));
      }
    }

    const all = failures.map(({ message }) => message).join("\n");
    if (this.#problems.isNew(all)) {
      for (const { message } of failures) this.parts.logger.error(message);
      if (all === "") this.parts.logger.info("all packages are installed now");
    }

    return failures;
  }

  /** Unpacks an archive of the registry folder unless that is done, and links the wanted name to it. */
  async #takeLocal(config: PackageConfig, { path, version }: RegistryArchive): Promise<void> {
    const { host, logger } = this.parts;
    const wanted = this.#folderOf(config), exact = this.#folderOf({ ...config, version });
    this.#linked.add(exact);
    if (!await host.stat(exact)) {
      this.#setProgress(config, { state: "loading" });
      await this.#downloads.unpack(path, exact).catch((error) => this.#refuse(wanted, version, error));
      logger.info("a package was taken from the registry folder", { name: config.name, version });
    }
    await this.#lead(wanted, exact, version);
  }

  #localArchive(config: PackageConfig): Promise<RegistryArchive | undefined> {
    const { home, host } = this.parts;
    return findArchive(home, config, publishedPlatform(host).replace("/", "-"), host);
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
      const fetched = this.#downloads.fetch(config, found, exact, signal);
      await fetched.catch((error) => this.#refuse(wanted, found.version, error));
    } else await this.#downloads.logWithheld(config, found, signal);

    await this.#lead(wanted, exact, found.version);
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
    const request = {
      id: config.package,
      version: config.version,
      type,
      platform: publishedPlatform(this.parts.host),
    };
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

  /** The target of a link; `undefined` for anything else. */
  async #linkAt(path: string): Promise<string | undefined> {
    const facts = await this.parts.host.stat(path, { links: true });
    return facts?.kind === "link" ? await this.parts.host.readLink(path) : undefined;
  }

  async #namesIn(folder: string): Promise<string[]> {
    return await this.parts.host.readFolder(folder).catch(() => []);
  }
}

function textsIn(value: Json): string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return isObject(value) ? Object.values(value).flatMap((one) => textsIn(one as Json)) : [];
}
