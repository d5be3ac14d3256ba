/**
 * The commands of `svc-server` that only inspect, and the CPU profile of a whole run.
 */

import { didYouMean } from "../../lib/base/schema/suggest.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Host } from "../../lib/base/host.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { readConfig } from "../../lib/machine/config/file.ts";
import { decodeCapture } from "../../lib/machine/diagnostics/ftdc_format.ts";
import {
  formatCapture,
  REPORT_FORMATS,
  type ReportFormat,
  selectMetrics,
} from "../../lib/machine/diagnostics/ftdc_report.ts";
import { checkNetwork, formatReport, isOffline } from "../../lib/machine/diagnostics/network_check.ts";
import { recordCpu } from "../../lib/machine/diagnostics/profiler.ts";
import { systemNetwork } from "../../lib/machine/diagnostics/system_network.ts";
import { table } from "../table.ts";
import type { Registry } from "../../lib/resource/registry.ts";
import { UsageError } from "../flags.ts";

/**
 * Checks the network and prints a report; a configuration, if given, names the control plane. Returns the exit code: 1
 * if there were checks and none passed.
 */
export async function networkCheck(configPath: string, registry: Registry, host: Host): Promise<number> {
  const appAddress = await findAppAddress(configPath, registry, host);
  const findings = await checkNetwork({ network: systemNetwork(host), clock: new SystemClock(), appAddress });
  host.write(formatReport(findings));
  return isOffline(findings) ? 1 : 0;
}

async function findAppAddress(path: string, registry: Registry, host: Host): Promise<string | undefined> {
  if (path === "") return undefined;
  try {
    const json = await readConfig(host, path);
    const { config } = await decodeConfig(json, registry, { env: (name) => host.env(name) });
    return config.cloud?.appAddress;
  } catch (error) {
    host.writeError(`svc-server: the control plane is not checked: ${chainOf(error)}\n`);
    return undefined;
  }
}

/** Prints a capture of diagnostics: as a table, as CSV or as a plot, which is an SVG document. */
export async function printCapture(path: string, format: string, metrics: string, host: Host): Promise<void> {
  if (!isReportFormat(format)) {
    const wanted = `${REPORT_FORMATS.join(", ")}${didYouMean(format, REPORT_FORMATS)}`;
    throw new UsageError(`-ftdc-format: found "${format}", wanted one of ${wanted}`);
  }
  const bytes = await host.readFile(path);
  const capture = decodeCapture(bytes);
  if (capture.timesMs.length === 0 && bytes.length > 0) {
    throw new SvcError("data_loss", `"${path}" holds no samples: is it a capture of diagnostics?`);
  }
  if (metrics !== "" && capture.metrics.size > 0 && selectMetrics(capture, metrics).metrics.size === 0) {
    const held = [...capture.metrics.keys()].join(", ");
    throw new SvcError(
      "not_found",
      `-ftdc-metrics: no metric matches "${metrics}"; the capture holds ${held}`,
    );
  }
  host.write(formatCapture(capture, format, metrics));
}

/** Time limit for machines to answer. */
const DISCOVERY_MS = 2_000;

/** Prints the machines that answer on this computer's networks. Returns the exit code: 1 if there are none. */
export async function discover(host: Host): Promise<number> {
  const { browse } = await import("../../lib/wire/mdns/browser.ts");
  const { SYSTEM_NETWORK } = await import("../../lib/wire/mdns/links.ts");
  const clock = new SystemClock();
  const logger = new Logs(clock, []).logger("discovery");
  const machines = await browse({ network: SYSTEM_NETWORK, clock, logger }, DISCOVERY_MS);
  if (machines.length === 0) {
    host.writeError("svc-server: no machine answers on this network\n");
    return 1;
  }
  const rows = machines.map(({ names, addresses, port, serves }) => [
    `${bracketed(addresses[0] ?? "")}:${port}`,
    names.filter((name) => name.includes(".")).join(", ") || names.slice(0, 1).join(""),
    serves.join(", "),
  ]);
  host.write(`${table([["ADDRESS", "NAMES", "SERVES"], ...rows]).join("\n")}\n`);
  return 0;
}

function bracketed(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}

function isReportFormat(format: string): format is ReportFormat {
  return (REPORT_FORMATS as readonly string[]).includes(format);
}

/** Runs the program. With a path, writes its CPU profile there, even if the run fails. */
export async function profiled(path: string, host: Host, run: () => Promise<number>): Promise<number> {
  if (path === "") return await run();
  // A bad path fails now rather than after hours.
  await host.writeFile(path, "");
  const recording = await recordCpu(new SystemClock());
  try {
    return await run();
  } finally {
    await host.writeFile(path, await recording.stop());
  }
}
