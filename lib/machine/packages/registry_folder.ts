/**
 * A registry on the machine itself: a folder with archives of packages, so that a machine without a control plane has
 * versions too.
 *
 * Owns no files: people and their tools put archives there, as `registry/<type>/<id>/<version>.tar.gz` under the
 * program's home, or `<version>.<os>-<arch>.tar.gz` for one platform (`linux-amd64`).
 */

import { join } from "node:path";
import type { ReadFiles } from "../../base/files/files.ts";
import { VERSION_WORDS } from "../../base/release/version_words.ts";
import { compareVersions, parseRange, parseVersion, type Range, type Version } from "../../base/semver.ts";
import type { MachineConfig, ModuleConfig, PackageConfig } from "../config/config.ts";

const ARCHIVE = /^(.+?)(?:\.([a-z]+-[a-z0-9]+))?\.(?:tgz|tar\.gz)$/;
/** The parts of an id; none of them leads out of the folder. */
const ID = /^\w[\w.-]*(?:[:/]\w[\w.-]*)*$/;

/** A version in the folder. */
export interface RegistryArchive {
  readonly path: string;
  /** As its file name spells it. */
  readonly version: string;
}

/** Whether a configured version is moving: a word or a range, which may stand for another version tomorrow. */
export function isMoving(version: string): boolean {
  return VERSION_WORDS.includes(version) ||
    parseVersion(version) === undefined && parseRange(version) !== undefined;
}

/** The package of a module from a registry. */
export function packageOfModule({ name, moduleId = "", version = "latest" }: ModuleConfig): PackageConfig {
  return { name, package: moduleId, version, type: "module" };
}

/** A package of a configuration. */
export interface WantedPackage extends PackageConfig {
  /** For a module's: the programs of registry modules, which may be in it. */
  readonly programs?: readonly string[];
}

/**
 * The packages of a configuration: its listed packages, and those of its registry modules, unless they are listed or
 * the module has an executable path of its own.
 */
export function wantedPackages(
  { packages, modules }: Pick<MachineConfig, "packages" | "modules">,
): WantedPackage[] {
  const wanted = [...packages];
  for (const module of modules) {
    const { type, moduleId, executablePath } = module;
    if (type !== "registry" || !moduleId || executablePath) continue;
    const isWanted = ({ type, package: id, version }: PackageConfig) =>
      type === "module" && id === moduleId && (version === module.version || module.version === undefined);
    if (!wanted.some(isWanted)) wanted.push(packageOfModule(module));
  }
  const programs = modules.flatMap(({ type, executablePath = "" }) => {
    return type === "registry" && executablePath !== "" ? [executablePath] : [];
  });
  if (programs.length === 0) return wanted;
  return wanted.map((one) => one.type === "module" ? { ...one, programs } : one);
}

/**
 * The archive that `version` selects: that version itself, the highest one of a range such as `^1.2`, or the highest
 * of all for `latest`, which leaves out prereleases, and `latest-with-prerelease`. `undefined` if the folder has none for this platform.
 */
export async function findArchive(
  home: string,
  { type, package: id, version }: PackageConfig,
  platform: string,
  files: Pick<ReadFiles, "readFolder" | "stat">,
): Promise<RegistryArchive | undefined> {
  if (!ID.test(id)) return undefined;
  const folder = join(home, "registry", type, id.replaceAll("/", "-"));
  if (!await files.stat(folder)) return undefined;

  const found: (RegistryArchive & { readonly parsed?: Version; readonly isOwn: boolean })[] = [];
  for (const name of await files.readFolder(folder)) {
    const [, named, forPlatform] = ARCHIVE.exec(name) ?? [];
    if (named === undefined || (forPlatform !== undefined && forPlatform !== platform)) continue;
    const isOwn = forPlatform !== undefined;
    found.push({ path: join(folder, name), version: named, parsed: parseVersion(named), isOwn });
  }

  // An archive for this platform precedes one for all platforms.
  found.sort((a, b) => Number(b.isOwn) - Number(a.isOwn));
  const exact = found.find((one) => one.version === version);
  if (exact) return exact;

  const range = rangeOf(version);
  if (!range) return undefined;

  return found.filter(({ parsed }) => parsed && range(parsed))
    .reduce<typeof found[number] | undefined>((best, one) => {
      return best && compareVersions(best.parsed!, one.parsed!) >= 0 ? best : one;
    }, undefined);
}

/** The versions that the configured one stands for; `undefined` if it is neither a word nor a range. */
function rangeOf(version: string): Range | undefined {
  if (version === "latest") return releases;
  if (version === "latest-with-prerelease") return () => true;
  return parseRange(version);
}

function releases({ prerelease = [] }: Version): boolean {
  return prerelease.length === 0;
}
