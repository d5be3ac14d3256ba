/**
 * Releases by the cloud's names, and the checks of a file that claims to be one.
 */

import type { UpdateInfo } from "../../../proto/gen/agent_pb.ts";
import { PackageFormat } from "../../../proto/gen/agent_pb.ts";
import { SvcError } from "../../base/error.ts";
import { shownUrl } from "../../base/log/shown_url.ts";
import type { TargetVersion } from "./state.ts";

const BINARIES = ["svc-agent", "svc-server"] as const;
export type BinaryName = typeof BINARIES[number];

export interface Release extends TargetVersion {
  readonly name: BinaryName;
  /** http, https or file. */
  readonly url: string;
  /** Hexadecimal; `undefined` if the sum is unknown. */
  readonly sha256?: string;
  /** A URL of the user's own, whose content may change. */
  readonly custom: boolean;
  /** The configuration names this version or URL itself, and not a channel. */
  readonly pinned?: boolean;
  /** The channel or range that leads to this version; absent if it is pinned. */
  readonly wanted?: string;
}

/** The cloud's version name for a URL. */
const CUSTOM = "customURL";

/** The channel of a device whose configuration names none. */
const DEFAULT_CHANNEL = "stable";

const SCHEMES = ["http:", "https:", "file:"];

/**
 * The release in the cloud's answer; `undefined` if it names none. Throws `invalid_argument` for an impossible one;
 * clouds have sent empty versions.
 */
export function releaseOf(
  name: BinaryName,
  info:
    | Pick<UpdateInfo, "version" | "url" | "sha256" | "format">
      & Partial<Pick<UpdateInfo, "pinned" | "wanted">>
    | undefined,
): Release | undefined {
  if (!info || (info.version === "" && info.url === "")) return undefined;
  const { version, url, sha256, format, pinned = false, wanted = "" } = info;
  const refuse = (found: string, wanted: string) =>
    new SvcError("invalid_argument", `the cloud wants ${name} with ${found}, wanted ${wanted}`);
  if (version.trim() === "") throw refuse("an empty version", "one such as 1.2.3");
  if (!URL.canParse(url) || !SCHEMES.includes(new URL(url).protocol)) {
    throw refuse(`the address "${shownUrl(url)}"`, "one that begins with https://, http:// or file://");
  }
  if (sha256.length !== 0 && sha256.length !== 32) throw refuse(`${sha256.length} bytes of SHA-256`, "32");
  if (format === PackageFormat.XZ || format === PackageFormat.XZ_EXECUTABLE) {
    throw refuse("a compressed file", "the program itself");
  }
  const sum = sha256.length === 0 ? undefined : sha256.toHex();
  const custom = version === CUSTOM;
  // The name goes into logs, reports and files.
  const named = custom ? `${CUSTOM}+${shownUrl(url)}` : version;
  const release = { name, version: named, url, sha256: sum, custom, key: keyOf(named, sum) };
  if (custom || pinned) return { ...release, pinned: true };
  return { ...release, pinned: false, wanted: wanted || DEFAULT_CHANNEL };
}

/** `mark` distinguishes the bytes of this version from others: their sum, or the modification time of a URL. */
export function keyOf(version: string, mark: string | undefined): string {
  return mark === undefined ? version : `${version}:${mark}`;
}

const VERSION_LENGTH_MAX = 40;
const SUM_LENGTH = 12;

/** The name of a file in `cache`. It contains the sum, so that files of the same name are equal. */
export function fileNameOf(name: BinaryName, version: string, sha256: string): string {
  const shown = isCustomVersion(version) ? "custom" : version.replaceAll(/[^\w.+-]/g, "_");
  return `${name}-${shown.slice(0, VERSION_LENGTH_MAX)}-${sha256.slice(0, SUM_LENGTH)}`;
}

/** The version in a file's name. */
export function versionIn(name: BinaryName, file: string): string {
  return file.startsWith(`${name}-`) && file.length > name.length + SUM_LENGTH + 2
    ? file.slice(name.length + 1, -SUM_LENGTH - 1)
    : "unknown";
}

/** Whether a version stands for the content of a URL. */
export function isCustomVersion(version: string): boolean {
  return version.startsWith(CUSTOM);
}

/** The name of a program, from its output for `--version`: JSON with a `binary_name`, or its name as the first word. */
export function binaryNameIn(output: string): string | undefined {
  const trimmed = output.trim();
  if (trimmed.startsWith("{")) {
    try {
      const { binary_name } = JSON.parse(trimmed);
      return typeof binary_name === "string" ? binary_name : undefined;
    } catch {
      return undefined;
    }
  }
  return /^[\w.-]+/.exec(trimmed)?.[0];
}

/** Why a program of this name is not the wanted one. A custom build of the runtime may have a name of its own. */
export function notTheProgram(name: BinaryName, found: string | undefined): string | undefined {
  if (name === "svc-server" && found !== "svc-agent") return undefined;
  if (found === name) return undefined;
  return `it calls itself ${found === undefined ? "nothing" : `"${found}"`}, wanted "${name}"`;
}
