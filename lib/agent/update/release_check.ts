/**
 * The checks of a downloaded file before its first start: the disk holds the same bytes that arrived; the file is a
 * program for this system; it runs; and it is the wanted program. (Devices were lost when an agent installed the
 * runtime's program as its own next version.)
 */

import type { ReadFiles } from "../../base/files/files.ts";
import { readHead } from "../../base/files/head.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { endProcess, type RunningProcess, type SpawnHost } from "../../base/process.ts";
import { answerInPlace, HEAD_BYTES, notAProgram, WEB_PAGE } from "../../base/release/program_head.ts";
import { computeSha256 } from "../../base/download/http_download.ts";
import { type BinaryName, binaryNameIn, isCustomVersion, notTheProgram } from "./release.ts";
import type { Build } from "./state.ts";
import type { Checker } from "./updater.ts";

export interface ReleaseCheckParts {
  readonly name: BinaryName;
  readonly platform: { readonly os: string; readonly arch: string };
  readonly files: ReadFiles;
  readonly processes: SpawnHost;
  readonly clock: Clock;
}

/** A slow, busy device needs long to start a program of a hundred megabytes. */
const PROBE_MS = 60_000;
const PROBE_END_MS = 2_000;
const OUTPUT_CHARS_MAX = 4096;

export class ReleaseCheck implements Checker {
  constructor(private readonly parts: ReleaseCheckParts) {}

  /** Throws `data_loss` for a damaged file or another answer in its place, `failed_precondition` for a wrong file. */
  async check(path: string, { version, sha256, sizeBytes }: Build, signal: AbortSignal): Promise<void> {
    const { files, name, platform } = this.parts;
    const found = await files.findFile(path);
    const sum = found && await computeSha256(files, path);
    if (found?.sizeBytes !== sizeBytes || sum !== sha256) {
      const wanted = `${sizeBytes} bytes with sum ${sha256}`;
      throw new SvcError("data_loss", `${path}: read back ${found?.sizeBytes ?? 0} bytes, wanted ${wanted}`);
    }
    const head = await readHead(files, path, HEAD_BYTES);
    // The content of a URL may be right at the next attempt, after the sign-in of a Wi-Fi or a server fault, so a
    // wrong one does not disqualify the URL. The bytes of a release, in contrast, have the sum that the cloud names.
    const inPlace = answerInPlace(head);
    if (inPlace !== undefined && (isCustomVersion(version) || inPlace === WEB_PAGE)) {
      throw new SvcError("data_loss", `${path}: found ${inPlace}, wanted a program; it is asked for again`);
    }
    const wrong = notAProgram(head, platform) ??
      notTheProgram(name, binaryNameIn(await this.#version(path, signal)));
    if (wrong) throw new SvcError("failed_precondition", `${path}: ${wrong}`);
  }

  /** Its output for `--version`. */
  async #version(path: string, signal: AbortSignal): Promise<string> {
    const { processes, clock } = this.parts;
    let process: RunningProcess;
    try {
      process = processes.spawn({ command: path, args: ["--version"], ownGroup: true });
    } catch (cause) {
      throw unrunnable(path, cause);
    }
    const late = () =>
      new SvcError("deadline_exceeded", `${path} --version takes more than ${PROBE_MS / 1000} s`);
    const limit = deadline(clock, PROBE_MS, late, signal);
    try {
      const [output, errors, { code, signal: killed }] = await race(
        Promise.all([joinLines(process.stdout), joinLines(process.stderr), process.exited]),
        limit.signal,
      );
      if (code === 0) return output;
      // Short of memory, the system kills programs that are fine.
      if (killed === "SIGKILL") throw new SvcError("unavailable", `${path} --version was killed`);
      const printed = errors.trim().slice(-300) || output.trim().slice(-300) || "nothing";
      throw new SvcError("failed_precondition", `${path} --version fails with ${code} and says: ${printed}`);
    } finally {
      limit.done();
      await endProcess(process, clock, PROBE_END_MS);
    }
  }
}

/**
 * Why the system does not start a program. A file that no program here can read is wrong for good; what the device
 * forbids or lacks may change, and says nothing of the version.
 */
function unrunnable(path: string, cause: unknown): SvcError {
  const { code } = SvcError.from(cause);
  if (code === "not_found") return new SvcError("failed_precondition", `${path} cannot be run`, { cause });
  if (code !== "permission_denied") {
    return new SvcError("unavailable", `${path} cannot be run now`, { cause });
  }
  const hint = "is its disk mounted with noexec, or does SELinux or AppArmor forbid it?";
  return new SvcError("permission_denied", `${path} may not be run (${hint})`, { cause });
}

async function joinLines(lines: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const line of lines) if (text.length < OUTPUT_CHARS_MAX) text += `${line}\n`;
  return text;
}
