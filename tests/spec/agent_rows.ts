/**
 * The specification of svc-agent: its settings, its options and its behaviour.
 */

import { holds, option, type Section, setting } from "./row.ts";

const SETTINGS = "lib/agent/settings/settings_test.ts: ";
const PUBLISHED = SETTINGS + "decideSettings: every published setting has its name, type and default";
const RANGES = SETTINGS + "ranges: the error for a value out of range has its path and the allowed values";
const RUNTIME = "lib/agent/supervise/runtime_test.ts: ";
const AGENT = "lib/agent/agent_test.ts: ";
const SYSTEM = "lib/agent/system/system_test.ts: ";
const PROGRAM = "cli/program_test.ts: svc-agent --help lists the published options";
const NETWORKS = "lib/agent/network/networking_test.ts: ";
/** One transcript per scenario, in tests/golden/provisioning. */
const SCENARIOS = "tests/golden/provisioning_test.ts: provisioning: ${name}";
const JOINS = NETWORKS +
  "an unconfigured device opens its hotspot, takes a person's input, and joins the network";
const ONLY_FIRST = NETWORKS +
  "NetworkManager may join only the first network, with the setting every network";
const PROFILES = NETWORKS +
  "Networking: writes, changes and removes additional networks, and keeps other profiles";
const REAL =
  "tests/agent/real_network_test.ts: svc-agent adds, uses, restores and removes its profiles in a real NetworkManager";
const PORTAL =
  "lib/agent/portal/portal_test.ts: portal: every path shows the page, and a network's name is only text in it";

const MINUTES = "beyond: fractions, and durations such as `1m30s`";

const minutes = { note: MINUTES, differsIn: ["type"] as const };

