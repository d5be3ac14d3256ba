/**
 * What tells two devices with the same credentials apart, such as two with copies of one SD card: each start of a
 * program has a number of its own, and each device a name. They are in the header of every call to the control plane.
 */

import { randomUUID } from "node:crypto";
import { networkInterfaces } from "node:os";
import { escapedLine } from "../../base/escape.ts";

export interface DeviceMark {
  /** Of this start of the program. */
  readonly run: string;
  /** `svc-agent` */
  readonly program: string;
  /** For people: `rover (dc:a6:32:01:02:03)`. */
  readonly name: string;
}

/** Not published: the header with the mark. */
export const DEVICE_MARK = "svc-device";

const FIELD_LENGTH_MAX = 100;
const RUN = /^[\da-f-]{36}$/;
const PROGRAMS = ["svc-agent", "svc-server"];
const NO_HARDWARE = "00:00:00:00:00:00";

/** The mark of this start of a program on this device. */
export function createDeviceMark(
  program: string,
  hostname: string,
  interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces(),
): DeviceMark {
  const addresses = Object.values(interfaces).flatMap((all) => all ?? [])
    .filter(({ internal, mac }) => !internal && mac !== NO_HARDWARE).map(({ mac }) => mac).sort();
  const name = addresses.length === 0 ? hostname : `${hostname} (${addresses[0]})`;
  return { run: randomUUID(), program, name };
}

export function headerOfMark({ run, program, name }: DeviceMark): string {
  return `${run} ${program} ${encodeURIComponent(name.slice(0, FIELD_LENGTH_MAX))}`;
}

/** The mark in a header; `undefined` without one that is usable. */
export function markIn(header: string | undefined): DeviceMark | undefined {
  const [run = "", program = "", name = ""] = (header ?? "").split(" ");
  if (!RUN.test(run) || !PROGRAMS.includes(program)) return undefined;
  try {
    return { run, program, name: escapedLine(decodeURIComponent(name).slice(0, FIELD_LENGTH_MAX)) };
  } catch {
    return undefined;
  }
}
