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
 * Only a package that replaces an installed one holds a configuration back. All others are downloaded while the machine
 * works: their users say what they wait for, and come up when it is there.
 *
 * The room owns the packages of a machine: the wanted packages, their sources and their folders.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import { basename, dirname, join } from "node:path";
import { PackageType } from "../../../proto/gen/packages_pb.ts";
import { parseRange, parseVersion } from "../../base/semver.ts";
import { chainOf, isRetryable, messageOf, SvcError } from "../../base/error.ts";
import type { LinkFiles, ReadFiles } from "../../base/files/files.ts";
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
import { beginInstallation, type Installation } from "./installation.ts";
import {
  findArchive,
  isMoving,
  packageOfModule,
  type RegistryArchive,
  type WantedPackage,
} from "./registry_folder.ts";

/** The variable with the path of the pinned keys. */
export const KEYS_VARIABLE = "SVC_RELEASE_KEYS";
/** A small package arrives within this time, so that its users do not have to be built twice. */
const GRACE_MS = 1_000;
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

/** What packages that change in the background call. */
export interface PackageFollower {
  /** A moving version has another installed version than after the last call of `fetch`. */
  readonly moved: () => void;
  /** A package that was missing after the last call of `fetch` is there. */
  readonly arrived: () => void;
}

export class MachinePackages {
  #current = new AbortController();
  #work: Promise<unknown> = Promise.resolve();
  /** The folders of the packages that the last prepared configuration uses, by their names in it. */
  #inUse: ReadonlyMap<string, string> = new Map();
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
  #follower: PackageFollower = { moved: () => {}, arrived: () => {} };

  constructor(private readonly parts: PackagesParts) {
    this.#downloads = new PackageDownloads(parts, (config, change) => this.#setProgress(config, change));
  }

  /** Sets whom to call about changes in the background. */
  follow(follower: PackageFollower): void {
    this.#follower = follower;
  }

  /** The packages of the newest configuration. */
  statuses(): readonly PackageProgress[] {
    return this.#wanted.flatMap(({ name }) => this.#progress.get(name) ?? []);
  }

  /**
   * Downloads missing packages. False if a newer call has replaced this one. Waits for a package whose installed
   * predecessor is in use, also while the control plane is unreachable. Any other package that takes long or fails is
   * fetched in the background; its users report it. A package whose program is damaged is installed again.
   */
  async fetch(configs: readonly WantedPackage[]): Promise<boolean> {
    const { clock, logger } = this.parts;
    this.#current.abort(new SvcError("canceled", "there is a newer configuration"));
    const { signal } = this.#current = new AbortController();
    await this.#work;
    const damaged = await this.#downloads.findDamaged(configs);
    const replaced = await this.#replacedBy(configs.filter((config) => !damaged.has(config)));
    if (signal.aborted) return false;
    this.#progress.clear();
    this.#wanted = configs;

    let isPrepared = false;
    const installations = configs.map((config) => {
      return this.#install(config, damaged.has(config), signal, () => isPrepared);
    });
    this.#work = Promise.all(installations.map(({ ended }) => ended));

    const grace = Promise.withResolvers<void>();
    const cancel = clock.after(GRACE_MS, grace.resolve);
    await Promise.race([Promise.all(installations.map(({ tried }) => tried)), grace.promise]);
    cancel();

    const awaited = installations.filter(({ config }) => replaced.has(config));
    for (const { config, settled } of awaited) {
      if (this.#isReady(config) || signal.aborted) continue;
      logger.info(`the configuration waits for ${shown(config)}, whose former version works meanwhile`);
      await settled;
    }
    if (signal.aborted) return false;
    isPrepared = true;
    this.#inUse = new Map(configs.map((config) => [config.name, this.#folderOf(config)]));
    return true;
  }

  /** The packages that replace an installed one of the configuration in force. */
  async #replacedBy(configs: readonly PackageConfig[]): Promise<Set<PackageConfig>> {
    const replaced = new Set<PackageConfig>();
    for (const config of configs) {
      const folder = this.#inUse.get(config.name);
      if (folder !== undefined && await this.parts.host.stat(folder)) replaced.add(config);
    }
    return replaced;
  }

