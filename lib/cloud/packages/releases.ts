/**
 * Releases: the programs that agents install, by name, version and platform, and the channels that contain them.
 *
 * Owns the table `releases`. A release never changes; its channel may.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { notAProgram } from "../../base/release/program_head.ts";
import { compareVersions, parseVersion } from "../../base/semver.ts";
import type { StoredFile } from "../store/files.ts";
import { chooseVersion } from "./packages.ts";
import type { Sql } from "../store/store.ts";

export const PROGRAMS = ["svc-agent", "svc-server"] as const;
export type ReleasedProgram = typeof PROGRAMS[number];

export const RELEASE_PLATFORMS = ["linux/amd64", "linux/arm64", "windows/amd64"] as const;

/** `none`: the release is found by its version only. */
export const CHANNELS = ["stable", "dev", "none"] as const;
export type ReleaseChannel = typeof CHANNELS[number];

export interface PublishedRelease {
  readonly id: string;
  readonly name: ReleasedProgram;
  readonly version: string;
  readonly platform: string;
  readonly channel: ReleaseChannel;
  readonly sha256: string;
  readonly bytes: number;
  readonly createdMs: number;
}

/** The header of a Linux program, and an entry of its table of segments. */
const ELF_HEADER_BYTES = 64;
const ELF_SEGMENT_BYTES = 56;

export const RELEASE_BYTES_MAX = 1024 ** 3;

const RELEASES =
  `SELECT id, name, version, platform, channel, sha256, bytes, created_ms AS "createdMs" FROM releases`;

export class Releases {
  constructor(private readonly sql: Sql) {}

