/**
 * The specification of svc-agent: its settings, its options and its behaviour.
 */

import { holds, option, type Section, setting } from "./row.ts";

const SETTINGS = "lib/agent/settings/settings_test.ts: ";
const PUBLISHED = SETTINGS + "every row of the published tables has its name, its type and its default";
const RANGES = SETTINGS + "ranges: what is out of them is told with its path, and what to write";
const RUNTIME = "lib/agent/supervise/runtime_test.ts: ";
const AGENT = "lib/agent/agent_test.ts: ";
const SYSTEM = "lib/agent/system/system_test.ts: ";
const PROGRAM = "cli/program_test.ts: svc-agent has the published options";
const NETWORKS = "lib/agent/network/networking_test.ts: ";
/** A transcript a scenario, in tests/golden/provisioning. */
const SCENARIOS = "tests/golden/provisioning_test.ts: provisioning: ${name}";
const JOINS = NETWORKS + "an unconfigured device opens its hotspot, takes what a person hands in, and joins";
const ONLY_FIRST = NETWORKS +
  "only the first network is joined, also by the service itself; with the setting every network is";
const PROFILES = NETWORKS + "additional networks are written, changed and removed; profiles of others stay";
const REAL =
  "tests/agent/real_network_test.ts: NetworkManager keeps, uses, takes back and removes the agent's profiles";
const PORTAL =
  "lib/agent/portal/portal_test.ts: portal: every address shows the page, and nothing of a network's name is more than text";

const MINUTES = "beyond: fractions, and texts such as `1m30s`";

const minutes = { note: MINUTES, differsIn: ["type"] as const };

