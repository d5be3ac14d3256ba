/**
 * The destination of a program's logs: standard output, a file instead, or both.
 */

import type { Environment, Output, Screen } from "../lib/base/host.ts";
import type { LogFiles } from "../lib/base/files/files.ts";
import type { Clock } from "../lib/base/clock.ts";
import { LogFile } from "../lib/base/log/file.ts";
import { consoleSink, Logs, type Sink } from "../lib/base/log/log.ts";
import { patientOutput } from "../lib/base/native/patient_output.ts";

/** Loggers without deduplication: output of modules, actions of jobs, events of the machine. */
const EVERY_LINE_OF = ["rdk.activity", "rdk.job_manager.*", "rdk.modmanager.*.StdErr"];

/** Name a file that receives the logs beside standard output; the second is the published name. */
const FILE_VARIABLES = ["SVC_LOGFILE", "VIAM_LOGFILE"] as const;

/** Disposing of it logs the suppressed repetitions and closes the file. */
export interface OpenLogs extends Disposable {
  readonly logs: Logs;
}

/**
 * `file` replaces standard output, which gets only the lines that the file cannot take; if it is empty, the environment
 * may name a file.
 */
export function openLogs(
  program: string,
  file: string,
  host: Environment & Output & Screen & LogFiles,
  clock: Clock,
): OpenLogs {
  const besides = FILE_VARIABLES.map((variable) => host.env(variable)).find(Boolean) ?? "";
  const path = file || besides;
  const report = (message: string) => host.writeError(`${program}: ${message}\n`);
  // Log lines show that the program works: no other line does.
  host.writeError("");
  const output = patientOutput();
  const screen = consoleSink({ coloured: host.coloured(), report, output });
  const sinks: Sink[] = file === "" ? [screen] : [];
  const instead = file === "" ? undefined : { sink: screen, name: "standard output" };
  const logFile = path === "" ? undefined : new LogFile({ host, clock, path, report, instead });
  if (logFile) sinks.push(logFile.sink);
  const logs = new Logs(clock, sinks, { everyLineOf: EVERY_LINE_OF });
  return {
    logs,
    [Symbol.dispose]: () => {
      logs.flush();
      logFile?.close();
    },
  };
}
