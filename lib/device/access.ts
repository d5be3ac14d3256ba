/**
 * Opens device files; an error names the group or udev rule that gives the missing permission.
 */

import { SvcError } from "../base/error.ts";
import type { Device, Devices } from "../base/host.ts";

/** The groups of Debian and its derivatives for each kind of device, by the beginning of its name. */
const GROUPS: readonly (readonly [prefix: string, group: string, subsystem: string])[] = [
  ["/dev/gpiochip", "gpio", "gpio"],
  ["/dev/i2c-", "i2c", "i2c-dev"],
  ["/dev/spidev", "spi", "spidev"],
  ["/dev/tty", "dialout", "tty"],
  ["/dev/serial", "dialout", "tty"],
  ["/dev/video", "video", "video4linux"],
  ["/dev/input", "input", "input"],
  ["/sys/class/pwm", "gpio", "pwm"],
  ["/sys/class/gpio", "gpio", "gpio"],
];

/** How to get a missing permission; empty for another error or an unknown device. */
export function permissionHint(path: string, cause: unknown): string {
  if (SvcError.from(cause).code !== "permission_denied") return "";
  const [, group, subsystem] = GROUPS.find(([prefix]) => path.startsWith(prefix)) ?? [];
  if (!group) return "";
  const join = `add its user to the group ${group} (usermod -aG ${group} USER)`;
  const rule = path.startsWith("/sys")
    ? `SUBSYSTEM=="${subsystem}", PROGRAM="/bin/sh -c 'chgrp -R ${group} /sys%p && chmod -R g+w /sys%p'"`
    : `SUBSYSTEM=="${subsystem}", GROUP="${group}", MODE="0660"`;
  return `; ${join}, and if the device belongs to root alone, put this into /etc/udev/rules.d/99-svc.rules: ${rule}`;
}

export function opened(host: Devices, path: string): Device {
  try {
    return host.openDevice(path);
  } catch (cause) {
    const { code, message } = SvcError.from(cause);
    throw new SvcError(code, message + permissionHint(path, cause), { cause });
  }
}
