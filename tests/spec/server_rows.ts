/**
 * The specification of svc-server: its behaviour, its configuration, its logs and its options.
 */

import { holds, option, type Section, setting } from "./row.ts";

const MAINTENANCE = "lib/machine/graph/maintenance_test.ts: ";
const MODULES = "lib/machine/modules/modules_test.ts: ";
const SLAM =
  "tests/e2e/slam_test.ts: a robot maps a building: clients get a true map, and the next robot localizes on it";
const CONFIG = "lib/machine/config/config_test.ts: ";
const MACHINE = "lib/machine/graph/machine_test.ts: ";
const OPTIONS = "tests/spec/options_test.ts: ";

export const SERVER: readonly Section[] = [
  {
    title: "What the service does",
    rows: [
      holds(
        "`svc-server` runs on a computer and manages the hardware, software and data of one machine.",
        "tests/interop/interop_test.ts: the published Python SDK drives the demo machine over gRPC",
      ),
      holds(
        "`svc-micro-server` is the variant for embedded systems that cannot run `svc-server`.",
        "cli/micro/pwm_rule_test.ts: svc-micro-server refuses modules",
        "for small boards with Linux; `deno task compile:check` runs the executable",
      ),
      holds(
        "A JSON configuration describes a machine: components, services, modules, packages and options.",
        CONFIG + "decodeConfig: reads every section under its published names",
      ),
      holds("`svc-server` starts modules, whose models provide resources.", [
        "tests/modules/published_test.ts: a module of the published Python library lives from its start to its removal",
        MODULES + "Modules: 50 modules start at once and each serves its own resource",
      ]),
      holds(
        "`svc-server` handles all gRPC communication: clients reach every resource through its port.",
        [
          "tests/contract/contract_test.ts: every built-in model passes its API's contract directly and through a client",
          "lib/wire/port/port_test.ts: port: serves gRPC and HTTP/1.1 on the same port",
        ],
        "beyond: gRPC-web on the same port, remotes, and a call limit for each resource",
      ),
      holds(
        "`svc-server` handles all WebRTC communication.",
        [
          "tests/interop/interop_test.ts: createRobotClient() in a browser connects over WebRTC and shows a camera's video",
          "tests/interop/interop_test.ts: the published Python SDK drives the demo machine over WebRTC",
        ],
        "the machine does its own signaling; behind NAT, svc-cloud does",
      ),
      holds(
        "At the start, `svc-server` builds each resource after its dependencies.",
        MACHINE + "Machine builds dependencies first and closes dependents first",
        "a resource that fails is unhealthy, with the reason; the others run",
      ),
      holds(
        "A changed configuration takes effect within 15 s.",
        [
          "lib/machine/config/file_source_test.ts: reports a change when the file is complete and has been still for a moment",
          "lib/machine/config/cloud_source_test.ts: asks again after a fifth of the interval, then after each interval; reports only differences",
          "lib/machine/config/cloud_source_test.ts: asks at once when the control plane announces a change, and keeps asking at its interval",
          "lib/machine/config/cloud_source_test.ts: CloudSource: asks rarely while every change is announced, and at its interval as soon as none is",
          "tests/cloud/changes_test.ts: the control plane notifies a machine of changes to its own configuration, keys and orders alone",
        ],
        "beyond: the machine reads a file a moment after it is saved, and svc-cloud announces changes at once; " +
          "the machine also asks every 10 s, or every 30 minutes while it hears the announcements",
      ),
      holds(
        "A running machine adds, changes and removes resources, and leaves unchanged resources alone.",
        [
          MACHINE + "Machine leaves equal resources alone and rebuilds what changed with its users",
          "tests/e2e/reload_test.ts: a change rebuilds only the changed resources, however the file is saved",
        ],
      ),
      holds(
        "Resources without dependencies are reconfigured concurrently, others in groups after their dependencies.",
        [
          "tests/golden/plans_test.ts: plans/${name} shows the steps that the machine plans",
          MACHINE + "Machine builds a limited number of resources at once",
        ],
        "at most 10 at the same time",
      ),
      holds(
        "Each part has a configuration history, and an earlier configuration can be restored.",
        "tests/cloud/machine_test.ts: a machine applies a change and a restored revision, and an outage loses no log",
      ),
      holds(
        "At shutdown, resources close in dependency order, dependents first.",
        [
          MACHINE + "Machine builds dependencies first and closes dependents first",
          "tests/e2e/shutdown_test.ts: ${name} ends svc-server with exit code 0 and closes dependents first",
        ],
        "beyond: everything that moves stops before anything closes " +
          "(`tests/e2e/shutdown_test.ts: at the end of svc-server everything stops first, also below a resource that never closes`), " +
          "also when a configuration changes it " +
          "(`lib/machine/graph/machine_test.ts: Machine: what moves stops before a configuration closes anything, also below a dependent that hangs`); " +
          "at debug level the log shows the begin and the end of each close",
      ),
      holds(
        "At shutdown, resources of modules close, too.",
        MODULES +
          "a module's resources may use other modules and the machine, and close before their module",
      ),
    ],
  },
  {
    title: "A resource's entry",
    rows: [
      holds(
        "`name`; `api` in the form `rdk:component:<type>` or `rdk:service:<type>`.",
        CONFIG + "decodeConfig: a resource gets its name, model, decoded attributes and dependencies",
        "beyond: also the old `namespace` and `type`",
      ),
      holds(
        "`model`: `fake`, `gpio`, `obstacles_depth` and so on.",
        CONFIG + "decodeConfig: accepts the old forms of an API and a model",
        "beyond: full names (`rdk:builtin:fake`); the error for an unknown model suggests a similar one",
      ),
      holds("`model`: `svc:slam:<mapper>`.", SLAM, "`svc:slam:cartographer`"),
      holds(
        "`attributes`: an object that the model defines.",
        CONFIG + "an error in a resource affects that resource alone",
      ),
      holds(
        "`depends_on`: names of resources; may be empty.",
        "lib/resource/graph_test.ts: wire: resolves short and full names",
      ),
      holds(
        "`log_configuration.level` is the resource's own log level.",
        CONFIG + "decodeConfig: log rules come from the log list first, then services, then components",
      ),
    ],
  },
  {
    title: "The machine's configuration",
    subject: { kind: "machine" },
    rows: [
      setting(
        "components",
        { type: "array" },
        "components",
        CONFIG + "decodeConfig: reads every section under its published names",
      ),
      setting(
        "services",
        { type: "array" },
        "services",
        CONFIG + "decodeConfig: reads every section under its published names",
      ),
      setting(
        "modules",
        { type: "array" },
        "`type`, `name`, `module_id`, `version`, `log_level`",
        CONFIG + "decodeConfig: reads every section under its published names",
      ),
      setting(
        "packages[].name",
        { type: "string", required: true },
        "the name in this file",
        CONFIG + "decodeConfig: reads every section under its published names",
      ),
      setting(
        "packages[].package",
        { type: "string", required: true },
        "the ID of the package",
        CONFIG + "decodeConfig: reads every section under its published names",
      ),
      setting(
        "packages[].type",
        { type: "string" },
        "`slam_map` for maps",
        CONFIG + "decodeConfig: reads every section under its published names",
        { note: "beyond: `ml_model`, `module`, `archive`; required", differsIn: ["required"] },
      ),
      setting(
        "packages[].version",
        { type: "string" },
        "the version",
        "tests/cloud/releases_test.ts: a machine fetches the newest version in a package's range, and changes to the next version",
        { note: "beyond: `latest`, which is the default" },
      ),
      setting(
        "maintenance.sensor_name",
        { type: "string", required: true },
        "full name of the sensor that reports whether updates are safe",
        [
          MAINTENANCE + 'maintenance is ${allowed ? "" : "not "}allowed when ${what}',
          CONFIG + "decodeConfig: reads every section under its published names",
        ],
        { note: "the error for another form suggests the full name" },
      ),
      setting(
        "maintenance.maintenance_allowed_key",
        { type: "string", required: true },
        "key of the reading that is `true` when maintenance is allowed",
        [
          MAINTENANCE + "a property that every object inherits is not a reading",
          "tests/e2e/reload_test.ts: a changed file and a restart wait for the maintenance window",
        ],
        {
          note: "a sensor that fails holds back all changes except its own dependencies " +
            "(`tests/e2e/reload_test.ts: a broken sensor holds back all changes except its own dependencies; the port does not move until it works`)",
        },
      ),
      setting(
        "log[].pattern",
        { type: "string" },
        "regular expression for resources: `rdk.components.arm`, `rdk.services.*`",
        [
          "tests/log_levels_test.ts: log patterns set levels of resources and services by their documented names",
          "lib/base/log/log_test.ts: a pattern matches whole names, in the documented and in the published form",
        ],
        { note: "required; the log names a pattern without a match once", differsIn: ["required"] },
      ),
      setting(
        "log[].level",
        { type: "string" },
        "`debug`, `info`, `warn` or `error`",
        "lib/base/log/log_test.ts: levels may have any letter case; similar words are refused",
        { note: "required; beyond: any letter case, and `warning`", differsIn: ["required"] },
      ),
      setting(
        "debug",
        { type: "boolean", default: false },
        "sets debug level everywhere and overrides all other levels",
        "lib/base/log/log_test.ts: Logs: debug overrides every rule",
      ),
      setting(
        "disable_log_deduplication",
        { type: "boolean", default: false },
        "turns de-duplication off",
        "lib/base/log/dedup_test.ts: without de-duplication every line is written; levels and debug make no difference",
      ),
    ],
  },
  {
    title: "Logs",
    rows: [
      holds(
        "The default level is `info`.",
        "lib/base/log/log_test.ts: the default level is info",
      ),
      holds(
        "Patterns apply from top to bottom; the last match wins.",
        [
          "lib/base/log/log_test.ts: the last matching rule wins, regardless of its level",
          "tests/log_levels_test.ts: a pattern without a match is logged once, and the last matching pattern wins",
        ],
      ),
      holds(
        "`log_configuration` of a resource overrides `log`.",
        CONFIG + "decodeConfig: log rules come from the log list first, then services, then components",
      ),
      holds("Debug mode overrides both.", "lib/base/log/log_test.ts: Logs: debug overrides every rule"),
      holds(
        "A message is noisy after 3 times within 10 s; further repeats are held back.",
        [
          "lib/base/log/dedup_test.ts: three repeats are written, the fourth becomes a notice, the rest are counted; the next line brings the count",
          "lib/base/log/dedup_test.ts: dedup: a message after its window starts a new count",
        ],
      ),
      holds(
        "Logs go to the control plane; while it is unreachable they wait, and follow later.",
        [
          "tests/e2e/cloud_test.ts: log lines reach the control plane, including lines from an outage, across a restart",
          "lib/base/log/queue_test.ts: a kill at any operation loses no entry, keeps the order, and repeats no confirmed entry",
        ],
      ),
      holds(
        "The control plane keeps logs for 30 days, and users cannot delete them.",
        "tests/cloud/logs_test.ts: log entries expire after 30 days, first in answers and then in the database",
      ),
      holds(
        "`log_level` sets the level of a module, `log_configuration` does not.",
        MODULES + "a module's level comes from its entry, from a pattern with its name, or from the machine",
      ),
    ],
  },
  {
    title: "Options of svc-server",
    subject: { kind: "options", program: "svc-server" },
    rows: [
      option(
        "-allow-insecure-creds",
        "allows credentials without TLS",
        [
          "tests/e2e/cloud_test.ts: svc-server refuses to send credentials without TLS unless -allow-insecure-creds is set",
          "tests/remotes_test.ts: a remote accepts credentials, which are sent without TLS only if allowed",
        ],
      ),
      option(
        "-config",
        "file with a full configuration or with cloud credentials",
        [
          "lib/machine/config/file_source_test.ts: reads the file at first, with variables; the revision identifies its content",
          "lib/machine/config/cloud_source_test.ts: takes the configuration from the control plane, with the credentials and the address in the file",
        ],
      ),
      option(
        "-cpuprofile",
        "writes a CPU profile to a file",
        OPTIONS + "-cpuprofile writes a profile with nodes and samples",
      ),
      option(
        "-debug",
        "enables debug-level logs",
        OPTIONS + "-debug writes debug lines, including the order of closing",
      ),
      option(
        "-disable-mdns",
        "disables discovery through multicast DNS",
        [
          OPTIONS + "-discover finds an announced machine, but none with -disable-mdns",
          "lib/machine/serve/announcement_test.ts: PortAnnouncement: announces the names of the configuration over mDNS until close",
        ],
        "beyond: `-discover` prints the machines on the network",
      ),
      option(
        "-dump-resources",
        "writes all resource registrations as JSON to a file",
        "tests/golden/golden_test.ts: -dump-resources equals resources.json",
      ),
      option(
        "-ftdc",
        "captures diagnostics all the time (default true)",
        [
          "lib/machine/diagnostics/diagnostics_test.ts: Diagnostics: the FTDC capture contains process, resource and call metrics under the part's id",
          "lib/machine/diagnostics/diagnostics_test.ts: disabled diagnostics start no timer and write no file",
        ],
        "beyond: `-ftdc-read` prints a capture as a table, CSV or a plot",
      ),
      option(
        "-log-file",
        "writes logs to a file with rotation",
        [
          "cli/logs_test.ts: -log-file replaces standard output in any environment",
          "lib/base/log/file_test.ts: keeps the configured number of full files beside the current file",
        ],
      ),
      option(
        "-network-check",
        "only checks the network",
        [
          "lib/machine/diagnostics/network_check_test.ts: a working network: each check with its result, and no complaint",
          "lib/machine/diagnostics/network_check_test.ts: checkNetwork: without a network, the report gives a reason for each check that was not made",
        ],
        "beyond: exit code 1 if every check fails",
      ),
      option(
        "-no-tls",
        "serves without TLS even if there is a certificate",
        OPTIONS + "-no-tls serves without TLS although the configuration has a certificate",
      ),
      option(
        "-output-telemetry",
        "prints metrics and spans",
        [
          "lib/machine/diagnostics/telemetry_test.ts: Telemetry: writes metrics every ten seconds and once on close",
          "lib/machine/diagnostics/telemetry_test.ts: each call is a span with its subject, duration and result",
        ],
      ),
      option(
        "-reveal-sensitive-config-diffs",
        "logs the differences of configurations",
        [
          "lib/machine/graph/reconfiguration_test.ts: logs configuration changes on request, at any level",
          "lib/machine/config/diff_test.ts: a difference shows no secrets",
        ],
        "differs: secrets appear as stars, because logs leave the machine",
      ),
      option(
        "-shareddir",
        "folder of static web assets",
        [
          OPTIONS + "-shareddir serves a folder's files without a token, and no files outside",
          "lib/wire/port/static_files_test.ts: static files: the files of a folder, with types, ranges and entity tags",
        ],
        "`/static/` serves its folder `static`, or else the folder itself",
      ),
      option(
        "-untrusted-env",
        "disables processes and the shell",
        "tests/interop/shell_test.ts: -untrusted-env makes the shell service unhealthy, and the machine runs",
      ),
      option("-version", "prints the version", OPTIONS + "-version prints a single line"),
      option(
        "-webprofile",
        "includes the profiler in the HTTP server",
        "lib/machine/diagnostics/web_profile_test.ts: profileRoutes: answer no caller, callers on this computer, or every caller",
      ),
      option(
        "-webrtc",
        "WebRTC instead of direct connections (default true)",
        "lib/machine/serve/port/machine_port_test.ts: without WebRTC, the port has no signaling",
        "the client decides: the server offers WebRTC, with `-webrtc=false` it does not",
      ),
      option(
        "-aix-install",
        "installs the downloaded binary as a system service",
        "lib/agent/system/service_unit_test.ts: svc-server is its own service until an agent replaces it",
      ),
    ],
  },
  {
    title: "Authentication",
    rows: [
      holds(
        "A client opens a session with an API key and its ID, as credentials of the type `api-key`.",
        "lib/wire/auth/auth_test.ts: auth: Authenticate exchanges an API key for a token, which identifies the caller",
      ),
      holds(
        "The ML training client needs an API key with owner permissions on the organization.",
        "tests/cloud/access_test.ts: each call admits exactly the callers that its rule allows",
      ),
      holds(
        "The service address is a host, with port 443 by default.",
        "lib/cloud_client/client_test.ts: credentials do not travel in the clear unless that is allowed",
      ),
      holds(
        "The installer takes `SVC_API_KEY_ID`, `SVC_API_KEY` and `SVC_PART_ID`.",
        "tests/cloud/install_test.ts: the script contains the address that served it; only the part's key gets its credentials",
      ),
      holds(
        "Or a file has the machine's credentials, `/etc/svc.json` by default.",
        "lib/agent/settings/credentials_test.ts: reads an API key or a secret, with comments, and ignores settings of the runtime",
      ),
      holds(
        "`-no-tls` serves without TLS; `-allow-insecure-creds` allows credentials over plaintext.",
        [
          OPTIONS + "-no-tls serves without TLS although the configuration has a certificate",
          "tests/e2e/cloud_test.ts: svc-server refuses to send credentials without TLS unless -allow-insecure-creds is set",
        ],
      ),
      holds(
        "`hotspot_password` is the Wi-Fi password of the provisioning hotspot.",
        "tests/agent/real_network_test.ts: svc-agent adds, uses, restores and removes its profiles in a real NetworkManager",
      ),
    ],
  },
  {
    title: "Errors and versions",
    rows: [
      holds(
        "The specification shows no error codes; ours are the published codes.",
        [
          MACHINE + "a resource with an unknown model is unhealthy, and the error suggests a similar model",
          "drivers/vision/vision_model_test.ts: vision: a missing camera, and a camera without images",
          "drivers/board/fake_test.ts: fake board: unknown analogs, interrupts and power modes are refused with the published errors",
        ],
        "a call that names a missing thing fails with `unknown`, because the published runtime returns plain errors",
      ),
      holds(
        "Programs have semantic versions.",
        "lib/base/semver_test.ts: compareVersions: orders versions by the rules of semantic versioning",
      ),
      holds(
        "Modules and packages have versions.",
        "tests/cloud/registry_test.ts: modules: versions for each platform, each with the module's models at its upload",
      ),
    ],
  },
];
