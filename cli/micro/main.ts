/**
 * `svc-micro-server`: the machine runtime for small boards.
 *
 * Owns its command line. An unreadable command line ends with 2. `-version` and `-help` load nothing of the machine,
 * which is in `serve.ts`.
 *
 * The room owns the command line of svc-micro-server, and the choice of APIs and models that fit a small board.
 */

import type { Host } from "../../lib/base/host.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { Values } from "../flags.ts";
import { begin, ended, EXIT, unexpected } from "../program.ts";

const FLAGS = [
  {
    name: "config",
    type: "string",
    default: "",
    value: "FILE",
    help: "Machine configuration file: cloud credentials or a full configuration.",
  },
  { name: "debug", type: "bool", default: false, help: "Write debug-level logs." },
  {
    name: "no-tls",
    type: "bool",
    default: false,
    help: "Serve without TLS even if the configuration has a certificate.",
  },
  {
    name: "allow-insecure-creds",
    type: "bool",
    default: false,
    help: "Allow sending credentials over plaintext.",
  },
  {
    name: "dump-resources",
    type: "string",
    default: "",
    value: "FILE",
    help: "Write every model with its attributes as JSON to a file and exit.",
  },
  {
    name: "log-file",
    type: "string",
    default: "",
    value: "FILE",
    help: "Write logs to a file with rotation.",
  },
] as const;

const PROGRAM = {
  name: "svc-micro-server",
  summary:
    "Runs a machine on a small board: direct gRPC and gRPC-web, boards, motors, encoders, servos, sensors and " +
    "bases; no WebRTC, modules, cameras or services.",
  style: "go",
  usage: "-config FILE [flags]",
  flags: FLAGS,
} as const;

export type MicroOptions = Values<typeof FLAGS>;

/** A computed address, so that Deno does not load the machine before it is needed. */
const SERVE = new URL("./serve.ts", import.meta.url).href;

export async function main(args: readonly string[], host: Host): Promise<number> {
  const begun = begin(PROGRAM, args[0] === "help" ? ["-help"] : args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { values: options, rest } = begun;
  let wrong: string | undefined;
  const [surplus] = rest;
  if (surplus !== undefined) wrong = unexpected(surplus);
  else if (options.config === "" && options.dumpResources === "") {
    wrong = "no configuration; give one with -config FILE";
  }
  if (wrong !== undefined) {
    host.writeError(`svc-micro-server: ${wrong}; see -help\n`);
    return EXIT.usage;
  }
  const { run }: typeof import("./serve.ts") = await import(SERVE);
  return await run(options, host);
}

if (import.meta.main) {
  const host = new DenoHost();
  Deno.exit(await ended("svc-micro-server", host, () => main(Deno.args, host)));
}
