/**
 * The agent's settings: a field for each published key, with its type, default and range.
 *
 * The published names contain the vendor's name. The fields also accept the neutral spelling of such a key, and the
 * keys of the old provisioning file. Rules that concern several keys are in `settings.ts`.
 */

import {
  bool,
  choice,
  ConfigField,
  type DecodeContext,
  type Infer,
  integer,
  list,
  mapOf,
  number,
  object,
  parseDurationMs,
  show,
  text,
} from "../../base/schema/schema.ts";
import { Secret, secret } from "../../base/secret.ts";

/** Variables that the agent itself sets for the runtime: its identity, its trusted keys and its address. */
const AGENTS_OWN = /^(SVC_(AGENT_|RELEASE_KEYS$|SERVING_FILE$)|VIAM_AGENT_)/i;
const MINUTE_MS = 60_000;
/** Limit of a Wi-Fi network's name (IEEE 802.11). */
export const SSID_BYTES_MAX = 32;
const INTERFACE_LENGTH_MAX = 15;
/** Ten years. A longer time is a typing error, and too long for timers. */
const MINUTES_MAX = 10 * 366 * 24 * 60;

/** A time in minutes, fractions allowed, or in Go's syntax (`1h20m30s`); decoded to milliseconds. */
function minutes(doc: string, { min = 0 } = {}): ConfigField<number | undefined> {
  const wanted = `minutes${min ? ` (at least ${min})` : ""}, or a duration such as "1m30s"`;
  return new ConfigField<number | undefined>({
    doc,
    json: { anyOf: [{ type: "number", minimum: min }, { type: "string" }] },
    wanted,
    read: (value, at) => {
      let ms: number | undefined;
      if (typeof value === "number") ms = value * MINUTE_MS;
      else if (typeof value === "string") ms = parseDurationMs(value);
      if (ms === undefined || ms < min * MINUTE_MS || !(ms <= MINUTES_MAX * MINUTE_MS)) {
        return at.wanted(wanted, value);
      }
      return Math.round(ms);
    },
    written: (ms: number) => ms / MINUTE_MS,
  });
}

/** Cuts a text to `bytesMax` bytes, with a warning. */
function cutTo(bytesMax: number, value: string, at: DecodeContext): string {
  const bytes = new TextEncoder().encode(value);
  if (bytes.length <= bytesMax) return value;
  at.warn(`found ${bytes.length} bytes, wanted at most ${bytesMax}; the rest is cut off`);
  let end = bytesMax;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return new TextDecoder().decode(bytes.subarray(0, end));
}

const START_TIMEOUT_MINUTES_MIN = 1;

const advancedShape = {
  debug: bool("debug level for the agent's own log"),
  waitForUpdateCheck: bool("wait for a network and an update check before the runtime starts"),
  disableRuntime: bool("do not run the runtime").key("disable_viam_server").aka("disable_svc_server"),
  disableNetworkConfiguration: bool("leave networks, hotspot and additional networks alone"),
  disableSystemConfiguration: bool("leave the system's settings alone"),
  disableLogDeduplication: bool("write every repeated line"),
  runtimeStartTimeoutMs: minutes(
    "time after which a runtime that has not started is killed and started again",
  )
    .default(10 * MINUTE_MS)
    .with((ms, at) => {
      if (ms >= START_TIMEOUT_MINUTES_MIN * MINUTE_MS) return ms;
      at.warn(
        `found ${
          ms / MINUTE_MS
        } minutes, wanted at least ${START_TIMEOUT_MINUTES_MIN}, which applies instead`,
      );
      return START_TIMEOUT_MINUTES_MIN * MINUTE_MS;
    })
    .key("viam_server_start_timeout_minutes").aka("svc_server_start_timeout_minutes"),
  runtimeEnv: mapOf(text(), "environment of the runtime and everything it starts")
    .with((env, at) => {
      for (const [name, value] of Object.entries(env)) {
        if (name === "" || /[=\0]/.test(name) || value.includes("\0")) {
          const wanted = 'a name without "=", and neither name nor value with a zero byte';
          at.at(name).error(
            `found the name ${show(name)} with a value of ${value.length} characters, wanted ${wanted}`,
          );
        }
        if (AGENTS_OWN.test(name)) at.at(name).warn("the agent itself sets this variable; it is ignored");
      }
      return Object.fromEntries(Object.entries(env).filter(([name]) => !AGENTS_OWN.test(name)));
    })
    .default({})
    .key("viam_server_env").aka("svc_server_env"),
};