export const AGENT_SECTIONS: readonly Section[] = [
  {
    title: "What the agent does",
    rows: [
      holds(
        "It installs, runs and monitors svc-server, and updates both; versions can be chosen.",
        [
          "tests/agent/agent_e2e_test.ts: versions are installed, updated, refused and gone back from",
          AGENT + "it runs what there is, reports it, and aims at what the cloud wants",
        ],
        "beyond: signatures, trials with a way back, and no sequence of power cuts that leaves nothing to run",
      ),
      holds(
        "On Linux it is a system service named `svc-agent`.",
        "lib/agent/system/service_unit_test.ts: a new service is written and enabled; the same again changes nothing",
      ),
      holds(
        "On Windows its installer makes it a service.",
        "lib/agent/system/windows/windows_test.ts: a new service is made, with what Windows does when it fails, and its rule",
      ),
      holds(
        "Linux on amd64 and arm64, and native Windows.",
        "lib/agent/update/release_test.ts: a program is one for this system and this processor",
      ),
      holds("Device provisioning and network management.", [JOINS, PROFILES, REAL]),
      holds(
        "Its logs go to the cloud while the machine is online, wait while it is not, and are sent then.",
        "lib/base/log/queue_test.ts: entries arrive in order, in batches, and leave nothing but a small journal",
      ),
    ],
  },
  {
    title: "Versions (`version_control`)",
    rows: [
      holds(
        "`agent`: a version or `stable`, which is the default.",
        PUBLISHED,
        "beyond: `dev`, and `http(s)` and `file` URLs, as for svc-server",
      ),
      holds(
        "`svc-server`: a version, `stable` (the default), `dev`, an `http` URL or a `file` URL.",
        [
          "lib/agent/update/release_test.ts: a release is known by version and sum; a custom URL by itself",
          "lib/agent/update/release_test.ts: what cannot be a release is refused",
          "lib/agent/update/download_test.ts: a file is copied; what changes of a custom URL is told by its time",
        ],
      ),
      holds(
        "`stable` follows each stable release.",
        "lib/agent/update/updater_test.ts: an update from its wish to its proof, in another process at every step",
        "when it is started: see below",
      ),
    ],
  },
  {
    title: "Advanced settings (`advanced_settings`)",
    subject: { kind: "agent", section: "advanced_settings" },
    rows: [
      setting("debug", { type: "boolean", default: false }, "debug level of the agent's own log", PUBLISHED),
      setting(
        "disable_network_configuration",
        { type: "boolean", default: false },
        "networks and hotspot are left alone",
        [PUBLISHED, NETWORKS + "where networks are not to be configured nothing is done to them"],
      ),
      setting(
        "disable_system_configuration",
        { type: "boolean", default: false },
        "the system's settings are left alone",
        SYSTEM + "the journal is limited once, and set free again",
      ),
      setting(
        "disable_viam_server",
        { type: "boolean", default: false },
        "the runtime does not run",
        RUNTIME + "disabled it does not run; another environment makes it stale",
        { note: "beyond: the neutral spelling `disable_svc_server` too" },
      ),
      setting(
        "viam_server_env",
        { type: "object" },
        "environment of the runtime and all that it starts, `{}` by default",
        [
          RUNTIME + "it is started, gets ready, and is stopped with the agent",
          RUNTIME + "disabled it does not run; another environment makes it stale",
        ],
        { note: "beyond: `svc_server_env` too" },
      ),
      setting(
        "viam_server_start_timeout_minutes",
        { type: "integer" },
        "a runtime that has not started by then is killed and started again; 10 by default",
        [RUNTIME + "what does not get ready in its time is killed and started again", PUBLISHED],
        { note: `${MINUTES}; at least 1 minute`, differsIn: ["type"] },
      ),
      setting(
        "wait_for_update_check",
        { type: "boolean", default: false },
        "the runtime is started after a network and an update check",
        AGENT + "with --wait nothing starts before the cloud has answered, or a minute has passed",
        { note: "differs: for a minute at most, so that a device without a network works" },
      ),
      holds(
        "The runtime has the agent's own environment too.",
        "lib/base/process_test.ts: a process has our own environment, and what is added to it",
      ),
    ],
  },
  {
    title: "Network (`network_configuration`)",
    subject: { kind: "agent", section: "network_configuration" },
    rows: [
      setting(
        "device_reboot_after_offline_minutes",
        { type: "integer", default: 0 },
        "a device that is offline for that long is rebooted; 0: never",
        [
          AGENT + "a device that is offline for long is rebooted, and less and less often",
          "lib/agent/supervise/offline_test.ts: a reboot is due after the configured time, and never where there is none",
          SETTINGS +
          "a short wait for the reboot of an offline device is taken, and warned of where no hotspot would start",
        ],
        { note: `${MINUTES}; reboots that do not help become rarer`, differsIn: ["type"] },
      ),
      setting(
        "disable_captive_portal_redirect",
        { type: "boolean", default: false },
        "only names in `.setup` lead to the device",
        [PUBLISHED, NETWORKS + "the hotspot is called as the settings say, in 32 bytes"],
      ),
      setting("fragment_id", { type: "string" }, "the fragment that new machines get", [
        PUBLISHED,
        "lib/agent/portal/portal_test.ts: provisioning service: the published calls keep and hand in",
      ]),
      setting(
        "hotspot_interface",
        { type: "string" },
        "the first Wi-Fi device unless named",
        [PUBLISHED, JOINS],
      ),
      setting("hotspot_password", { type: "string" }, "the hotspot's password", [PUBLISHED, JOINS]),
      setting(
        "hotspot_prefix",
        { type: "string", default: "svc-setup" },
        "what the hotspot's name begins with",
        [PUBLISHED, NETWORKS + "the hotspot is called as the settings say, in 32 bytes"],
      ),
      setting("manufacturer", { type: "string", default: "svc" }, "shown to who sets up", [
        PUBLISHED,
        PORTAL,
      ]),
      setting("model", { type: "string", default: "custom" }, "shown to who sets up", [PUBLISHED, PORTAL]),
      setting(
        "offline_before_starting_hotspot_minutes",
        { type: "integer", default: 2 },
        "offline for longer, the hotspot starts",
        [PUBLISHED, SCENARIOS],
        minutes,
      ),
      setting(
        "retry_connection_timeout_minutes",
        { type: "integer", default: 10 },
        "then the hotspot ends, to try networks again",
        [PUBLISHED, SCENARIOS],
        minutes,
      ),
      setting(
        "turn_on_hotspot_if_wifi_has_no_internet",
        { type: "boolean", default: false },
        "unset, only the chosen network with the highest priority is tried, and Wi-Fi alone means online; set, all networks are tried, and online means the internet",
        [
          PUBLISHED,
          SCENARIOS,
          ONLY_FIRST,
          NETWORKS + "without a chosen network the one with the highest priority is the only one",
        ],
      ),
      setting(
        "user_idle_minutes",
        { type: "integer", default: 5 },
        "then a user of the portal counts as gone",
        [PUBLISHED, SCENARIOS],
        minutes,
      ),
      setting(
        "wifi_power_save",
        { type: "boolean" },
        "power saving of managed Wi-Fi; unset: as the system has it",
        [
          PUBLISHED,
          NETWORKS + "power saving is written as it is set, and left to the system where it is not",
        ],
      ),
    ],
  },
  {
    title: "Further networks (`additional_networks.<name>`)",
    subject: { kind: "agent", section: "additional_networks" },
    rows: [
      setting(
        "type",
        { type: "string", words: ["wifi", "wired"], required: true },
        "the kind",
        [RANGES, REAL],
      ),
      setting("interface", { type: "string", default: "" }, "the device", [RANGES, REAL]),
      setting("ssid", { type: "string", default: "" }, "the Wi-Fi's name", [RANGES, REAL]),
      setting("psk", { type: "string" }, "the passkey", [SETTINGS + "no secret is ever printed", JOINS]),
      setting(
        "priority",
        { type: "integer", default: 0, minimum: -999, maximum: 999 },
        "the highest is tried first",
        [RANGES, REAL, ONLY_FIRST],
      ),
      setting("ipv4_address", { type: "string", default: "auto" }, "address with prefix", [RANGES, REAL]),
      setting("ipv4_gateway", { type: "string", default: "" }, "the gateway", [RANGES, REAL]),
      setting("ipv4_dns", { type: "array" }, "servers of names", [RANGES, REAL]),
      setting(
        "ipv4_route_metric",
        { type: "integer", default: 0 },
        "the lowest is preferred; 0: 100 wired, 600 wireless",
        [RANGES, REAL],
      ),
    ],
  },
  {
    title: "System (`system_configuration`)",
    subject: { kind: "agent", section: "system_configuration" },
    rows: [
      setting(
        "forward_system_logs",
        { type: "string", default: "" },
        "identifiers whose journal lines go to the cloud; `-x` leaves x out, `all` is everything",
        "lib/agent/supervise/log_forwarding_test.ts: filters: names, exclusions, all, blanks, repeats, the agent itself",
      ),
      setting(
        "logging_journald_runtime_max_use_megabytes",
        { type: "integer", default: 512 },
        "space for passing logs in MB; -1: no limit is set",
        SYSTEM + "the journal is limited once, and set free again",
      ),
      setting(
        "logging_journald_system_max_use_megabytes",
        { type: "integer", default: 512 },
        "space for kept logs in MB; -1: no limit is set",
        SYSTEM + "the journal is limited once, and set free again",
      ),
      setting(
        "os_auto_upgrade_type",
        { type: "string", default: "" },
        "`all`, `security`, `disable`, or empty: left alone",
        [
          SYSTEM + "automatic upgrades are turned on and off, and left alone where nothing is said",
          SYSTEM + "repositories are those that are there, always in the same order",
          SYSTEM +
          "custom repositories are among them, and Ubuntu's security, whose codename is the release's",
          SYSTEM + "systems like Fedora are upgraded by dnf-automatic, of whichever dnf",
        ],
        {
          note: "beyond: `managed-all` and `managed-security`, by the agent itself; dnf systems",
        },
      ),
    ],
  },
  {
    title: "Options of svc-agent",
    subject: { kind: "options", program: "svc-agent" },
    rows: [
      option("--config", "the machine's credentials, `/etc/svc.json` by default; `-c`", PROGRAM),
      option("--defaults", "the manufacturer's defaults, `/etc/svc-defaults.json` by default", PROGRAM),
      option("--debug", "debug level of the agent only; `-d`, `SVC_AGENT_DEBUG`", PROGRAM),
      option("--wait", "versions first; `-w`, `SVC_AGENT_WAIT_FOR_UPDATE`", PROGRAM),
      option("--help", "the help; `-h`", PROGRAM),
      option("--install", "becomes a system service", PROGRAM),
      option("--dev-mode", "not as root and not as a service; `SVC_AGENT_DEVMODE`", PROGRAM),
      option(
        "--fast-start",
        "`SVC_AGENT_FAST_START=1` starts without waiting for anything",
        [PROGRAM, "cli/program_test.ts: svc-agent reports a bad value in its environment"],
        "beyond: an option, too",
      ),
    ],
  },
  {
    title: "When the runtime is started again",
    rows: [
      holds(
        "`viam_server_env` changed: at once, when maintenance is allowed and no configuration is being applied.",
        AGENT + "a changed environment waits for the maintenance window",
      ),
      holds(
        "Not started in its time: killed and started again.",
        RUNTIME + "what does not get ready in its time is killed and started again",
      ),
      holds(
        "A new version is downloaded by itself, and started when the agent starts next.",
        [
          AGENT +
          "a runtime that works is stopped for a release in a maintenance window only; a start has its turn",
          AGENT + "the runtime is restarted for another version, and judged by how it does",
        ],
        "beyond: a version that an operator names is taken as soon as svc-server allows a restart",
      ),
      holds(
        "With a maintenance window: when maintenance is allowed and no configuration is being applied.",
        AGENT +
          "a runtime that works is stopped for a release in a maintenance window only; a start has its turn",
      ),
      holds(
        "Hotspot and normal: when each begins and ends, and that an active user is not interrupted.",
        SCENARIOS,
      ),
      holds(
        "Networks are tried from the highest priority to the lowest.",
        SCENARIOS,
      ),
      holds(
        "Offline for longer than `device_reboot_after_offline_minutes`: the device is rebooted.",
        AGENT + "a device that is offline for long is rebooted, and less and less often",
      ),
    ],
  },
];