export const AGENT_SECTIONS: readonly Section[] = [
  {
    title: "What the agent does",
    rows: [
      holds(
        "The agent installs, runs and monitors svc-server, updates both programs, and lets you choose their versions.",
        [
          "tests/agent/agent_e2e_test.ts: the agent installs, updates, refuses and rolls back versions",
          AGENT + "runs the installed version, reports it, and prepares the version that the cloud wants",
        ],
        "beyond: signatures, probation with rollback, and working programs after any sequence of power cuts",
      ),
      holds(
        "On Linux the agent installs itself as a system service named `svc-agent`.",
        "lib/agent/system/service_unit_test.ts: installService: writes and enables a new unit, and a second run changes nothing",
      ),
      holds(
        "On Windows its installer installs it as a service.",
        "lib/agent/system/windows/windows_test.ts: creates the service with its failure actions and its firewall rule",
      ),
      holds(
        "The agent runs on Linux (amd64 and arm64) and native Windows.",
        "lib/agent/update/release_test.ts: a program must fit this system and this processor",
      ),
      holds("The agent provisions devices and manages their networks.", [JOINS, PROFILES, REAL]),
      holds(
        "The agent sends its logs to the cloud while the machine is online, and queues them while it is offline.",
        "lib/base/log/queue_test.ts: LogQueue: sends entries in order and in batches, and leaves a single journal file",
      ),
    ],
  },
  {
    title: "Versions (`version_control`)",
    rows: [
      holds(
        "`agent`: a version or `stable` (the default).",
        PUBLISHED,
        "beyond: `dev`, and `http(s)` and `file` URLs, as for svc-server",
      ),
      holds(
        "`svc-server`: a version, `stable` (the default), `dev`, an `http` URL or a `file` URL.",
        [
          "lib/agent/update/release_test.ts: identifies a release by version and checksum, a custom release by its URL",
          "lib/agent/update/release_test.ts: refuses an impossible release",
          "lib/agent/update/download_test.ts: copies a local file; detects a change at a custom URL by its time",
        ],
      ),
      holds(
        "`stable` follows each stable release.",
        "lib/agent/update/updater_test.ts: an update from the request to the commit, with a new process at every step",
        "see below for the time of the switch",
      ),
    ],
  },
  {
    title: "Advanced settings (`advanced_settings`)",
    subject: { kind: "agent", section: "advanced_settings" },
    rows: [
      setting(
        "debug",
        { type: "boolean", default: false },
        "debug level for the agent's own logs",
        PUBLISHED,
      ),
      setting(
        "disable_network_configuration",
        { type: "boolean", default: false },
        "disables network and hotspot configuration",
        [PUBLISHED, NETWORKS + "changes no network while network configuration is disabled"],
      ),
      setting(
        "disable_system_configuration",
        { type: "boolean", default: false },
        "disables system configuration",
        SYSTEM + "limits the journal once, and removes the limit again",
      ),
      setting(
        "disable_viam_server",
        { type: "boolean", default: false },
        "stops the runtime and does not start it",
        RUNTIME + "a disabled runtime does not run; a changed environment makes it stale",
        { note: "beyond: also the neutral spelling `disable_svc_server`" },
      ),
      setting(
        "viam_server_env",
        { type: "object" },
        "environment variables of the runtime and its child processes; `{}` by default",
        [
          RUNTIME + "a runtime starts, becomes ready, and stops with the agent",
          RUNTIME + "a disabled runtime does not run; a changed environment makes it stale",
        ],
        { note: "beyond: also `svc_server_env`" },
      ),
      setting(
        "viam_server_start_timeout_minutes",
        { type: "integer" },
        "the agent kills and restarts a runtime that has not started after this time; 10 by default",
        [RUNTIME + "kills and restarts a runtime that is not ready in time", PUBLISHED],
        { note: `${MINUTES}; at least 1 minute`, differsIn: ["type"] },
      ),
      setting(
        "wait_for_update_check",
        { type: "boolean", default: false },
        "the agent waits for a network and an update check before it starts the runtime",
        AGENT + "Agent: with --wait starts nothing until the cloud answers or a minute passes",
        { note: "differs: it waits a minute at most, so that a device without a network works" },
      ),
      holds(
        "The runtime also inherits the agent's own environment.",
        "lib/base/process_test.ts: a process gets our own environment and the added variables",
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
        "the agent reboots a device that is offline for this long; 0 means never",
        [
          AGENT + "reboots a device that is offline for long, less and less often",
          "lib/agent/supervise/offline_test.ts: a reboot is due after the configured time, and never without one",
          SETTINGS +
          "accepts a short wait before a reboot, with a warning if no hotspot would start",
        ],
        { note: `${MINUTES}; each reboot that does not help doubles the wait`, differsIn: ["type"] },
      ),
      setting(
        "disable_captive_portal_redirect",
        { type: "boolean", default: false },
        "only domains ending in `.setup` redirect to the device",
        [PUBLISHED, NETWORKS + "the hotspot's name follows the settings and has at most 32 bytes"],
      ),
      setting("fragment_id", { type: "string" }, "the fragment that configures new machines", [
        PUBLISHED,
        "lib/agent/portal/portal_test.ts: provisioning service: the published calls store and submit input",
      ]),
      setting(
        "hotspot_interface",
        { type: "string" },
        "the managed Wi-Fi interface; the first by default",
        [PUBLISHED, JOINS],
      ),
      setting("hotspot_password", { type: "string" }, "Wi-Fi password of the hotspot", [PUBLISHED, JOINS]),
      setting(
        "hotspot_prefix",
        { type: "string", default: "svc-setup" },
        "prefix of the hotspot's name",
        [PUBLISHED, NETWORKS + "the hotspot's name follows the settings and has at most 32 bytes"],
      ),
      setting("manufacturer", { type: "string", default: "svc" }, "shown during setup", [
        PUBLISHED,
        PORTAL,
      ]),
      setting("model", { type: "string", default: "custom" }, "shown during setup", [PUBLISHED, PORTAL]),
      setting(
        "offline_before_starting_hotspot_minutes",
        { type: "integer", default: 2 },
        "the hotspot starts after the device has been offline for longer",
        [PUBLISHED, SCENARIOS],
        minutes,
      ),
      setting(
        "retry_connection_timeout_minutes",
        { type: "integer", default: 10 },
        "the hotspot ends after this time, so that other networks can be tried",
        [PUBLISHED, SCENARIOS],
        minutes,
      ),
      setting(
        "turn_on_hotspot_if_wifi_has_no_internet",
        { type: "boolean", default: false },
        "false: the device tries only the chosen network with the highest priority, and a Wi-Fi connection counts as online; true: it tries all networks, and only internet access counts",
        [
          PUBLISHED,
          SCENARIOS,
          ONLY_FIRST,
          NETWORKS + "without a chosen network, the device tries only the network with the highest priority",
        ],
      ),
      setting(
        "user_idle_minutes",
        { type: "integer", default: 5 },
        "a user of the portal counts as idle after this time",
        [PUBLISHED, SCENARIOS],
        minutes,
      ),
      setting(
        "wifi_power_save",
        { type: "boolean" },
        "power saving of managed Wi-Fi connections; unset, the system's default applies",
        [
          PUBLISHED,
          "lib/agent/network/wifi_profiles_test.ts: writes the setting for power saving, or leaves it to the system",
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
        "kind of network",
        [RANGES, REAL],
      ),
      setting("interface", { type: "string", default: "" }, "interface name", [RANGES, REAL]),
      setting("ssid", { type: "string", default: "" }, "name of the Wi-Fi network", [RANGES, REAL]),
      setting("psk", { type: "string" }, "network passkey", [
        SETTINGS + "decideSettings: settings and problems print no secret",
        JOINS,
      ]),
      setting(
        "priority",
        { type: "integer", default: 0, minimum: -999, maximum: 999 },
        "the device tries the highest first",
        [RANGES, REAL, ONLY_FIRST],
      ),
      setting("ipv4_address", { type: "string", default: "auto" }, "IPv4 address in CIDR format", [
        RANGES,
        REAL,
      ]),
      setting("ipv4_gateway", { type: "string", default: "" }, "IPv4 gateway", [RANGES, REAL]),
      setting("ipv4_dns", { type: "array" }, "IPv4 DNS servers", [RANGES, REAL]),
      setting(
        "ipv4_route_metric",
        { type: "integer", default: 0 },
        "lower is preferred; 0 means 100 for wired and 600 for wireless",
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
        "journal identifiers to forward to the cloud; `-x` excludes x, `all` means everything",
        "lib/agent/supervise/log_forwarding_test.ts: wanted: filters identifiers by names, exclusions and all, and drops the agent's own",
      ),
      setting(
        "logging_journald_runtime_max_use_megabytes",
        { type: "integer", default: 512 },
        "space limit for temporary logs in MB; -1 sets no limit",
        SYSTEM + "limits the journal once, and removes the limit again",
      ),
      setting(
        "logging_journald_system_max_use_megabytes",
        { type: "integer", default: 512 },
        "space limit for persistent logs in MB; -1 sets no limit",
        SYSTEM + "limits the journal once, and removes the limit again",
      ),
      setting(
        "os_auto_upgrade_type",
        { type: "string", default: "" },
        "`all`, `security` or `disable`; empty leaves the system's settings unchanged",
        [
          SYSTEM + "turns automatic upgrades on and off, and leaves them alone by default",
          SYSTEM + "lists the device's repositories in a fixed order",
          SYSTEM +
          "includes custom repositories, and Ubuntu's security archive, whose codename is the release's",
          SYSTEM + "upgrades systems like Fedora with dnf-automatic, for every version of dnf",
        ],
        {
          note:
            "beyond: `managed-all` and `managed-security`, with which the agent itself upgrades; systems with dnf",
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
      option("--wait", "updates versions before the start; `-w`, `SVC_AGENT_WAIT_FOR_UPDATE`", PROGRAM),
      option("--help", "shows the help; `-h`", PROGRAM),
      option("--install", "installs the system service", PROGRAM),
      option("--dev-mode", "runs as non-root and without a service; `SVC_AGENT_DEVMODE`", PROGRAM),
      option(
        "--fast-start",
        "`SVC_AGENT_FAST_START=1` starts without waiting for network or update check",
        [
          PROGRAM,
          "cli/program_test.ts: svc-agent starts with a bad value in its environment, and tells of it",
        ],
        "beyond: an option, too",
      ),
    ],
  },
  {
    title: "Restarts of the runtime, and networks",
    rows: [
      holds(
        "A change of `viam_server_env` restarts the runtime at once in a maintenance window, unless it is applying a configuration.",
        AGENT + "Agent: a changed viam_server_env restarts the runtime only when maintenance allows it",
      ),
      holds(
        "The agent kills and restarts a runtime that has not started in time.",
        RUNTIME + "kills and restarts a runtime that is not ready in time",
      ),
      holds(
        "The agent downloads a new version automatically, and starts it when the agent next restarts.",
        [
          AGENT +
          "a release stops a working runtime only in a maintenance window, or takes its next start",
          AGENT + "restarts the runtime for another version, and judges that version by its health",
        ],
        "beyond: the agent switches to a version that an operator names as soon as svc-server allows a restart",
      ),
      holds(
        "With a maintenance window, the agent upgrades the runtime when maintenance is allowed and the runtime is not applying a configuration.",
        AGENT +
          "a release stops a working runtime only in a maintenance window, or takes its next start",
      ),
      holds(
        "Provisioning mode begins and ends as specified, and never interrupts an active user.",
        SCENARIOS,
      ),
      holds(
        "The device tries networks from the highest priority to the lowest.",
        SCENARIOS,
      ),
      holds(
        "The agent reboots a device that is offline for longer than `device_reboot_after_offline_minutes`.",
        AGENT + "reboots a device that is offline for long, less and less often",
      ),
    ],
  },
];
