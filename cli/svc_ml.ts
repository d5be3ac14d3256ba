/**
 * `svc-ml`: the client for machine-learning training jobs.
 *
 * Owns its command line. Promises: it tells its version and its options; it says so and fails when it is asked
 * to do more than that.
 */

import { DenoHost } from "../lib/base/host_deno.ts";
import { begin, type Terminal } from "./program.ts";

const PROGRAM = {
  name: "svc-ml",
  summary: "Submits, inspects, lists, cancels and deletes the training jobs of an organization.",
  style: "gnu",
  usage: "[flags]",
  flags: [],
} as const;

/** Runs the program; gives its exit code. */
export function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return Promise.resolve(begun.exitCode);
  terminal.writeError("svc-ml: this version only tells its version and its flags; see --help\n");
  return Promise.resolve(1);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
