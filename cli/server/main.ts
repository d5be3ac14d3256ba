/**
 * `svc-server`: the machine runtime.
 *
 * Owns its command line and the choice of APIs, models and host. Promises: a configuration that cannot be used
 * is told whole and ends with 1; a command line that cannot be read ends with 2; otherwise it serves until it is
 * told to stop.
 */

import { APIS } from "../../lib/api/mod.ts";
import type { Host } from "../../lib/base/host.ts";
import { settle, SystemClock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { machineSchema } from "../../lib/machine/config/config.ts";
import { startRuntime } from "../../lib/machine/runtime.ts";
import { systemNetwork } from "../../lib/machine/diagnostics/system_network.ts";
import { type AnyModel, Registry } from "../../lib/resource/registry.ts";
import { MODELS } from "../../drivers/mod.ts";
import { makeOffer } from "../../lib/wire/webrtc.ts";
import { networkCheck, printCapture, profiled } from "./diagnostics.ts";
import { openLogs } from "../logs.ts";
import { begin, EXIT } from "../program.ts";
import { installServer } from "./install.ts";
import type { Values } from "../flags.ts";
import { revision, VERSION } from "../version.ts";

/** What the help says of an option that is read but has no engine yet. */
const NOTHING_YET = "In this version it does nothing.";

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
  flag("webrtc", "bool", true, `Prefer WebRTC connections to direct ones. ${NOTHING_YET}`),
  flag("disable-mdns", "bool", false, `Do not announce the machine through multicast DNS. ${NOTHING_YET}`),
  flag("allow-insecure-creds", "bool", false, "Allow sending credentials over plaintext."),
  flag("untrusted-env", "bool", false, `Disable processes and shell from running. ${NOTHING_YET}`),
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
  flag("network-check", "bool", false, "Only check the network, report and exit: with 1 if nothing works."),
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
  flag("shareddir", "string", "", `Location of static web assets. ${NOTHING_YET}`, "FOLDER"),
] as const;

const PROGRAM = {
  name: "svc-server",
  summary:
    "Runs the machine that a configuration file describes: builds its components and services and serves " +
    "them over gRPC and gRPC-web.",
  style: "go",
  usage: "-config FILE [flags]",
  flags: FLAGS,
} as const;

type Options = Values<typeof FLAGS>;

/** The same options, told in the log when they are used. */
const WITHOUT_ENGINE: readonly { given: (options: Options) => boolean; what: string }[] = [
  { given: (options) => options.webrtc, what: "-webrtc: clients connect directly, over gRPC or gRPC-web" },
  { given: (options) => options.disableMdns, what: "-disable-mdns: nothing is announced in any case" },
  {
    given: (options) => options.untrustedEnv,
    what: "-untrusted-env: there are no processes or shell to disable",
  },
  {
    given: (options) => options.shareddir !== "",
    what: "-shareddir: there are no static web assets to serve",
  },
];

export async function main(
  args: readonly string[],
  host: Host,
  models: readonly AnyModel[] = MODELS,
): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { values: options, rest } = begun;
  if (rest.length > 0) {
    host.writeError(
      `svc-server: unexpected argument "${rest[0]}", every option begins with a dash; see -help\n`,
    );
    return EXIT.usage;
  }
  const registry = new Registry(APIS, models);
  try {
    if (host.env("SVC_SELFTEST") === "webrtc") return await offer(host);
    if (options.dumpResources !== "") return await dumpResources(options.dumpResources, registry, host);
    if (options.configSchema) {
      host.write(`${JSON.stringify(machineSchema(registry), null, 2)}\n`);
      return EXIT.ok;
    }
    if (options.networkCheck) return await networkCheck(options.config, registry, host);
    if (options.ftdcRead !== "") {
      await printCapture(options.ftdcRead, options.ftdcFormat, options.ftdcMetrics, host);
      return EXIT.ok;
    }
    if (options.aixInstall) return await installServer(options.config, host);
    if (options.config === "") {
      host.writeError("svc-server: no configuration; give one with -config FILE; see -help\n");
      return EXIT.usage;
    }
    return await profiled(options.cpuprofile, host, () => serve(options, registry, host));
  } catch (error) {
    host.writeError(`svc-server: ${chainOf(error)}\n`);
    return EXIT.failed;
  }
}

async function serve(options: Options, registry: Registry, host: Host): Promise<number> {
  const clock = new SystemClock();
  using open = openLogs(PROGRAM.name, options.logFile, host, clock);
  const { logs } = open;
  logs.configure([], options.debug);
  const logger = logs.logger("rdk");
  logger.info("svc-server", { version: VERSION, git_rev: revision() ?? "built from source" });
  for (const { given, what } of WITHOUT_ENGINE) {
    if (given(options)) logger.info(`${what} (not in this version)`);
  }

  const stopped = Promise.withResolvers<string>();
  const forced = new AbortController();
  const end = Promise.withResolvers<number>();
  let signals = 0;
  const ignore = host.onTermination((signal) => {
    if (++signals === 1) return stopped.resolve(signal);
    forced.abort(new SvcError("canceled", `${signal} came again`));
    // Even if it has not come as far as to have something to close.
    void settle().then(() => end.resolve(EXIT.failed));
  });
  const run = async () => {
    const { config: configPath, debug, noTls, revealSensitiveConfigDiffs: showConfigDiffs } = options;
    const { allowInsecureCreds: allowInsecureCredentials } = options;
    const { resolve: stop } = stopped;
    const parts = { registry, host, clock, logs, version: VERSION };
    const { ftdc, webprofile: webProfile, outputTelemetry: telemetry } = options;
    const diagnostics = { ftdc, webProfile, telemetry };
    const runtime = await startRuntime(
      {
        configPath,
        debug,
        noTls,
        allowInsecureCredentials,
        showConfigDiffs,
        diagnostics,
        network: systemNetwork(host),
        stop,
      },
      parts,
    );
    const reason = await stopped.promise;
    logger.info(`shutting down: ${reason}`);
    return await runtime.close(forced.signal, reason) ? EXIT.ok : EXIT.failed;
  };
  try {
    return await Promise.race([run(), end.promise]);
  } finally {
    ignore();
  }
}

async function dumpResources(path: string, registry: Registry, host: Host): Promise<number> {
  await host.writeFile(path, `${JSON.stringify(registry.dump(), null, "\t")}\n`, { mode: 0o600 });
  return EXIT.ok;
}

/** Shows that the WebRTC addon of this executable loads and works: prints an offer. */
async function offer(host: Host): Promise<number> {
  host.write(`${await makeOffer()}\n`);
  return EXIT.ok;
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

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