const networkShape = {
  manufacturer: text("shown on the provisioning page").default("svc"),
  model: text("shown on the provisioning page").default("custom"),
  fragmentId: text("fragment for machines that the provisioning app sets up").default(""),
  hotspotInterface: text("managed Wi-Fi device; empty: the first one").default("")
    .with(interfaceName),
  hotspotPrefix: text("beginning of the hotspot's name; the host name follows").default("svc-setup"),
  hotspotPassword: secret("Wi-Fi password of the hotspot").with(passphrase).default(new Secret("svcsetup")),
  hotspotSsid: text("whole name of the hotspot; empty: prefix and host name").default("")
    .with((ssid, at) => cutTo(SSID_BYTES_MAX, ssid, at)),
  disableCaptivePortalRedirect: bool("only names ending in .setup lead to the device").aka(
    "disable_dns_redirect",
  ),
  turnOnHotspotIfWifiHasNoInternet: bool("try every network, and count as online only with internet").aka(
    "roaming_mode",
  ),
  wifiPowerSave: bool("power saving of all managed Wi-Fi devices; unset: as the system has it"),
  offlineBeforeStartingHotspotMs: minutes("time offline after which the hotspot starts", { min: 1 })
    .default(2 * MINUTE_MS).key("offline_before_starting_hotspot_minutes").aka("offline_timeout"),
  userIdleMs: minutes("idle time after which a user counts as gone", { min: 1 })
    .default(5 * MINUTE_MS).key("user_idle_minutes").aka("user_timeout"),
  retryConnectionTimeoutMs: minutes(
    "time after which the hotspot stops so that the agent tries networks again",
    { min: 1 },
  )
    .default(10 * MINUTE_MS).key("retry_connection_timeout_minutes").aka("fallback_timeout"),
  deviceRebootAfterOfflineMs: minutes("time offline after which the device reboots; 0: never")
    .default(0)
    .with((ms, at) => ms === 0 || ms >= MINUTE_MS ? ms : at.wanted("0 or at least 1 minute", ms / MINUTE_MS))
    .key("device_reboot_after_offline_minutes"),
  disableBtProvisioning: bool("no provisioning by bluetooth"),
  disableWifiProvisioning: bool("no provisioning by hotspot"),
  bluetoothTrustAll: bool("pair with every bluetooth device that asks"),
};

const AUTOMATIC = "auto";

/** One entry of `additional_networks`, valid or rejected as a whole. */
export const additionalNetworkField = object({
  type: choice("kind of network", ["wifi", "wired"]).required(),
  interface: text().default("").with(interfaceName),
  ssid: text("name of a Wi-Fi network").default("").with((ssid, at) => {
    const { length } = new TextEncoder().encode(ssid);
    return length <= SSID_BYTES_MAX ? ssid : at.wanted(`at most ${SSID_BYTES_MAX} bytes`, ssid);
  }),
  psk: secret("passkey of a Wi-Fi network; empty: an open one").with(passphrase),
  priority: integer("the highest is tried first", { min: -999, max: 999 }).default(0),
  ipv4Address: text('address and prefix length, such as "192.168.1.5/24", or "auto"').default(AUTOMATIC)
    .with((address, at) => {
      if (address === "" || address.toLowerCase() === AUTOMATIC) return AUTOMATIC;
      const [ip = "", bits = "", ...more] = address.split("/");
      const fits = more.length === 0 && isIpv4(ip) && /^\d{1,2}$/.test(bits) && Number(bits) <= 32;
      return fits ? address : at.wanted('"auto" or an address such as "192.168.1.5/24"', address);
    }),
  ipv4Gateway: text().default("").with((ip, at) => ip === "" || isIpv4(ip) ? ip : at.wanted(IPV4, ip)),
  ipv4Dns: list(text().with((ip, at) => isIpv4(ip) ? ip : at.wanted(IPV4, ip))).default([]),
  ipv4RouteMetric: integer("the lowest is preferred; 0: 100 wired, 600 wifi", { min: 0, max: 2 ** 32 - 1 })
    .default(0),
}).with((network, at) => {
  if (network.type === "wifi" && network.ssid === "") {
    return at.at("ssid").wanted("the name of the Wi-Fi network", "");
  }
  if (network.type === "wired" && network.ssid !== "") at.at("ssid").warn(needs('"type": "wifi"'));
  if (network.type === "wired" && network.psk) at.at("psk").warn(needs('"type": "wifi"'));
  const isAutomatic = network.ipv4Address === AUTOMATIC;
  if (isAutomatic && network.ipv4Gateway !== "") at.at("ipv4_gateway").warn(needs("an ipv4_address"));
  return network;
});

