/**
 * Logs at the agent's start how its last run ended, in systemd's own words: out of memory, the watchdog, a signal.
 *
 * An agent that ends this way cannot log it, and the journal stays on the device. With these lines in the agent's
 * log, the reason reaches the cloud. Each line is logged once, however often the agent restarts.
 */

import type { Logger } from "../../base/log/log.ts";
import type { Commands } from "../system/commands.ts";

const ASK_MS = 5_000;
const LINES_READ = 200;
const LINES_MAX = 20;
const LINE_CHARS = 500;
/** What systemd logs about an end that nobody requested. */
const UNUSUAL =
  /oom|out of memory|watchdog|timed? ?out|killed|failed|failure|core|dumped|status=(?!0\/)|signal/i;

/** `cursorFile` remembers the last line. Never throws; logs nothing on a system without a journal. */
export async function tellLastEnd(
  service: string,
  cursorFile: string,
  commands: Pick<Commands, "try">,
  logger: Logger,
): Promise<void> {
  const args = [
    ...["--no-pager", "--quiet", "-o", "cat", "-n", String(LINES_READ)],
    ...[`--cursor-file=${cursorFile}`, "_PID=1", `UNIT=${service}.service`],
  ];
  const { code, output } = await commands.try("journalctl", args, { timeoutMs: ASK_MS })
    .catch(() => ({ code: -1, output: "" }));
  if (code !== 0) return;
  const lines = output.split("\n").filter((line) => UNUSUAL.test(line));
  for (const line of lines.slice(-LINES_MAX)) logger.warn(`systemd: ${line.trim().slice(0, LINE_CHARS)}`);
}
