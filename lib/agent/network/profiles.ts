/**
 * NetworkManager's settings of a network, by section as in its D-Bus API. Pure.
 *
 * Every profile of the agent has a mark (`user.data`): the owner, and a digest of the wanted content, so that an
 * unchanged profile is not written again and a foreign one is never touched.
 */

import { createHash } from "node:crypto";
import { Buffer } from "node:buffer";
import { typed, type TypedSections } from "../../base/bus/bus.ts";
import type { Secret } from "../../base/secret.ts";
import type { AdditionalNetwork } from "../settings/settings_rows.ts";

/** The keys of the mark. */
export const PROFILE_MARK = { name: "svc.network", digest: "svc.digest" } as const;

/** Names in marks of profiles outside of `additional_networks`, whose names have no colon. */
export const CHOSEN = "chosen:";
export const HOTSPOT = "hotspot:";

export interface ProfileWanted {
  /** The name in the mark. */
  readonly name: string;
  /** Digest of the wanted content, secrets included; it reveals nothing of them. */
  readonly digest: string;
  readonly settings: TypedSections;
}

/** The address of the device in its own hotspot (published). */
export const HOTSPOT_ADDRESS = "10.42.0.1";
const HOTSPOT_PREFIX = 24;
/** Priorities of networks that users choose: above all others, or among them. */
const CHOSEN_PRIORITY = { only: 999, roaming: 100 } as const;
/** NetworkManager's value for its defaults: 100 for cables and 600 for Wi-Fi. */
const DEFAULT_METRIC = -1;

/** The profile of an entry of `additional_networks`. Wi-Fi without an interface uses the hotspot's device. */
export function additionalProfile(
  name: string,
  network: AdditionalNetwork,
  wifiDevice: string,
): ProfileWanted {
  const { type, ssid, psk, priority } = network;
  const device = network.interface || (type === "wifi" ? wifiDevice : "");
  const id = `${type === "wifi" ? ssid : "wired"}@${device || "any"}`;
  return wanted(name, {
    connection: connectionOf(id, name, type === "wifi" ? WIRELESS : WIRED, device, true, priority),
    ...type === "wifi" ? wifiSections(ssid, psk, "infrastructure") : {},
    ipv4: ipv4Of(network),
  });
}

/** The profile of a network that a user chose. */
export function chosenProfile(ssid: string, psk: Secret, device: string, roaming: boolean): ProfileWanted {
  const name = `${CHOSEN}${ssid}`;
  const priority = roaming ? CHOSEN_PRIORITY.roaming : CHOSEN_PRIORITY.only;
  return wanted(name, {
    connection: connectionOf(`${ssid}@${device}`, name, WIRELESS, device, true, priority),
    ...wifiSections(ssid, psk, "infrastructure"),
    ipv4: { method: typed("s", "auto") },
  });
}

/** The profile of the device's own hotspot: WPA2, and addresses after its own for clients. */
export function hotspotProfile(ssid: string, psk: Secret, device: string): ProfileWanted {
  const name = `${HOTSPOT}${ssid}`;
  return wanted(name, {
    connection: connectionOf(`${ssid}@${device}`, name, WIRELESS, device, false, 0),
    ...wifiSections(ssid, psk, "ap"),
    ipv4: {
      method: typed("s", "shared"),
      "address-data": typed("aa{sv}", [addressOf(HOTSPOT_ADDRESS, HOTSPOT_PREFIX)]),
      "never-default": typed("b", true),
    },
    ipv6: { method: typed("s", "disabled") },
  });
}

const WIRELESS = "802-11-wireless";
const WIRED = "802-3-ethernet";

type Section = TypedSections[string];

function connectionOf(
  id: string,
  name: string,
  type: string,
  device: string,
  autoconnect: boolean,
  priority: number,
): Section {
  return {
    id: typed("s", id),
    uuid: typed("s", uuidOf(name)),
    type: typed("s", type),
    autoconnect: typed("b", autoconnect),
    "autoconnect-priority": typed("i", priority),
    ...device === "" ? {} : { "interface-name": typed("s", device) },
  };
}

function wifiSections(ssid: string, psk: Secret | undefined, mode: "ap" | "infrastructure"): TypedSections {
  const key = psk?.reveal() ?? "";
  return {
    [WIRELESS]: { mode: typed("s", mode), ssid: typed("ay", Buffer.from(ssid)) },
    ...key === "" ? {} : {
      [`${WIRELESS}-security`]: {
        "key-mgmt": typed("s", "wpa-psk"),
        psk: typed("s", key),
        // Phones without WPA3 can join, too.
        ...mode === "ap" ? { proto: typed("as", ["rsn"]), pairwise: typed("as", ["ccmp"]) } : {},
      },
    },
  };
}

function ipv4Of({ ipv4Address, ipv4Gateway, ipv4Dns, ipv4RouteMetric }: AdditionalNetwork): Section {
  const metric: Section = { "route-metric": typed("x", BigInt(ipv4RouteMetric || DEFAULT_METRIC)) };
  // `dns-data` accepts texts, from NetworkManager 1.42 on.
  const dns: Section = ipv4Dns.length === 0 ? {} : { dns: typed("au", ipv4Dns.map(networkOrder)) };
  if (ipv4Address === "auto") return { method: typed("s", "auto"), ...metric, ...dns };
  const [ip, prefix] = ipv4Address.split("/");
  return {
    method: typed("s", "manual"),
    "address-data": typed("aa{sv}", [addressOf(ip, Number(prefix))]),
    ...ipv4Gateway === "" ? {} : { gateway: typed("s", ipv4Gateway) },
    ...metric,
    ...dns,
  };
}

/** An address as the number of its bytes in memory, least significant byte first. */
function networkOrder(address: string): number {
  return Buffer.from(address.split(".").map(Number)).readUInt32LE();
}

function addressOf(address: string, prefix: number) {
  return { address: typed("s", address), prefix: typed("u", prefix) };
}

function wanted(name: string, settings: TypedSections): ProfileWanted {
  const text = JSON.stringify(settings, (_, value) => typeof value === "bigint" ? String(value) : value);
  const digest = createHash("sha256").update(text).digest("hex");
  const data = typed("a{ss}", { [PROFILE_MARK.name]: name, [PROFILE_MARK.digest]: digest });
  return { name, digest, settings: { ...settings, user: { data } } };
}

/** The same UUID for the same name on every device, so that the profile is found again. */
function uuidOf(name: string): string {
  const bytes = createHash("sha256").update(`svc-agent network ${name}`).digest().subarray(0, 16);
  bytes[6] = (bytes[6] & 0x0f) | 0x50;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