  /** Throws `already_exists` if the version exists for this platform, `invalid_argument` for impossible values. */
  async add(
    { name, version, platform, channel, file }: Pick<PublishedRelease, "version" | "platform"> & {
      readonly name: string;
      readonly channel: string;
      readonly file: StoredFile;
    },
    nowMs: number,
  ): Promise<string> {
    checkRelease(name, version, platform, channel);
    const id = randomUUID();
    try {
      await this.sql.query(
        `INSERT INTO releases (id, name, version, platform, channel, sha256, bytes, created_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
        id,
        name,
        version,
        platform,
        channel,
        file.sha256,
        file.bytes,
        nowMs,
      );
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      throw knownRelease(name, version, platform);
    }
    return id;
  }

  /** Refuses a release that `add` would refuse: an early check spares a long upload, and the database decides. */
  async check(
    { name, version, platform, channel }: Omit<Parameters<Releases["add"]>[0], "file">,
  ): Promise<void> {
    checkRelease(name, version, platform, channel);
    const all = await this.list();
    const isKnown = all.some((one) =>
      one.name === name && one.version === version && one.platform === platform
    );
    if (isKnown) throw knownRelease(name, version, platform);
  }

  /** Each release and its channel. */
  channels(): Promise<{ id: string; channel: string }[]> {
    return this.sql.query("SELECT id, channel FROM releases ORDER BY id");
  }

  /** By name and version, oldest version first. */
  async list(): Promise<PublishedRelease[]> {
    const all = await this.sql.query<PublishedRelease>(`${RELEASES} ORDER BY name, platform, created_ms`);
    return all.sort((a, b) => {
      if (a.name !== b.name) return a.name < b.name ? -1 : 1;
      const [one, other] = [parseVersion(a.version), parseVersion(b.version)];
      return one && other ? compareVersions(one, other) : 0;
    });
  }

  /**
   * Selects a release: by a version, a range of versions, or the highest version in a channel, where `dev` includes
   * everything in `stable`. Throws `not_found`.
   */
  async find(name: string, version: string, platform: string): Promise<PublishedRelease> {
    const all = await this.sql.query<PublishedRelease>(
      `${RELEASES} WHERE name = ? AND platform = ? ORDER BY created_ms, id`,
      name,
      platform,
    );
    const found = choose(all, version);
    if (found) return found;
    const there = all.map((one) => one.channel === "none" ? one.version : `${one.version} (${one.channel})`);
    throw new SvcError(
      "not_found",
      `there is no release "${version}" of ${name} for ${platform}, found ${
        there.join(", ") || "none at all"
      }`,
    );
  }

  /** Removes a version on all its platforms; returns its contents, for the caller to release. */
  async delete(name: string, version: string): Promise<string[]> {
    const text = "DELETE FROM releases WHERE name = ? AND version = ? RETURNING sha256";
    const gone = await this.sql.query<{ sha256: string }>(text, name, version);
    if (gone.length > 0) return gone.map(({ sha256 }) => sha256);
    throw new SvcError("not_found", `there is no release ${name} ${version}`);
  }

  /** Moves a version, on all its platforms, to a channel. Throws `not_found`. */
  async setChannel(name: string, version: string, channel: string): Promise<void> {
    checkChannel(channel);
    const moved = await this.sql.query(
      "UPDATE releases SET channel = ? WHERE name = ? AND version = ? RETURNING id",
      channel,
      name,
      version,
    );
    if (moved.length === 0) throw new SvcError("not_found", `there is no release ${name} ${version}`);
  }
}

/**
 * Throws `invalid_argument` if the beginning of a file is not that of a program for the platform, by the rule of the
 * agents that would download it, or the file ends before the program does.
 */
export function checkProgram(head: Uint8Array, platform: string, name: string, bytes: number): void {
  const [os = "", arch = ""] = platform.split("/");
  const wrong = notAProgram(head, { os, arch });
  if (wrong !== undefined) throw new SvcError("invalid_argument", `${name}: ${wrong}`);

  const wantedBytes = os === "linux" ? elfBytes(head) : 0;
  if (bytes >= wantedBytes) return;
  const problem = `found ${bytes} bytes, wanted at least ${wantedBytes} by its header: it is not complete`;
  throw new SvcError("invalid_argument", `${name}: ${problem}`);
}

/** The least size of a Linux program with 64 bits, by the tables and segments that its header names. */
function elfBytes(head: Uint8Array): number {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  if (head.length < ELF_HEADER_BYTES) return ELF_HEADER_BYTES;
  const number = (at: number) => Number(view.getBigUint64(at, true));
  const tableAt = (place: number, entry: number) => {
    const [entryBytes, count] = [view.getUint16(entry, true), view.getUint16(entry + 2, true)];
    // Packers leave the place of a table that has no entries.
    return { start: number(place), entryBytes, end: count === 0 ? 0 : number(place) + entryBytes * count };
  };
  const segments = tableAt(32, 54);
  const sections = tableAt(40, 58);
  let bytes = Math.max(segments.end, sections.end);

  const inHead = Math.min(segments.end, head.length - ELF_SEGMENT_BYTES);
  if (segments.entryBytes < ELF_SEGMENT_BYTES) return bytes;
  for (let at = segments.start; at <= inHead && at < segments.end; at += segments.entryBytes) {
    bytes = Math.max(bytes, number(at + 8) + number(at + 32));
  }
  return bytes;
}

/** Its file name on the device: `svc-server-v1.2.3-linux-amd64`. */
export function releaseFileName({ name, version, platform }: PublishedRelease): string {
  const extension = platform.startsWith("windows/") ? ".exe" : "";
  return `${name}-v${version}-${platform.replace("/", "-")}${extension}`;
}

/** Whether there is a release that an agent gets for a version, `stable` or `dev`. `all` may be of any program. */
export function hasRelease(
  all: readonly PublishedRelease[],
  { name, version, platform }: { readonly name: string; readonly version: string; readonly platform: string },
): boolean {
  return choose(all.filter((one) => one.name === name && one.platform === platform), version) !== undefined;
}

/** `1.2.3` also of `v1.2.3`; other texts as they are. */
export function plainVersion(text: string): string {
  return text.replace(/^v(?=\d)/, "");
}

function choose(all: readonly PublishedRelease[], wanted: string): PublishedRelease | undefined {
  if (wanted !== "stable" && wanted !== "dev") return chooseVersion(all, plainVersion(wanted));
  const inIt = all.filter(({ channel }) => channel === "stable" || (wanted === "dev" && channel === "dev"));
  return chooseVersion(inIt, "dev");
}

function checkRelease(name: string, version: string, platform: string, channel: string): void {
  if (!PROGRAMS.some((one) => one === name)) throw unknown("program", name, PROGRAMS);
  if (!RELEASE_PLATFORMS.some((one) => one === platform)) {
    throw unknown("platform", platform, RELEASE_PLATFORMS);
  }
  checkChannel(channel);
  if (!parseVersion(version) || version.startsWith("v")) {
    throw new SvcError(
      "invalid_argument",
      `found version "${version}", wanted one such as 1.2.3 or 1.2.3-rc1`,
    );
  }
}

function checkChannel(channel: string): void {
  if (!CHANNELS.some((one) => one === channel)) throw unknown("channel", channel, CHANNELS);
}

function unknown(what: string, found: string, wanted: readonly string[]): SvcError {
  return new SvcError("invalid_argument", `found ${what} "${found}", wanted one of ${wanted.join(", ")}`);
}

function knownRelease(name: string, version: string, platform: string): SvcError {
  const found = `there is a release ${name} ${version} for ${platform} already`;
  return new SvcError("already_exists", `${found}: releases do not change, take a new version`);
}