function needs(what: string): string {
  return `has no effect without ${what}`;
}

const systemShape = {
  journaldSystemMaxUseMb: journalLimit("disk space for persistent logs in MB; -1: leave it alone")
    .key("logging_journald_system_max_use_megabytes"),
  journaldRuntimeMaxUseMb: journalLimit("space for volatile logs in MB; -1: leave it alone")
    .key("logging_journald_runtime_max_use_megabytes"),
  journaldStorage: choice("where the journal is kept; unset: as the system has it", [
    "persistent",
    "volatile",
    "auto",
    "none",
  ]).key("logging_journald_storage"),
  forwardSystemLogs: text('identifiers to forward, separated by commas; "all", and "-x" for all but x')
    .default(
      "",
    ),
  osAutoUpgradeType: upgradeRow(),
  osManagedUpgradeIntervalHours: number("time between two managed upgrades", { min: 1, max: 24 * 366 })
    .default(
      24,
    ),
};

/** The sections with known keys; the user chooses the keys of `additional_networks`. */
export const SECTIONS = {
  advanced_settings: { shape: advancedShape, field: object(advancedShape) },
  network_configuration: { shape: networkShape, field: object(networkShape) },
  system_configuration: { shape: systemShape, field: object(systemShape) },
};

export const NETWORKS = "additional_networks";

export type AdvancedSettings = NonNullable<Infer<typeof SECTIONS.advanced_settings.field>>;
export type NetworkSettings = NonNullable<Infer<typeof SECTIONS.network_configuration.field>>;
export type SystemSettings = NonNullable<Infer<typeof SECTIONS.system_configuration.field>>;
export type AdditionalNetwork = NonNullable<Infer<typeof additionalNetworkField>>;

function upgradeRow() {
  const words = ["all", "security", "disable", "disabled", "managed-all", "managed-security", ""] as const;
  return choice("how the system is upgraded; empty: left alone", words).default("")
    .with((word) => word === "disabled" ? "disable" : word);
}

function journalLimit(doc: string) {
  return integer(doc, { max: 2 ** 31 }).default(512).with((mb) => mb < 0 ? -1 : mb || 512);
}

const IPV4 = 'an IPv4 address such as "192.168.1.1"';

function isIpv4(text: string): boolean {
  const parts = text.split(".");
  return parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255);
}

function interfaceName(name: string, at: DecodeContext): string | undefined {
  const fits = name.length <= INTERFACE_LENGTH_MAX && !/[\s/]/.test(name);
  return fits
    ? name
    : at.wanted(`a device such as "wlan0", at most ${INTERFACE_LENGTH_MAX} characters`, name);
}

/** Checks a passphrase; the error does not show it. */
function passphrase(key: Secret, at: DecodeContext): Secret | undefined {
  const text = key.reveal();
  return isPassphrase(text)
    ? key
    : at.error(`found ${text.length} characters, wanted 8 to 63, or 64 hexadecimal digits`);
}

/** The keys that WPA accepts: 8 to 63 bytes of text, or the key itself as 64 hexadecimal digits. */
export function isPassphrase(text: string): boolean {
  const { length } = new TextEncoder().encode(text);
  // deno-lint-ignore no-control-regex
  return (length >= 8 && length <= 63 && !/[\x00-\x1f\x7f]/.test(text)) || /^[0-9a-fA-F]{64}$/.test(text);
}
