/**
 * Writes log lines as the programs do, then the file `done`, waits for the file `go`, and writes one more line.
 *
 * Use: log_writer.ts LINES DONE GO [LENGTH]
 */

import { openLogs } from "../../cli/logs.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { until } from "../support/until.ts";

const [lines, done, go, length = "100"] = Deno.args;
const filler = "x".repeat(Number(length));
const { logs } = openLogs("log-writer", "", new DenoHost(), new SystemClock());
const logger = logs.logger("rdk.modmanager.m.StdErr");
for (let line = 0; line < Number(lines); line++) logger.info(`line ${line} ${filler}`);
if (done !== "-") {
  await Deno.writeTextFile(done, "");
  await until(() => Deno.stat(go).then(() => true, () => false));
}
logger.info(`line ${lines} ${filler}`);
