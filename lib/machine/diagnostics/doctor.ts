/**
 * The doctor: looks at the device on which a machine is to run, and says what to do about what is missing.
 *
 * Owns the list of examinations. It changes nothing, opens no device (a serial line may reset what is behind it) and
 * never throws: an examination that is impossible says why.
 */

import type { Environment, Platform } from "../../base/host.ts";
import type { LinkFiles, ReadFiles } from "../../base/files/files.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { SpawnHost } from "../../base/process.ts";
import { permissionHint } from "../../device/access.ts";
import { findHolder } from "../serve/port/port_holder.ts";

export type DoctorHost = Environment & Platform & ReadFiles & LinkFiles & SpawnHost;

/** One thing that was looked at. */
export interface Examination {
  readonly subject: string;
  readonly outcome: "ok" | "note" | "problem";
  readonly found: string;
  /** What to do; absent if nothing is needed. */
  readonly remedy?: string;
}

export interface DoctorParts {
  readonly host: DoctorHost;
  readonly clock: Clock;
  /** The address that the machine is to serve on. */
  readonly listen: { readonly host: string; readonly port: number };
  /** Tries to serve there; resolves with the reason if that is impossible. */
  readonly tryListen: (host: string, port: number) => Promise<SvcError | undefined>;
  /** A folder on the disk that the machine writes to. */
  readonly folder: string;
}

const COMMAND_MS = 5_000;
/** Longer lists of devices are cut. */
const SHOWN_MAX = 6;
const FREE_BYTES_WANTED = 500 * 1024 * 1024;
/** No device was set up before this program was written. */
const EARLIEST_MS = Date.UTC(2025, 0, 1);

interface DeviceKind {
  readonly subject: string;
  readonly pattern: RegExp;
  /** What to do if there is none and somebody needs one. */
  readonly remedy: string;
}

const DEVICE_KINDS: readonly DeviceKind[] = [
  {
    subject: "pins",
    pattern: /^gpiochip\d+$/,
    remedy: "without a GPIO chip, boards of the model linux do not work here",
  },
  {
    subject: "I2C",
    pattern: /^i2c-\d+$/,
    remedy: "to use I2C: modprobe i2c-dev; on a Raspberry Pi raspi-config nonint do_i2c 0, then reboot",
  },
  {
    subject: "SPI",
    pattern: /^spidev[\d.]+$/,
    remedy: "to use SPI: on a Raspberry Pi raspi-config nonint do_spi 0, then reboot",
  },
  {
    subject: "serial lines",
    pattern: /^tty(?:USB|ACM|AMA|THS)\d+$/,
    remedy: "to use a serial device: plug it in; on a Raspberry Pi raspi-config nonint do_serial_hw 0",
  },
  {
    subject: "cameras",
    pattern: /^video\d+$/,
    remedy: "to use a camera: plug it in, and see dmesg if it does not appear",
  },
];

export async function examine(parts: DoctorParts): Promise<Examination[]> {
  const { host } = parts;
  const { os, arch } = host.platform();
  const findings: Examination[] = [await examineSystem(host, os, arch)];
  if (os === "linux") {
    for (const kind of DEVICE_KINDS) findings.push(await examineDevices(kind, host, parts.clock));
    findings.push(await udevRules(host));
  } else {
    const found = `pins, buses and cameras are not examined on ${os}`;
    findings.push({ subject: "devices", outcome: "note", found });
  }
  findings.push(await examineTime(parts), await examineDisk(parts), await examinePort(parts));
  return findings;
}

/** For people: one line for each examination, and below it what to do. */
export function formatExaminations(findings: readonly Examination[]): string[] {
  const width = Math.max(...findings.map(({ subject }) => subject.length));
  const shown = { ok: "ok", note: "note", problem: "PROBLEM" };
  return findings.flatMap(({ subject, outcome, found, remedy }) => [
    `${shown[outcome].padEnd(7)}  ${subject.padEnd(width)}  ${found}`,
    ...(remedy === undefined ? [] : [`${" ".repeat(width + 11)}-> ${remedy}`]),
  ]);
}

async function examineSystem(host: DoctorHost, os: string, arch: string): Promise<Examination> {
  const board = (await host.readTextFile("/proc/device-tree/model").catch(() => "")).replace(/\0.*$/s, "");
  const release = await host.readTextFile("/etc/os-release").catch(() => "");
  const name = /^PRETTY_NAME="?([^"\n]+)/m.exec(release)?.[1] ?? os;
  const kernel = (await host.readTextFile("/proc/sys/kernel/osrelease").catch(() => "")).trim();
  const found = [board, name, kernel && `kernel ${kernel}`, arch].filter(Boolean).join(", ");
  return { subject: "system", outcome: "ok", found };
}

