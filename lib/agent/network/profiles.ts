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
import { isOnlyOwe } from "../portal/submissions.ts";
import type { AdditionalNetwork } from "../settings/settings_fields.ts";
import { HOTSPOT_PREFIX } from "./hotspot_address.ts";

/** A network in range, as far as its profile depends on it. */
interface SeenSecurity {
  /** `WPA2`, `WPA2 WPA3`, `OWE`; empty for an open network. */
  readonly security: string;
}

/** The keys of the mark. */
export const PROFILE_MARK = { name: "svc.network", digest: "svc.digest" } as const;

/**
 * Prefixes of names in marks: for profiles outside of `additional_networks`, and for keys there that contain a colon.
 */
export const CHOSEN = "chosen:";
/** A choice that has not connected yet, beside the one that it is to replace. */
export const TRIED = "tried:";
export const HOTSPOT = "hotspot:";
export const TETHER = "phone:";
const ADDITIONAL = "additional:";

/** The name in the mark of an entry of `additional_networks`, which differs from that of every other profile. */
function markOf(key: string): string {
  return key.includes(":") ? `${ADDITIONAL}${key}` : key;
}

/** The key in `additional_networks` of a name in a mark. */
export function additionalKey(name: string): string {
  return name.startsWith(ADDITIONAL) ? name.slice(ADDITIONAL.length) : name;
}

export interface ProfileWanted {
  /** The name in the mark. */
  readonly name: string;
  /** Digest of the wanted content, secrets included; it does not reveal them. */
  readonly digest: string;
  readonly settings: TypedSections;
}

/** Priorities of networks that users choose: above all others, or among them. */
const CHOSEN_PRIORITY = { only: 999, roaming: 100 } as const;
/** NetworkManager's value for its defaults: 100 for cables and 600 for Wi-Fi. */
const DEFAULT_METRIC = -1;

/**
 * The profile of an entry of `additional_networks`; `seen` is its network in range. Wi-Fi without an interface uses the
 * hotspot's device, and connects only when the agent decides to try it. While the network is out of range, the profile
 * stays as it is (`presentDigest`). An entry with a password is never joined without it.
 */
export function additionalProfile(
  key: string,
  network: AdditionalNetwork,
  wifiDevice: string,
  { seen, presentDigest }: { readonly seen?: SeenSecurity; readonly presentDigest?: string } = {},
): ProfileWanted {
  const usual = entryProfile(key, network, wifiDevice);
  if (network.type !== "wifi") return usual;
  const hasPassword = (network.psk?.reveal() ?? "") !== "";
  const newer = entryProfile(key, network, wifiDevice, { security: hasPassword ? "WPA3" : "OWE" });
  const needs = seen && (hasPassword ? needsWpa3(seen.security) : isOnlyOwe(seen.security));
  return needs ?? newer.digest === presentDigest ? newer : usual;
}

/** Whether a network has WPA3 and nothing older; `undefined` if it has both, so that either profile fits. */
function needsWpa3(security: string): boolean | undefined {
  if (!security.includes("WPA3")) return false;
  return /WPA[12]/.test(security) ? undefined : true;
}

function entryProfile(
  key: string,
  network: AdditionalNetwork,
  wifiDevice: string,
  seen?: SeenSecurity,
): ProfileWanted {
  const name = markOf(key);
  const { type, ssid, psk, priority } = network;
  const isWifi = type === "wifi";
  const device = network.interface || (isWifi ? wifiDevice : "");
  const id = `${isWifi ? ssid : "wired"}@${device || "any"}`;
  return wanted(name, {
    connection: connectionOf(id, name, isWifi ? WIRELESS : WIRED, device, !isWifi, priority),
    ...isWifi ? wifiSections(ssid, psk, "infrastructure", seen) : {},
    ipv4: ipv4Of(network),
  });
}

/**
 * The profile of a network that a user chose. `seen` is the network in range; one that is out of range or hidden is
 * requested by its name. `tried`: it connects only when the agent tries it.
 */
export function chosenProfile(
  { ssid, psk }: { readonly ssid: string; readonly psk: Secret },
  device: string,
  roaming: boolean,
  seen: SeenSecurity | undefined,
  { tried = false }: { readonly tried?: boolean } = {},
): ProfileWanted {
  const name = `${tried ? TRIED : CHOSEN}${ssid}`;
  const priority = roaming ? CHOSEN_PRIORITY.roaming : CHOSEN_PRIORITY.only;
  return wanted(name, {
    connection: connectionOf(`${ssid}@${device}`, name, WIRELESS, device, !tried, priority),
    ...wifiSections(ssid, psk, "infrastructure", seen ?? "hidden"),
    ipv4: { method: "auto" },
  });
}

/** The profile of a phone that shares its connection by Bluetooth, by its address `AA:BB:CC:DD:EE:FF`. */
export function tetherProfile(address: string): ProfileWanted {
  const name = `${TETHER}${address}`;
  const bytes = Buffer.from(address.replaceAll(":", ""), "hex");
  return wanted(name, {
    connection: connectionOf(`phone@${address}`, name, BLUETOOTH, "", true, 0),
    [BLUETOOTH]: { type: "panu", bdaddr: bytes },
    ipv4: { method: "auto" },
  });
}

