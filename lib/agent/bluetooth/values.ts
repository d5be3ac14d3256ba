/**
 * The values that a phone reads and writes over Bluetooth, as bytes. Pure.
 *
 * Published: the service and its characteristics have UUIDs of version 5, derived from one namespace and a name each.
 */

import { createHash } from "node:crypto";
import { Buffer } from "node:buffer";
import { type DeviceView, isWithoutPassword } from "../portal/submissions.ts";

const NAMESPACE = "74a942f4-0f45-43f4-88ca-f87021ae36ea";

export const BLUETOOTH_SERVICE = uuidOf("viam-provisioning");

/** Written by phones, encrypted. */
export const WRITTEN = [
  ...["ssid", "psk", "id", "secret", "api_key", "app_address"],
  ...["exit_provisioning", "unlock_pairing"],
] as const;

/** Read by phones, with notification of changes. */
export const READ = [
  ...["pub_key", "status", "manufacturer", "model", "fragment_id", "networks", "errors"],
  "agent_version",
] as const;

export type Written = typeof WRITTEN[number];
export type Read = typeof READ[number];

/** Limit of an attribute (Bluetooth Core Specification). */
const VALUE_BYTES_MAX = 512;

const CONFIGURED = 1;
const ONLINE = 2;
const SECURED = 0x80;
const SIGNAL_MAX = 100;

/** The UUID of a name (RFC 9562, version 5). */
export function uuidOf(name: string): string {
  const namespace = Buffer.from(NAMESPACE.replaceAll("-", ""), "hex");
  const bytes = createHash("sha1").update(namespace).update(name).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** The values that a phone reads, except the key. */
export function valuesOf(
  device: DeviceView,
  errors: readonly string[],
): { readonly [name in Exclude<Read, "pub_key">]: Buffer } {
  const { manufacturer, model, fragmentId, agentVersion, configured, online, networks } = device;
  return {
    status: Buffer.from([(configured ? CONFIGURED : 0) | (online ? ONLINE : 0)]),
    manufacturer: cut(manufacturer),
    model: cut(model),
    fragment_id: cut(fragmentId),
    agent_version: cut(agentVersion),
    networks: fitting(networks.map(({ ssid, signal, security }) => {
      const strength = Math.min(SIGNAL_MAX, Math.max(0, Math.round(signal)));
      return Buffer.concat([
        Buffer.from([strength | (isWithoutPassword(security) ? 0 : SECURED)]),
        Buffer.from(`${ssid}\0`),
      ]);
    })),
    errors: fitting(errors.map((error) => Buffer.from(`${error}\0`))),
  };
}

function cut(text: string): Buffer {
  return Buffer.from(text).subarray(0, VALUE_BYTES_MAX);
}

/** The longest prefix of `parts` that fits into one characteristic value. */
function fitting(parts: readonly Buffer[]): Buffer {
  const fit: Buffer[] = [];
  let bytes = 0;
  for (const part of parts) {
    bytes += part.length;
    if (bytes > VALUE_BYTES_MAX) break;
    fit.push(part);
  }
  return Buffer.concat(fit);
}
