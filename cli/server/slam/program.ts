/**
 * `svc-server slam`: makes maps from recordings, and inspects maps.
 *
 * Owns the table of its commands. Results go to standard output, for people or with --json as one value. A failing
 * command gives the reason on standard error and exits with 1.
 *
 * The room owns the commands of svc-server on maps and recordings, without a machine.
 */

import type { Host } from "../../../lib/base/host.ts";
import type { CommandProgram } from "../../command.ts";
import { runCommand } from "../../dispatch.ts";
import type { Flag } from "../../flags.ts";
import { EXPORT, PICTURE } from "./export.ts";
import { INFO } from "./info.ts";
import { MERGE } from "./merge.ts";
import { EVALUATE, RUN } from "./run.ts";
import type { SlamContext } from "./slam_context.ts";

const COMMON: readonly Flag[] = [
  { name: "json", type: "bool", default: false, help: "Print one JSON value instead of text." },
];

const PROGRAM: CommandProgram<SlamContext> = {
  name: "svc-server slam",
  summary: "Builds maps from recordings, and inspects, converts and merges maps of the SLAM service.",
  flags: COMMON,
  commands: [RUN, EVALUATE, INFO, EXPORT, PICTURE, MERGE],
  exits: [
    ["0", "done"],
    ["1", "failed; standard error has the reason"],
    ["2", "the command line is wrong"],
  ],
};

/** Runs the command in `args`, the words after `slam`; returns the exit code. */
export async function runSlam(args: readonly string[], host: Host): Promise<number> {
  return await runCommand(PROGRAM, args, { host });
}