  #isReady({ name }: PackageConfig): boolean {
    return this.#progress.get(name)?.state === "ready";
  }

  /**
   * Throws `unavailable` with the reason if a text in `value` leads into the folder of a package that is not there yet,
   * so that no user of it looks for a file that is still to come.
   */
  async require(value: Json): Promise<void> {
    const missing = this.#wanted.filter((config) => !this.#isReady(config));
    if (missing.length === 0) return;
    const texts = textsIn(value);
    for (const config of missing) {
      const folder = this.#folderOf(config);
      const leadsInto = (text: string) => text === folder || text.includes(`${folder}/`);
      if (!texts.some(leadsInto) || await this.parts.host.stat(folder)) continue;

      const error = this.#problems.last(shown(config));
      const state = error === "" ? "is still being downloaded" : `is not there yet: ${error}`;
      throw new SvcError("unavailable", `${shown(config)} ${state}`);
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
        const exact = await readLinkAt(this.parts.host, one);
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

      // A partial download of a missing package is worth keeping.
      if (configs.every((config) => this.#isReady(config))) await host.removeTree(join(root, "downloads"));
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

  /** Begins the attempts at a package; the follower learns of it if it is there after the preparation. */
  #install(
    config: PackageConfig,
    isDamaged: boolean,
    signal: AbortSignal,
    isPrepared: () => boolean,
  ): Installation {
    const folder = this.#folderOf(config);
    const before = readLinkAt(this.parts.host, folder).catch(() => undefined);
    const arrived = async () => {
      if (!isPrepared()) return;
      const linked = await before;
      const hasMoved = linked !== undefined && await readLinkAt(this.parts.host, folder) !== linked;
      if (hasMoved) this.#follower.moved();
      else this.#follower.arrived();
    };
    const attempt = () => before.then(() => this.#attempt(config, isDamaged, signal));
    const takeProgress = () => this.#downloads.takeProgress(config);
    return beginInstallation({ config, attempt, takeProgress, arrived, clock: this.parts.clock, signal });
  }

  /** One attempt; returns why it failed. */
  async #attempt(
    config: PackageConfig,
    isDamaged: boolean,
    signal: AbortSignal,
  ): Promise<SvcError | undefined> {
    const { logger } = this.parts;
    try {
      const local = await this.#localArchive(config);
      if (local) await this.#takeLocal(config, local, isDamaged);
      else await this.#takeFar(config, signal, isDamaged);
      if (isDamaged) this.#downloads.mended(this.#folderOf(config));

      this.#setProgress(config, { state: "ready" });
      if (this.#problems.isNew("", shown(config))) logger.info(`${shown(config)} is installed now`);
      return undefined;
    } catch (error) {
      const failure = SvcError.from(error);
      if (signal.aborted) return failure;
      const reason = shownUrlsIn(chainOf(error));
      this.#setProgress(config, { state: "failed", error: reason });
      if (this.#problems.isNew(reason, shown(config))) logger.error(`${shown(config)}: ${reason}`);
      return failure;
    }
  }

  /** Unpacks an archive of the registry folder unless that is done, and links the wanted name to it. */
  async #takeLocal(
    config: PackageConfig,
    { path, version }: RegistryArchive,
    isDamaged: boolean,
  ): Promise<void> {
    const { host, logger } = this.parts;
    const wanted = this.#folderOf(config), exact = this.#folderOf({ ...config, version });
    this.#linked.add(exact);
    const isAgain = isDamaged && await leadsTo(host, wanted, exact);
    await this.#downloads.inTurn(exact, async () => {
      if (!isAgain && await host.stat(exact)) return;
      this.#setProgress(config, { state: "loading" });
      await this.#downloads.unpack(path, exact).catch((error) => this.#refuse(wanted, version, error));
      logger.info("a package was taken from the registry folder", { name: config.name, version });
    });
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
    await this.#downloads.inTurn(wanted, async () => {
      if (await readLinkAt(this.parts.host, wanted) === basename(exact)) return;
      // An older svc-server had a folder there.
      if ((await host.stat(wanted, { links: true }))?.kind === "folder") await host.removeTree(wanted);
      await host.turnLink(wanted, basename(exact));
    });
    this.#linked.add(exact);
    this.#versions.set(wanted, version);
    this.#refused.delete(wanted);
  }

  /** Asks the control plane for the current version, and fetches it if it is not installed. */
  async #takeFar(config: PackageConfig, signal: AbortSignal, isDamaged: boolean): Promise<void> {
    const { client, host, home, logger } = this.parts;
    const wanted = this.#folderOf(config);
    const isThere = await host.stat(wanted) !== undefined;
    if (isThere && !isDamaged && !isMoving(config.version)) return;

    const linked = await readLinkAt(this.parts.host, wanted);
    if (linked !== undefined && isThere) this.#versions.set(wanted, versionInFolder(linked, config));
    if (!client && isThere && !isDamaged) return;
    if (!client) {
      const places = isDamaged
        ? `it is damaged, and not in ${home}/registry`
        : `it is neither in ${wanted} nor in ${home}/registry`;
      throw new SvcError("failed_precondition", `${places}, and there is no control plane`);
    }

    let found: FarPackage;
    try {
      found = await this.#ask(client, config, signal);
    } catch (error) {
      if (!isThere || isDamaged || !isRetryable(error)) throw error;
      return logger.debug(
        `the current version for ${config.version} of ${config.package} is unknown: ${chainOf(error)}`,
      );
    }

    const exact = this.#folderOf({ ...config, version: found.version });
    // Until the link leads to it, nothing else keeps the folder.
    if (exact !== wanted) this.#linked.add(exact);
    const isAgain = isDamaged && await leadsTo(host, wanted, exact);
    if (isAgain || !await host.stat(exact)) {
      const fetched = this.#downloads.fetch(config, found, exact, signal, isAgain);
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

  async #namesIn(folder: string): Promise<string[]> {
    return await this.parts.host.readFolder(folder).catch(() => []);
  }
}

/** The target of a link; `undefined` for anything else. */
async function readLinkAt(host: ReadFiles & LinkFiles, path: string): Promise<string | undefined> {
  const facts = await host.stat(path, { links: true });
  return facts?.kind === "link" ? await host.readLink(path) : undefined;
}

/** Whether the folder `wanted` is `exact`, or a link to it. */
async function leadsTo(host: ReadFiles & LinkFiles, wanted: string, exact: string): Promise<boolean> {
  return wanted === exact || await readLinkAt(host, wanted) === basename(exact);
}

function shown({ name, package: id, version }: PackageConfig): string {
  return `package "${name}" (${id} ${version})`;
}

function textsIn(value: Json): string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return isObject(value) ? Object.values(value).flatMap((one) => textsIn(one as Json)) : [];
}