async function examineDevices(
  { subject, pattern, remedy }: DeviceKind,
  host: DoctorHost,
  clock: Clock,
): Promise<Examination> {
  const names = (await host.readFolder("/dev").catch(() => [])).filter((name) => pattern.test(name));
  if (names.length === 0) return { subject, outcome: "note", found: "none", remedy };

  const paths = names.map((name) => `/dev/${name}`);
  const refused: string[] = [];
  for (const path of paths) if (!await mayUse(path, host, clock)) refused.push(path);
  const [first] = refused;
  if (first === undefined) return { subject, outcome: "ok", found: listed(paths) };

  const hint = permissionHint(first, new SvcError("permission_denied", first));
  return {
    subject,
    outcome: "problem",
    found: `this user may not read and write ${listed(refused)}`,
    remedy: `${hint.replace(/^; /, "")}; then log in again`,
  };
}

/** Asks the system without opening the device. */
async function mayUse(path: string, host: DoctorHost, clock: Clock): Promise<boolean> {
  const { code } = await captureOutput(["test", "-r", path, "-a", "-w", path], host, clock);
  return code === 0;
}

async function udevRules(host: DoctorHost): Promise<Examination> {
  const subject = "udev";
  const folder = "/etc/udev/rules.d";
  const names = await host.readFolder(folder).catch(() => []);
  const rules = names.filter((name) => name.endsWith(".rules"));
  if (rules.length === 0) return { subject, outcome: "note", found: `no rules of your own in ${folder}` };
  return { subject, outcome: "ok", found: listed(rules.map((name) => `${folder}/${name}`)) };
}

async function examineTime({ host, clock }: DoctorParts): Promise<Examination> {
  const subject = "clock";
  const nowMs = clock.nowMs();
  const now = new Date(nowMs).toISOString().slice(0, 19).replace("T", " ");
  const remedy = "timedatectl set-ntp true, or set the time: date -s 'YYYY-MM-DD hh:mm'";
  if (nowMs < EARLIEST_MS) {
    const found = `${now} UTC is in the past: certificates and keys will not be accepted`;
    return { subject, outcome: "problem", found, remedy };
  }
  if (host.platform().os !== "linux") return { subject, outcome: "ok", found: `${now} UTC` };

  const { code, text } = await captureOutput(
    ["timedatectl", "show", "-p", "NTPSynchronized", "--value"],
    host,
    clock,
  );
  if (code !== 0) {
    return {
      subject,
      outcome: "note",
      found: `${now} UTC; the system does not tell whether it is set by the network`,
    };
  }
  if (text.trim() === "yes") return { subject, outcome: "ok", found: `${now} UTC, set by the network` };

  return { subject, outcome: "note", found: `${now} UTC, not set by the network`, remedy };
}

async function examineDisk({ host, folder }: DoctorParts): Promise<Examination> {
  const subject = "disk";
  try {
    const free = await host.freeBytes(folder);
    const found = `${Math.floor(free / 1024 / 1024)} MiB free in ${folder}`;
    if (free >= FREE_BYTES_WANTED) return { subject, outcome: "ok", found };
    const remedy =
      "make room: captured data, logs and packages of modules need it; apt-get clean, journalctl --vacuum-size=50M";
    return { subject, outcome: "problem", found, remedy };
  } catch (error) {
    return { subject, outcome: "note", found: `cannot be examined: ${chainOf(error)}` };
  }
}

async function examinePort({ host, listen, tryListen }: DoctorParts): Promise<Examination> {
  const subject = "port";
  const address = `${listen.host || "every interface"}, port ${listen.port}`;
  const error = await tryListen(listen.host, listen.port);
  if (!error) return { subject, outcome: "ok", found: `${address} is free` };
  const holder = await findHolder(listen.port, host);
  const held = holder === undefined ? "" : ` by ${holder}`;
  const isTaken = error.code === "already_exists";
  return {
    subject,
    outcome: "problem",
    found: isTaken ? `${address} is in use${held}` : `${address}: ${error.message}`,
    remedy: "end that program, or choose another port in network.bind_address",
  };
}

/** Runs a program; a missing one counts as failed. */
async function captureOutput(
  [command, ...args]: readonly [command: string, ...args: string[]],
  host: SpawnHost,
  clock: Clock,
): Promise<{ readonly code: number; readonly text: string }> {
  const late = () => new SvcError("deadline_exceeded", `${command} does not end`);
  const { signal, done } = deadline(clock, COMMAND_MS, late);
  try {
    const process = host.spawn({ command, args });
    signal.addEventListener("abort", () => process.signal("SIGKILL"), { once: true });
    const read = async (lines: AsyncIterable<string>) => (await Array.fromAsync(lines)).join("\n");
    const whole = Promise.all([read(process.stdout), read(process.stderr), process.exited]);
    const [text, , { code }] = await race(whole, signal);
    return { code, text };
  } catch {
    return { code: -1, text: "" };
  } finally {
    done();
  }
}

function listed(names: readonly string[]): string {
  const more = names.length - SHOWN_MAX;
  return names.slice(0, SHOWN_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
