/**
 * `svc-server`: the machine runtime.
 *
 * Owns its command line. An unreadable command line ends with 2. `-version` and `-help` load nothing of the machine,
 * which is in `serve.ts`.
 *
 * The room owns the command line of svc-server, and the choice of APIs, models and host.
 */

import { escaped } from "../../lib/base/escape.ts";
import type { Host } from "../../lib/base/host.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { suggest } from "../../lib/base/schema/suggest.ts";
import type { ListedModel } from "../../lib/resource/registry.ts";
import type { Values } from "../flags.ts";
import { begin, ended, EXIT, unexpected } from "../program.ts";

const FLAGS = [
  flag(
    "config",
    "string",
    "",
    "Machine configuration file: cloud credentials or a full configuration.",
    "FILE",
  ),
  flag("debug", "bool", false, "Write debug-level logs."),
  flag("no-tls", "bool", false, "Serve without TLS even if the configuration has a certificate."),
  flag("webrtc", "bool", true, "Offer WebRTC to clients; without it they connect directly."),
  flag("disable-mdns", "bool", false, "Do not announce the machine through multicast DNS."),
  flag(
    "discover",
    "bool",
    false,
    "Print the machines on this network, found through multicast DNS, and exit.",
  ),
  flag("allow-insecure-creds", "bool", false, "Allow sending credentials over plaintext."),
  flag("untrusted-env", "bool", false, "Disable processes and shell from running."),
  flag(
    "dump-resources",
    "string",
    "",
    "Write every model with its attributes as JSON to a file and exit.",
    "FILE",
  ),
  flag("config-schema", "bool", false, "Print the JSON Schema of the configuration file and exit."),
  flag("log-file", "string", "", "Write logs to a file with rotation.", "FILE"),
  flag(
    "reveal-sensitive-config-diffs",
    "bool",
    false,
    "Log what changes between configurations, with secrets as stars.",
  ),
  flag(
    "network-check",
    "bool",
    false,
    "Only check the network, print a report and exit; the exit code is 1 if every check fails.",
  ),
  flag("ftdc", "bool", true, "Capture diagnostics all the time."),
  flag("ftdc-read", "string", "", "Print a capture of diagnostics and exit.", "FILE"),
  flag("ftdc-format", "string", "table", "How -ftdc-read prints: table, csv or svg.", "FORMAT"),
  flag("ftdc-metrics", "string", "", 'Metrics that -ftdc-read prints: "process.*,loop.*".', "PATTERNS"),
  flag("cpuprofile", "string", "", "Write a CPU profile to a file.", "FILE"),
  flag("webprofile", "bool", false, "Include the profiler in the HTTP server."),
  flag("output-telemetry", "bool", false, "Print metrics and spans."),
  flag(
    "aix-install",
    "bool",
    false,
    "Install this executable as a service of the system, with the file of -config or /etc/svc.json.",
  ),
  flag(
    "hot",
    "string",
    "",
    "Start local modules again when a file in this folder changes, while one writes them.",
    "FOLDER",
  ),
  flag("shareddir", "string", "", "Location of static web assets, served at /static/.", "FOLDER"),
] as const;

const PROGRAM = {
  name: "svc-server",
  summary:
    "Runs the machine that a configuration file describes: builds its components and services and serves " +
    "them over gRPC and gRPC-web.",
  style: "go",
  usage: "-config FILE [flags]",
  flags: FLAGS,
  more: "\nCommands (each with --help):\n  init    Writes a first configuration by questions.\n" +
    "  check   Checks configuration files without running them.\n" +
    "  doctor  Looks at this device and says what to do.\n" +
    "  status  Prints how a running machine is.\n" +
    "  call    Calls a method of a resource of a running machine.\n" +
    "  watch   Prints the readings of a resource as they change.\n" +
    "  logs    Prints the log of a running machine.\n" +
    "  module  Creates modules; restarts those of a running machine.\n" +
    "  slam    Works on the maps of the SLAM service.\n",
} as const;

export type Options = Values<typeof FLAGS>;

/**
 * The machine, by a computed address: Deno loads the whole graph behind a literal `import`, 330 modules, before it
 * answers `-version`. cli/build/compiler.ts adds the machine to the executable, and likewise the commands on maps,
 * which few machines need.
 */
const SERVE = new URL("./serve.ts", import.meta.url).href;

const SLAM = new URL("./slam/program.ts", import.meta.url).href;

const MODULE = new URL("./module/program.ts", import.meta.url).href;

const FIRST = new URL("./first/program.ts", import.meta.url).href;

const RUNNING = new URL("./running/program.ts", import.meta.url).href;

const FIRST_STEPS = ["init", "check", "doctor"];

const ABOUT_RUNNING = ["status", "call", "watch", "logs"];

/** Words after `module` that are about a running machine. */
const MODULE_RESTARTS = ["restart", "reload"];

const COMMANDS = [...FIRST_STEPS, ...ABOUT_RUNNING, "module", "slam", "help"];

export async function main(
  args: readonly string[],
  host: Host,
  models?: readonly ListedModel[],
): Promise<number> {
  const [first = ""] = args;
  if (first === "help") {
    return await main([...args.slice(1, 3), args.length > 1 ? "--help" : "-help"], host);
  }
  if (first === "slam") {
    const { runSlam }: typeof import("./slam/program.ts") = await import(SLAM);
    return await runSlam(args.slice(1), host);
  }
  if (ABOUT_RUNNING.includes(first) || restartIn(args)) {
    const { runOnMachine }: typeof import("./running/program.ts") = await import(RUNNING);
    return await runOnMachine(restartIn(args) ?? args, host);
  }
  if (first === "module") {
    const { runModule }: typeof import("./module/program.ts") = await import(MODULE);
    return await runModule(args.slice(1), host);
  }
  if (FIRST_STEPS.includes(first)) {
    const { runFirstStep }: typeof import("./first/program.ts") = await import(FIRST);
    return await runFirstStep(args, host);
  }
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { values: options, rest } = begun;
  const [surplus] = rest;
  if (surplus !== undefined) {
    const near = surplus === first ? suggest(surplus, COMMANDS) : undefined;
    const wrong = near ? `unknown command "${escaped(surplus)}"; did you mean ${near}?` : unexpected(surplus);
    host.writeError(`svc-server: ${wrong}; see -help\n`);
    return EXIT.usage;
  }
  const { run }: typeof import("./serve.ts") = await import(SERVE);
  return await run(options, host, models);
}

/** `module restart` with its flags behind it; `undefined` for other command lines. */
function restartIn([first, ...rest]: readonly string[]): readonly string[] | undefined {
  const at = rest.findIndex((one) => !one.startsWith("-"));
  const word = rest[at];
  if (first !== "module" || word === undefined || !MODULE_RESTARTS.includes(word)) return undefined;
  return [first, word, ...rest.toSpliced(at, 1)];
}

function flag<const N extends string, T extends "bool" | "string", D extends boolean | string>(
  name: N,
  type: T,
  fallback: D,
  help: string,
  value?: string,
) {
  return { name, type, default: fallback, help, ...(value === undefined ? {} : { value }) };
}

if (import.meta.main) {
  const host = new DenoHost();
  Deno.exit(await ended("svc-server", host, () => main(Deno.args, host)));
}