/** The profile of the device's own hotspot: WPA2, and addresses after its own for clients. */
export function hotspotProfile(ssid: string, psk: Secret, device: string, address: string): ProfileWanted {
  const name = `${HOTSPOT}${ssid}`;
  return wanted(name, {
    connection: connectionOf(`${ssid}@${device}`, name, WIRELESS, device, false, 0),
    ...wifiSections(ssid, psk, "ap"),
    ipv4: {
      method: "shared",
      "address-data": [{ address, prefix: HOTSPOT_PREFIX }],
      "never-default": true,
    },
    ipv6: { method: "disabled" },
  });
}

/**
 * Settings with the types that NetworkManager requires. Keeps only the keys of the agent's own profiles, and so drops
 * the older spellings that NetworkManager returns beside the newer ones.
 */
export function typedSettings(settings: { readonly [section: string]: unknown }): TypedSections {
  const sections = Object.entries(TYPES).flatMap(([name, types]) => {
    const section = settings[name];
    if (typeof section !== "object" || section === null) return [];
    const values = Object.entries(types).flatMap(([key, type]) => {
      const value = (section as Section)[key];
      return value === undefined ? [] : [[key, typed(type, key === ADDRESSES ? addressesOf(value) : value)]];
    });
    return [[name, Object.fromEntries(values)] as const];
  });
  return Object.fromEntries(sections);
}

const WIRELESS = "802-11-wireless";
const WIRED = "802-3-ethernet";
const BLUETOOTH = "bluetooth";
const ADDRESSES = "address-data";

/** The D-Bus types of the keys in the agent's profiles. */
const TYPES: { readonly [section: string]: { readonly [key: string]: string } } = {
  connection: {
    ...{ id: "s", uuid: "s", type: "s", autoconnect: "b", "autoconnect-priority": "i" },
    "interface-name": "s",
  },
  [WIRELESS]: { mode: "s", ssid: "ay", hidden: "b" },
  [`${WIRELESS}-security`]: { "key-mgmt": "s", psk: "s", proto: "as", pairwise: "as" },
  [BLUETOOTH]: { type: "s", bdaddr: "ay" },
  ipv4: {
    ...{ method: "s", [ADDRESSES]: "aa{sv}", gateway: "s", "route-metric": "x", dns: "au" },
    "never-default": "b",
  },
  ipv6: { method: "s" },
  user: { data: "a{ss}" },
};

type Section = { readonly [key: string]: unknown };
type Sections = { readonly [section: string]: Section };

function connectionOf(
  id: string,
  name: string,
  type: string,
  device: string,
  autoconnect: boolean,
  priority: number,
): Section {
  return {
    ...{ id, uuid: uuidOf(name), type, autoconnect, "autoconnect-priority": priority },
    ...device === "" ? {} : { "interface-name": device },
  };
}

function wifiSections(
  ssid: string,
  psk: Secret | undefined,
  mode: "ap" | "infrastructure",
  seen?: SeenSecurity | "hidden",
): Sections {
  const wireless = { mode, ssid: Buffer.from(ssid), ...seen === "hidden" ? { hidden: true } : {} };
  // A password that a user typed in is of no use here.
  if (typeof seen === "object" && isOnlyOwe(seen.security)) {
    return { [WIRELESS]: wireless, [`${WIRELESS}-security`]: { "key-mgmt": "owe" } };
  }
  const key = psk?.reveal() ?? "";
  return {
    [WIRELESS]: wireless,
    ...key === "" ? {} : {
      [`${WIRELESS}-security`]: {
        // NetworkManager joins no network by `wpa-psk` that has WPA3 alone.
        "key-mgmt": typeof seen === "object" && needsWpa3(seen.security) ? "sae" : "wpa-psk",
        psk: key,
        // Phones without WPA3 can join, too.
        ...mode === "ap" ? { proto: ["rsn"], pairwise: ["ccmp"] } : {},
      },
    },
  };
}

function ipv4Of({ ipv4Address, ipv4Gateway, ipv4Dns, ipv4RouteMetric }: AdditionalNetwork): Section {
  const metric = { "route-metric": BigInt(ipv4RouteMetric || DEFAULT_METRIC) };
  // `dns-data` accepts texts, from NetworkManager 1.42 on.
  const dns = ipv4Dns.length === 0 ? {} : { dns: ipv4Dns.map(networkOrder) };
  if (ipv4Address === "auto") return { method: "auto", ...metric, ...dns };
  const [address, prefix] = ipv4Address.split("/");
  return {
    method: "manual",
    [ADDRESSES]: [{ address, prefix: Number(prefix) }],
    ...ipv4Gateway === "" ? {} : { gateway: ipv4Gateway },
    ...metric,
    ...dns,
  };
}

/** An address as the number of its bytes in memory, least significant byte first. */
function networkOrder(address: string): number {
  return Buffer.from(address.split(".").map(Number)).readUInt32LE();
}

function addressesOf(value: unknown) {
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  return list.map((one) => {
    const { address, prefix } = (one ?? {}) as Section;
    return { address: typed("s", String(address)), prefix: typed("u", Number(prefix)) };
  });
}

function wanted(name: string, sections: Sections): ProfileWanted {
  const settings = typedSettings(sections);
  const text = JSON.stringify(settings, (_, value) => typeof value === "bigint" ? String(value) : value);
  const digest = createHash("sha256").update(text).digest("hex");
  const data = { [PROFILE_MARK.name]: name, [PROFILE_MARK.digest]: digest };
  return { name, digest, settings: { ...settings, ...typedSettings({ user: { data } }) } };
}

/** A UUID that depends on the name alone, so that the agent finds the profile again. */
function uuidOf(name: string): string {
  const bytes = createHash("sha256").update(`svc-agent network ${name}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
