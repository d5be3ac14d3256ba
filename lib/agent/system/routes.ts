/** The device's IPv4 routes, from Linux's table. */

/** The table, and the byte order of its numbers: that of the processor, which is little-endian on every target. */
export const ROUTES_FILE = "/proc/net/route";

export interface NetworkRoute {
  readonly device: string;
  /** `10.0.0.0`. */
  readonly destination: string;
  /** The length of the prefix: 0 for a default route. */
  readonly bits: number;
  /** `0.0.0.0` for a network to which the device is connected. */
  readonly gateway: string;
}

const COLUMNS = 8;
const NUMBER = /^[\da-f]{8}$/i;

/** The routes of a table; lines that are none are left out. */
export function routesOf(table: string): NetworkRoute[] {
  return table.split("\n").slice(1).map((line) => line.trim().split(/\s+/)).flatMap((row) => {
    const [device = "", destination = "", gateway = "", , , , , mask = ""] = row;
    if (row.length < COLUMNS || ![destination, gateway, mask].every((one) => NUMBER.test(one))) return [];
    return [{ device, destination: addressOf(destination), gateway: addressOf(gateway), bits: bitsOf(mask) }];
  });
}

function addressOf(number: string): string {
  return (number.match(/../g) ?? []).map((byte) => parseInt(byte, 16)).reverse().join(".");
}

function bitsOf(mask: string): number {
  return parseInt(mask, 16).toString(2).replaceAll("0", "").length;
}
