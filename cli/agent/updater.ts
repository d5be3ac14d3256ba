/**
 * Composes the updater of one program, and copies this executable into its cache.
 */

import { join } from "node:path";
import { Download } from "../../lib/agent/update/download.ts";
import { computeSha256 } from "../../lib/base/download/http_download.ts";
import type { BinaryName } from "../../lib/agent/update/release.ts";
import { ReleaseCheck } from "../../lib/agent/update/release_check.ts";
import { AcceptedKeys } from "../../lib/base/release/accepted_keys.ts";
import { releaseKeysFile } from "../../lib/agent/supervise/runtime.ts";
import { UpdateRecord } from "../../lib/agent/update/record.ts";
import { Updater } from "../../lib/agent/update/updater.ts";
import type { Files } from "../../lib/base/files/files.ts";
import type { Clock } from "../../lib/base/clock.ts";
import type { DenoHost } from "../../lib/base/host_deno.ts";
import type { Logs } from "../../lib/base/log/log.ts";

export interface UpdaterOptions {
  readonly name: BinaryName;
  /** The agent's folder. */
  readonly base: string;
  /** Whether it switches versions, beside fetching them. */
  readonly manages: boolean;
  readonly files: Files;
  readonly host: DenoHost;
  readonly clock: Clock;
  /** The clock of its pauses, if it differs from the system's. */
  readonly pace?: Clock;
  readonly logs: Logs;
}

export function updaterOf(
  { name, base, manages, files, host, clock, pace = clock, logs }: UpdaterOptions,
): Updater {
  const logger = logs.logger("svc-agent.update");
  const run = runFolder(host, base);
  const historyPath = join(base, "state", `accepted_${name}.json`);
  const keys = new AcceptedKeys(releaseKeysFile(base), { files, clock, historyPath });
  return new Updater({
    ...{ name, files, clock: pace, logger, manages },
    record: new UpdateRecord({ name, base, run, files, sumOf: (path) => computeSha256(files, path) }),
    fetcher: new Download({ base, files, clock, logger, keys, platform: publishedPlatform(host.platform()) }),
    checker: new ReleaseCheck({ name, files, clock, platform: host.platform(), processes: host }),
  });
}

/** In the published notation: `linux/amd64`. */
function publishedPlatform({ os, arch }: { os: string; arch: string }): string {
  return `${os}/${arch === "x64" ? "amd64" : arch}`;
}

/** The service's folder in memory, empty after a power loss, where the loader counts, too; else one on the disk. */
export function runFolder(host: DenoHost, base: string): string {
  return host.env("RUNTIME_DIRECTORY")?.split(":")[0] || join(base, "run");
}

/** Copies a file into the cache, complete and durable; returns its name there. */
export async function copyToCache(
  files: Files,
  updater: Updater,
  base: string,
  path: string,
  version: string,
): Promise<string> {
  const file = updater.fileOf(version, await computeSha256(files, path));
  const to = join(base, "cache", file);
  if (!await files.findFile(to)) await files.copyFile(path, to, { mode: 0o755 });
  return file;
}
