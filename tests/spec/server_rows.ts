/**
 * The specification of svc-server: its behaviour, its configuration, its logs and its options.
 */

import { holds, option, type Section, setting } from "./row.ts";

const MAINTENANCE = "lib/machine/graph/maintenance_test.ts: ";
const MODULES = "lib/machine/modules/modules_test.ts: ";
const SLAM =
  "tests/e2e/slam_test.ts: a robot drives through a building: the map that clients get looks like it, and serves the next robot";
const CONFIG = "lib/machine/config/config_test.ts: ";
const MACHINE = "lib/machine/graph/machine_test.ts: ";
const OPTIONS = "tests/spec/options_test.ts: ";

export const SERVER: readonly Section[] = [
  {
    title: "What the service does",
    rows: [
      holds(
        "`svc-server` runs on a computer and manages the hardware, software and data of one machine.",
        "tests/interop/interop_test.ts: the published Python SDK, over gRPC",
      ),
      holds(
        "`svc-micro-server` is the variant for embedded systems that cannot run `svc-server`.",
        "cli/micro/pwm_rule_test.ts: svc-micro-server refuses modules",
        "for small boards with Linux; `deno task compile:check` runs it",
      ),
      holds(
        "A machine is a JSON configuration: components, services, modules, packages and options.",
        CONFIG + "every section is read under its published names",
      ),
      holds("Modules are started, and their models serve resources.", [
        "tests/modules/published_test.ts: a module of the published Python library",
        MODULES + "50 modules start at once and each serves its own",
      ]),
      holds(
        "It handles all gRPC: clients reach every resource through its port.",
        [
          "tests/contract/contract_test.ts: models keep their contracts",
          "lib/wire/port/port_test.ts: port: gRPC and HTTP/1.1 side by side on one port",
        ],
        "beyond: gRPC-web on the same port, remotes, and a limit of calls to each resource",
      ),
      holds(
        "It handles WebRTC communication.",
        [
          "tests/interop/interop_test.ts: createRobotClient() in a browser, over WebRTC",
          "tests/interop/interop_test.ts: the published Python SDK, over WebRTC",
        ],
        "clients arrange connections with the machine itself",
      ),
      holds(
        "Start: built-in resources are loaded, each after what it depends on.",
        MACHINE + "Machine builds dependencies first and closes dependents first",
        "a resource that cannot be built is unhealthy with its reason, and the others run",
      ),
      holds(
        "A changed configuration is in force within 15 s.",
        [
          "lib/machine/config/file_source_test.ts: a change is heard of once the file is whole and has been still for a moment",
          "lib/machine/config/cloud_source_test.ts: it is asked for anew after a fifth of the interval, then after each; " +
          "what is the same is no news",
          "lib/machine/config/cloud_source_test.ts: it is asked for at once when the control plane tells of a change, and asked for no less then",
          "tests/cloud/changes_test.ts: a machine hears of its configuration, keys and orders, and of nothing that is not its own",
        ],
        "beyond: a file is taken a moment after it was saved, and the control plane tells of changes at once; " +
          "it is also asked every 10 s",
      ),
      holds(
        "Resources are added, changed and removed on a running machine; equal ones are not touched.",
        [
          MACHINE + "Machine leaves equal resources alone and rebuilds what changed with its users",
          "tests/e2e/reload_test.ts: a change reaches what changed and nothing else, however the file is saved",
        ],
      ),
      holds(
        "Resources without dependencies change at once, others in groups after what they depend on.",
        [
          "tests/golden/plans_test.ts: plans/${name} is what the machine does",
          MACHINE + "at most so many are built at once",
        ],
        "at most 10 at once",
      ),
      holds(
        "Configurations have a history for each part, and an earlier one can be restored.",
        "tests/cloud/machine_test.ts: a change is applied, an earlier revision restored, and an absence costs no log",
      ),
      holds(
        "Shutdown: resources close in the order of their dependencies, dependents first.",
        [
          MACHINE + "Machine builds dependencies first and closes dependents first",
          "tests/e2e/shutdown_test.ts: ${name} ends the program with 0, dependents first",
        ],
        "beyond: at debug level the log tells of each resource when it begins to close and when it is closed",
      ),
      holds(
        "Resources of modules are told to shut down.",
        MODULES +
          "resources of modules are built with what modules and the machine have, and closed before their module",
      ),
    ],
  },
  {
    title: "A resource's entry",
    rows: [
      holds(
        "`name` and `api`, of the form `rdk:component:<type>` or `rdk:service:<type>`.",
        CONFIG + "a resource has its name, model, decoded attributes and dependencies",
        "beyond: the old `namespace` and `type` are taken too",
      ),
      holds(
        "`model`: `fake`, `gpio`, `obstacles_depth` and so on.",
        CONFIG + "an API and a model may be written in their old forms",
        "beyond: full names (`rdk:builtin:fake`); an unknown one is unhealthy with what is likely meant",
      ),
      holds("`model`: `svc:slam:<mapper>`.", SLAM, "`svc:slam:cartographer`"),
      holds("`attributes`: an object that the model defines.", CONFIG + "an error in a resource is its own"),
      holds(
        "`depends_on`: names of resources, may be empty.",
        "lib/resource/graph_test.ts: wire() resolves short and full names",
      ),
      holds(
        "`log_configuration.level` is the resource's own log level.",
        CONFIG + "log rules: the list, then services, then components",
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
        CONFIG + "every section is read under its published names",
      ),
      setting(
        "services",
        { type: "array" },
        "services",
        CONFIG + "every section is read under its published names",
      ),
      setting(
        "modules",
        { type: "array" },
        "`type`, `name`, `module_id`, `version`, `log_level`",
        CONFIG + "every section is read under its published names",
      ),
      setting(
        "packages[].name",
        { type: "string", required: true },
        "the name in this file",
        CONFIG + "every section is read under its published names",
      ),
      setting(
        "packages[].package",
        { type: "string", required: true },
        "the package's ID",
        CONFIG + "every section is read under its published names",
      ),
      setting(
        "packages[].type",
        { type: "string" },
        "`slam_map` for maps",
        CONFIG + "every section is read under its published names",
        { note: "beyond: `ml_model`, `module`, `archive`; required", differsIn: ["required"] },
      ),
      setting(
        "packages[].version",
        { type: "string" },
        "the version",
        "tests/cloud/releases_test.ts: a machine runs with the newest version of a package, and changes to the next one",
        { note: "beyond: `latest`, which is the default" },
      ),
      setting(
        "maintenance.sensor_name",
        { type: "string", required: true },
        "full name of the sensor that says whether updates are safe",
        [
          MAINTENANCE + 'maintenance is ${allowed ? "" : "not "}allowed when ${what}',
          CONFIG + "every section is read under its published names",
        ],
        { note: "a name that is none is an error that suggests the right one" },
      ),
      setting(
        "maintenance.maintenance_allowed_key",
        { type: "string", required: true },
        "key of its readings that is true when maintenance is allowed",
        [
          MAINTENANCE + "a key that every object has is none of the readings",
          "tests/e2e/reload_test.ts: a change waits for the maintenance window; so does a restart",
        ],
        {
          note: "a sensor that cannot be asked holds everything back but what it needs itself " +
            "(`tests/e2e/reload_test.ts: a broken sensor holds everything back but what it needs; " +
            "the port stays where it is until then`)",
        },
      ),
      setting(
        "log[].pattern",
        { type: "string" },
        "an expression for resources: `rdk.components.arm`, `rdk.services.*`",
        [
          "tests/log_levels_test.ts: patterns name resources as the documentation writes them",
          "lib/base/log/log_test.ts: a pattern is an expression for a whole name, as the spec or as the published runtime reads it",
        ],
        { note: "required; one that matches nothing is told once", differsIn: ["required"] },
      ),
      setting(
        "log[].level",
        { type: "string" },
        "`debug`, `info`, `warn` or `error`",
        "lib/base/log/log_test.ts: levels are read in any case; what only looks like one is none",
        { note: "required; beyond: in any case of letters, and `warning`", differsIn: ["required"] },
      ),
      setting(
        "debug",
        { type: "boolean", default: false },
        "debug level for everything, over all other levels",
        "lib/base/log/log_test.ts: debug beats every rule",
      ),
      setting(
        "disable_log_deduplication",
        { type: "boolean", default: false },
        "every repeated line is written",
        "lib/base/log/dedup_test.ts: nothing is held back where every line is wanted; levels and debug change nothing",
      ),
    ],
  },
  {
    title: "Logs",
    rows: [
      holds(
        "The default level is `info`.",
        "lib/base/log/log_test.ts: loggers write from info up where no rule matches",
      ),
      holds(
        "Patterns are tried from top to bottom, and the last that matches wins.",
        [
          "lib/base/log/log_test.ts: of several rules that match the last one wins, whatever its level",
          "tests/log_levels_test.ts: a pattern that matches nothing is told once, the last one that matches wins",
        ],
      ),
      holds(
        "A resource's `log_configuration` wins over `log`.",
        CONFIG + "log rules: the list, then services, then components",
      ),
      holds("Debug mode wins over both.", "lib/base/log/log_test.ts: debug beats every rule"),
      holds(
        "A message is noisy when it comes 3 times within 10 s; what follows is held back.",
        [
          "lib/base/log/dedup_test.ts: three are written, the fourth is a notice, the rest are counted; the next log brings the sum",
          "lib/base/log/dedup_test.ts: after its window a message is new again",
        ],
      ),
      holds(
        "Logs go to the control plane; while it is away they wait, and are sent when it is back.",
        [
          "tests/e2e/cloud_test.ts: what is logged arrives, also what was logged while nobody took it, over a restart",
          "lib/base/log/queue_test.ts: killed at any operation: nothing is lost, the order is kept, what is recorded is not sent again",
        ],
      ),
      holds(
        "Logs are kept for 30 days, and users cannot delete them.",
        "tests/cloud/logs_test.ts: after 30 days an entry is gone, from answers at once and then from the database",
      ),
      holds(
        "A module's level is its `log_level`, not `log_configuration`.",
        MODULES + "a module's level is its own, that of a pattern with its name, or that of the machine",
      ),
    ],
  },
  {
    title: "Options of svc-server",
    subject: { kind: "options", program: "svc-server" },
    rows: [
      option(
        "-allow-insecure-creds",
        "credentials may travel without TLS",
        [
          "tests/e2e/cloud_test.ts: credentials do not travel in the clear unless that is allowed",
          "tests/remotes_test.ts: credentials open a remote; without TLS they travel only if that is allowed",
        ],
      ),
      option(
        "-config",
        "the configuration, or the credentials of a control plane",
        [
          "lib/machine/config/file_source_test.ts: a file is read first, with variables; its revision tells its content",
          "lib/machine/config/cloud_source_test.ts: the configuration is the control plane's, with the credentials and the address of the file",
        ],
      ),
      option(
        "-cpuprofile",
        "a CPU profile in a file",
        OPTIONS + "-cpuprofile leaves a profile that tools can read",
      ),
      option(
        "-debug",
        "debug level",
        OPTIONS + "-debug writes lines of debug level, the order of closing among them",
      ),
      option(
        "-disable-mdns",
        "no discovery through multicast DNS",
        [
          OPTIONS + "-discover finds a machine that is announced, and none with -disable-mdns",
          "lib/machine/serve/announcement_test.ts: a machine is announced by the names of its configuration until it ends",
        ],
        "beyond: `-discover` prints the machines on the network",
      ),
      option(
        "-dump-resources",
        "every model with its attributes, as JSON in a file",
        "tests/golden/golden_test.ts: -dump-resources is as in resources.json",
      ),
      option(
        "-ftdc",
        "diagnostics are captured all the time (default true)",
        [
          "lib/machine/diagnostics/diagnostics_test.ts: the capture holds the process, the resources and the calls, under the part's id",
          "lib/machine/diagnostics/diagnostics_test.ts: what is turned off is not there",
        ],
        "beyond: `-ftdc-read` prints a capture as a table, CSV or a plot",
      ),
      option(
        "-log-file",
        "logs in a file, with rotation",
        [
          "cli/logs_test.ts: -log-file takes the place of standard output, whatever the environment says",
          "lib/base/log/file_test.ts: full files are kept beside the one that is written, as many as wanted",
        ],
      ),
      option(
        "-network-check",
        "only the network is checked",
        [
          "lib/machine/diagnostics/network_check_test.ts: a network that works: every check with its outcome, and nothing to complain of",
          "lib/machine/diagnostics/network_check_test.ts: without a network the report is complete, and says what could not be checked and why",
        ],
        "beyond: it ends with 1 where nothing works",
      ),
      option(
        "-no-tls",
        "served without TLS although there is a certificate",
        OPTIONS + "-no-tls serves in the open although the configuration has a certificate",
      ),
      option(
        "-output-telemetry",
        "metrics and spans are printed",
        [
          "lib/machine/diagnostics/telemetry_test.ts: metrics come every ten seconds and once at the end",
          "lib/machine/diagnostics/telemetry_test.ts: each call is a span, with what it was about, how long it took and how it ended",
        ],
      ),
      option(
        "-reveal-sensitive-config-diffs",
        "what changes between configurations is logged",
        [
          "lib/machine/graph/reconfiguration_test.ts: what changes is told where that is wanted, whatever the level",
          "lib/machine/config/diff_test.ts: nothing secret is shown",
        ],
        "differs: secrets stay stars, since logs travel",
      ),
      option(
        "-shareddir",
        "where static web assets are",
        [
          OPTIONS + "-shareddir serves the files of a folder to everybody, and nothing outside it",
          "lib/wire/port/static_files_test.ts: static files: the files of a folder, with their types, parts and marks",
        ],
        "its folder `static`, or itself where it has none, at `/static/`",
      ),
      option(
        "-untrusted-env",
        "no processes and no shell",
        "tests/interop/shell_test.ts: -untrusted-env disables the shell, and the machine runs without it",
      ),
      option("-version", "the version", OPTIONS + "-version is one line"),
      option(
        "-webprofile",
        "the profiler in the HTTP server",
        "lib/machine/diagnostics/web_profile_test.ts: who may look: nobody, callers on this computer, or everybody",
      ),
      option(
        "-webrtc",
        "WebRTC instead of direct connections (default true)",
        "lib/machine/serve/machine_port_test.ts: without WebRTC, the port has no signaling",
        "clients choose: those that can use WebRTC find it offered, and with `-webrtc=false` not",
      ),
      option(
        "-aix-install",
        "the downloaded binary becomes a system service",
        "lib/agent/system/service_unit_test.ts: the runtime is a service of its own until an agent is there",
      ),
    ],
  },
  {
    title: "Authentication",
    rows: [
      holds(
        "A session is opened with an API key and its ID, as credentials of type `api-key`.",
        "lib/wire/auth_test.ts: auth: an API key becomes a token, and the token a caller",
      ),
      holds(
        "The ML training client needs the permissions of an organization's owner.",
        "tests/cloud/access_test.ts: each call lets in those whom its rule allows, and nobody else",
      ),
      holds(
        "The address of a service is a host, its port 443 unless it says another.",
        "lib/cloud_client/client_test.ts: credentials do not travel in the clear unless that is allowed",
      ),
      holds(
        "The installer takes `SVC_API_KEY_ID`, `SVC_API_KEY` and `SVC_PART_ID`.",
        "tests/cloud/install_test.ts: the script knows where it came from; credentials are for who may be the part",
      ),
      holds(
        "Or the machine's credentials are in a file, `/etc/svc.json` by default.",
        "lib/agent/settings/credentials_test.ts: an API key, or else a secret; comments and what belongs to the runtime are let be",
      ),
      holds(
        "`-no-tls` serves without TLS, `-allow-insecure-creds` lets credentials travel in the open.",
        [
          OPTIONS + "-no-tls serves in the open although the configuration has a certificate",
          "tests/e2e/cloud_test.ts: credentials do not travel in the clear unless that is allowed",
        ],
      ),
      holds(
        "The provisioning hotspot has the Wi-Fi password of `hotspot_password`.",
        "tests/agent/real_network_test.ts: NetworkManager keeps, uses, takes back and removes the agent's profiles",
      ),
    ],
  },
  {
    title: "Errors and versions",
    rows: [
      holds(
        "Codes of errors are not shown in the specification: ours are the published ones.",
        [
          MACHINE + "an unknown model is unhealthy with what is likely meant",
          "drivers/vision/vision_model_test.ts: vision: a camera that is missing, or gives nothing",
          "drivers/board/fake_test.ts: unknown analogs and interrupts are refused in the published words",
        ],
        "what a call names and is not there is `unknown`: the published runtime gives plain errors",
      ),
      holds(
        "Programs have semantic versions.",
        "lib/base/semver_test.ts: versions are ordered as the rules of semantic versions say",
      ),
      holds(
        "Modules and packages have versions.",
        "tests/cloud/registry_test.ts: modules: versions for platforms, each as the module was when it came",
      ),
    ],
  },
];
