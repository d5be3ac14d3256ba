/**
 * Placeholders: `${environment.<NAME>}` and `${packages.<type>.<name>}` (or `${packages.<name>}` for an ML model)
 * inside the texts of a configuration.
 *
 * A placeholder without a value is reported with its path and stays as it is written. A `${…}` of another kind is a
 * warning: it may be meant for another program.
 */

import { createHash } from "node:crypto";
import { homeFolder } from "../../base/files/home.ts";
import { type DecodeContext, isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import type { PackageConfig } from "./settings.ts";

export { homeFolder };

const HOME_VARIABLES = ["SVC_HOME", "VIAM_HOME"];

/** The sources of values. */
export interface PlaceholderSource {
  readonly env: (name: string) => string | undefined;
  readonly packages: NamedPackages;
  /** The folder of a package. */
  readonly folderOf: (one: PackageConfig) => string;
}

/** The configured packages by name, in their order. */
export class NamedPackages {
  readonly #byName: ReadonlyMap<string, readonly PackageConfig[]>;

  constructor(packages: readonly PackageConfig[]) {
    this.#byName = Map.groupBy(packages, ({ name }) => name);
  }

  get names(): Iterable<string> {
    return this.#byName.keys();
  }

  of(name: string): readonly PackageConfig[] {
    return this.#byName.get(name) ?? [];
  }
}

/** Marks a version whose first run has succeeded; stands beside its folder (a published name). */
export const FIRST_RUN_MARK = ".first_run_succeeded";

/**
 * The place of a package under the program's home folder: the published name, with a hash where other ids or versions
 * could have the same name.
 */
export function packageFolder(home: string, { type, package: id, version }: PackageConfig): string {
  const name = `${id.replaceAll(/[/\\]/g, "-")}-${version.replaceAll(/[./\\]/g, "_")}`;
  const isPlain = PLAIN_IDS.some((one) => one.test(id)) && PLAIN_VERSION.test(version);
  return `${home}/packages/data/${type}/${isPlain ? name : `${name}~${hashOfPackage(id, version)}`}`;
}

/** The version in the name of a package's folder. */
export function versionInFolder(folder: string, config: PackageConfig): string {
  const name = folder.slice(folder.lastIndexOf("/") + 1);
  const prefix = `${config.package.replaceAll(/[/\\]/g, "-")}-`;
  const text = name.slice(prefix.length).replace(/~[0-9a-f]{12}$/, "");
  const dotted = text.replaceAll("_", ".");
  const isOfFolder = (version: string) => packageFolder("", { ...config, version }).endsWith(`/${name}`);
  return [dotted, text].find(isOfFolder) ?? dotted;
}

/** Ids and versions whose published names are unambiguous. */
const PLAIN_IDS = [
  /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\/[\w.-]+$/,
  /^(?![0-9a-f]{8}\/)[\w.]+\/[\w.-]+$/,
  /^[\w.]+:[\w.-]+$/,
  /^[\w.]+$/,
];
const PLAIN_VERSION = /^[^-_/\\~]*$/;

function hashOfPackage(id: string, version: string): string {
  return createHash("sha256").update(`${id}\n${version}`).digest("hex").slice(0, 12);
}

/** The value with the placeholders of all its texts replaced. */
export function fillPlaceholders<T extends Json>(value: T, source: PlaceholderSource, at: DecodeContext): T;
export function fillPlaceholders(value: Json, source: PlaceholderSource, at: DecodeContext): Json {
  if (typeof value === "string") return value.includes("${") ? fillText(value, source, at) : value;
  if (Array.isArray(value)) return value.map((one, index) => fillPlaceholders(one, source, at.at(index)));
  if (!isObject(value)) return value;
  const filled = Object.entries(value as JsonObject)
    .map(([key, one]) => [key, fillPlaceholders(one, source, at.at(key))]);
  return Object.fromEntries(filled);
}

function fillText(text: string, source: PlaceholderSource, at: DecodeContext): string {
  return text.replace(/\$\{([^{}]*)\}/g, (written: string, inner: string) => {
    const dot = inner.indexOf(".");
    const rest = inner.slice(dot + 1);
    switch (inner.slice(0, Math.max(dot, 0))) {
      case "environment":
        return environment(rest, source, at) ?? written;
      case "packages":
        return packageNamed(rest, source, at) ?? written;
    }
    at.warn(
      `${written} stays unchanged: not a placeholder such as \${environment.NAME} or \${packages.type.name}`,
    );
    return written;
  });
}

function environment(name: string, { env }: PlaceholderSource, at: DecodeContext): string | undefined {
  if (name === "") return at.error("${environment.} lacks the name of an environment variable");
  // Modules have both, so a configuration may name them on every machine.
  const value = HOME_VARIABLES.includes(name) ? env(name) || homeFolder(env) : env(name);
  return value ?? at.error(`\${environment.${name}}: environment variable ${name} is not set`);
}

function packageNamed(
  words: string,
  { packages, folderOf }: PlaceholderSource,
  at: DecodeContext,
): string | undefined {
  const [, type = "ml_model", name = ""] = /^(?:([^.]*)\.)?(.*)$/.exec(words)!;
  const written = `\${packages.${words}}`;
  if (!/^[\w:/-]+$/.test(name)) return at.error(`${written}: "${name}" cannot be the name of a package`);

  const found = packages.of(name).find((one) => one.type === type);
  if (found) return folderOf(found);

  const [other] = packages.of(name);
  if (other) {
    return at.error(`${written}: package "${name}" is of another type, wanted ${placeholderFor(other)}`);
  }

  const likely = at.suggestions.of(name, packages.names);
  const hint = likely === undefined ? "" : `; did you mean "${likely}"?`;
  return at.error(`${written}: no package named "${name}" is configured${hint}`);
}

function placeholderFor({ type, name }: PackageConfig): string {
  return `\${packages.${type}.${name}}`;
}
