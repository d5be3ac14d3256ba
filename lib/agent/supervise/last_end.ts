/**
 * Logs at the agent's start how its last run ended, in systemd's own words: out of memory, the watchdog, a signal.
 *
 * An agent that ends this way cannot log it, and the journal stays on the device. With these lines in the agent's
 * log, the reason reaches the cloud. Each line is logged once, however often the agent restarts: the agent keeps the
 * journal's cursor itself, because journalctl before version 242 keeps none.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Commands } from "../system/commands.ts";

const ASK_MS = 5_000;
const LINES_READ = 200;
const LINES_MAX = 20;
const LINE_CHARS = 500;
/** The last line, with the place in the journal behind it. */
const CURSOR = /^-- cursor: (\S+)$/;
/** What systemd logs about an end that nobody requested. */
const UNUSUAL =
  /oom|out of memory|watchdog|timed? ?out|killed|failed|failure|core|dumped|status=(?!0\/)|signal/i;

export interface LastEndParts {
  readonly commands: Pick<Commands, "try">;
  readonly files: Pick<ReadFiles, "readTextFile"> & Pick<WriteFiles, "writeFile">;
  readonly logger: Logger;
  /** The agent's folder, where a file of its own remembers the last line. */
  readonly base: string;
}

/** Never throws; logs nothing on a system without a journal. */
export async function tellLastEnd(
  service: string,
  { commands, files, logger, base }: LastEndParts,
): Promise<void> {
  const cursorFile = `${base}/state/last_end_cursor`;
  const known = (await files.readTextFile(cursorFile).catch(() => "")).trim();
  const ask = async (from: readonly string[]) => {
    const args = ["--no-pager", "--quiet", "-o", "cat", "-n", String(LINES_READ), "--show-cursor", ...from];
    return await commands.try("journalctl", [...args, "_PID=1", `UNIT=${service}.service`], {
      timeoutMs: ASK_MS,
    }).then(({ code, output }) => code === 0 ? output : undefined, () => undefined);
  };
  // A cursor of another journal is refused.
  const output = (known === "" ? undefined : await ask([`--after-cursor=${known}`])) ?? await ask([]);
  if (output === undefined) return;

  const lines = output.split("\n");
  const [, cursor = known] = CURSOR.exec(lines.at(-1) ?? "") ?? [];
  const unusual = lines.filter((line) => UNUSUAL.test(line) && !CURSOR.test(line));
  for (const line of unusual.slice(-LINES_MAX)) logger.warn(`systemd: ${line.trim().slice(0, LINE_CHARS)}`);
  if (cursor !== known) await files.writeFile(cursorFile, cursor).catch(() => {});
}
