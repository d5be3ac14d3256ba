/**
 * `doctor`: looks at this device and says what to do before a machine runs on it.
 */

import { dirname, resolve } from "node:path";
import { SystemClock } from "../../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import { checkConfig } from "../../../lib/machine/config/check.ts";
import { readConfigBytes } from "../../../lib/machine/config/file.ts";
import { type Examination, examine, formatExaminations } from "../../../lib/machine/diagnostics/doctor.ts";
import { checkNetwork, conclusions, isOffline } from "../../../lib/machine/diagnostics/network_check.ts";
import { systemNetwork } from "../../../lib/machine/diagnostics/system_network.ts";
import type { Command } from "../../command.ts";
import type { Flag, Values } from "../../flags.ts";
import { EXIT } from "../../program.ts";
import { printResult } from "../../table.ts";
import { findDevices } from "./devices.ts";
import { examineProxy } from "./proxy.ts";
import type { FirstContext } from "./first_context.ts";

const FLAGS = [
  {
    name: "config",
    type: "string",
    default: "",
    value: "FILE",
    help: "Also look at this configuration: its problems, its port, its control plane.",
  },
  {
    name: "network",
    type: "bool",
    default: true,
    help: "Check which outside services answer; takes up to 25 seconds.",
  },
] as const satisfies readonly Flag[];

export const DOCTOR: Command<FirstContext> = {
  words: "doctor",
  takes: [],
  summary:
    "Looks at this device: access to pins, buses, serial lines and cameras, the clock, the disk, the " +
    "port, the network; says what to do. The exit code is 1 if there is a problem.",
  flags: FLAGS,
  run: doctor,
};

const USUAL_LISTEN = { host: "localhost", port: 8080 };

async function doctor(
  context: FirstContext,
  _: readonly string[],
  { config, network, json }: Values<typeof FLAGS> & { readonly json: boolean },
): Promise<number> {
  const { host, registry } = context;
  const clock = new SystemClock();
  const { findings: own, listen = USUAL_LISTEN, appAddress } = await ofConfig(config, context);
  const folder = dirname(resolve(host.cwd(), config || "machine.json"));
  const findings = [...await examine({ host, clock, listen, tryListen, folder }), ...own];
  const notes: string[] = [];
  const devices = await findDevices(host, registry, (text) => notes.push(text));
  const shown = devices.map(({ name, model }) => `${name} (${model.replace("rdk:builtin:", "")})`).join(", ");
  findings.push({ subject: "discovered", outcome: "ok", found: shown || "no board and no camera" });
  if (network) {
    host.writeError("checking the network…\n");
    const proxy = await examineProxy(host, clock, appAddress);
    if (proxy) findings.push(proxy);
    const found = await checkNetwork({ network: systemNetwork(host), clock, appAddress });
    const text = conclusions(found).join(" ");
    const remedy = "svc-server -network-check shows every check";
    findings.push(
      isOffline(found)
        ? { subject: "network", outcome: "problem", found: text, remedy }
        : { subject: "network", outcome: "ok", found: text },
    );
  }
  printResult(host, json, { examinations: findings, devices, notes }, formatExaminations(findings));
  return findings.some(({ outcome }) => outcome === "problem") ? EXIT.failed : EXIT.ok;
}

async function ofConfig(path: string, { host, registry }: FirstContext): Promise<{
  readonly findings: readonly Examination[];
  readonly listen?: { readonly host: string; readonly port: number };
  readonly appAddress?: string;
}> {
  if (path === "") return { findings: [] };
  const subject = "configuration";
  const remedy = `svc-server check ${path} shows them`;
  try {
    const bytes = await readConfigBytes(host, path);
    const { problems, config } = await checkConfig(bytes, path, registry, (name) => host.env(name));
    const errors = problems.filter(({ severity }) => severity === "error").length;
    const found = `${path}: errors: ${errors}, warnings: ${problems.length - errors}`;
    const findings: Examination[] = [
      errors > 0 ? { subject, outcome: "problem", found, remedy } : { subject, outcome: "ok", found },
    ];
    return { findings, listen: config?.network.bindAddress, appAddress: config?.cloud?.appAddress };
  } catch (error) {
    return { findings: [{ subject, outcome: "problem", found: chainOf(error) }] };
  }
}

/** Serves for a moment. */
function tryListen(host: string, port: number): Promise<SvcError | undefined> {
  try {
    Deno.listen({ hostname: host === "" ? "0.0.0.0" : host, port }).close();
    return Promise.resolve(undefined);
  } catch (cause) {
    const code = cause instanceof Deno.errors.AddrInUse ? "already_exists" : "failed_precondition";
    return Promise.resolve(new SvcError(code, `cannot serve there: ${chainOf(cause)}`));
  }
}
