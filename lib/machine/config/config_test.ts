/**
 * The machine's configuration: decoding of a good one, and the effect of problems.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { MotorApi } from "../../api/actuators/motor.ts";
import { type Json, type JsonObject, number, object, text } from "../../base/schema/schema.ts";
import { type AnyModel, model, Registry } from "../../resource/registry.ts";
import { configJson, decodeConfig, formatProblems, machineSchema } from "./config.ts";

const wheel: AnyModel = model({
  api: MotorApi,
  name: "rdk:builtin:wheel",
  doc: "a motor of these tests",
  attributes: object({ maxRpm: number("rpm").required(), board: text().names("board"), note: text() }),
  construct: () => {
    throw new Error("never built here");
  },
});
const registry = new Registry([MotorApi], [wheel]);
const ENV: Record<string, string> = { SVC_HOME: "/svc", ROBOT: "r2", PORT: "9" };

async function decode(json: unknown) {
  const { config, problems, fatal } = await decodeConfig(json, registry, { env: (name) => ENV[name] });
  const lines = problems.map(({ severity, path, message }) => `${severity} ${path}: ${message}`);
  return { config, lines, fatal, resources: config.resources };
}

/** A correct motor, with a test's changes. */
const motor = (changes: JsonObject = {}): JsonObject => ({
  name: "left",
  api: "rdk:component:motor",
  model: "wheel",
  attributes: { max_rpm: 100 },
  ...changes,
});

Deno.test("decodeConfig: an empty configuration gets every default", async () => {
  const { config, lines, fatal } = await decode({});
  assertEquals([lines, fatal], [[], false]);
  assertEquals(config, {
    cloud: undefined,
    network: {
      fqdn: undefined,
      bindAddress: { host: "localhost", port: 8080, managedHost: "" },
      tlsCertFile: undefined,
      tlsKeyFile: undefined,
      noTls: false,
      webrtc: { maxPeers: 512, maxOffers: 32, maxCandidates: 64, maxCalls: 256, iceServers: [] },
      trafficTunnelEndpoints: [],
      heartbeatWindowMs: 2000,
    },
    auth: {
      apiKeys: undefined,
      tlsAuthEntities: [],
      publicKeys: [],
      tokenKeysFile: undefined,
      limits: { wrongKeysPerAddress: 20, wrongKeysPerKey: 5, keyChecksAtOnce: 4 },
      userPermissions: [],
    },
    maintenance: undefined,
    tracing: { enabled: false, disk: false, console: false, otlpendpoint: undefined },
    moduleNames: [],
    modules: [],
    remotes: [],
    packages: [],
    jobs: [],
    resources: [],
    log: [],
    logPatterns: [],
    debug: false,
    enableWebProfile: false,
    disablePartialStart: false,
    disableLogDeduplication: false,
    revision: "",
  });
});

Deno.test("decodeConfig: attributes that are not an object give a single error", async () => {
  const { config, lines, fatal } = await decode({ components: [motor({ attributes: [] })] });
  assertEquals([lines, fatal], [[
    "error components.0.attributes: found an empty array, wanted an object",
  ], false]);
  assertEquals([config.resources[0].attributes, config.resources[0].decoded], [{}, undefined]);
});

Deno.test("decodeConfig: reads every section under its published names", async () => {
  const { config, lines, fatal } = await decode({
    $schema: "./svc.schema.json",
    cloud: { id: "part", api_key: { id: "key", key: "k" }, refresh_interval: "5s" },
    network: {
      bind_address: "[::1]:9000",
      tls_cert_file: "c.pem",
      tls_key_file: "k.pem",
      sessions: { heartbeat_window: "500ms" },
      traffic_tunnel_endpoints: [{ port: 22 }],
    },
    auth: { handlers: [{ type: "api-key", config: { keys: ["a"], a: "secret" } }], tls_auth_entities: ["x"] },
    maintenance: { sensor_name: "rdk:component:sensor/door", maintenance_allowed_key: "open" },
    tracing: { enabled: true },
    modules: [{ name: "m", executable_path: "${packages.module.m}/run", env: { R: "${environment.ROBOT}" } }],
    remotes: [{ name: "arm-pc", address: "arm-pc:8080", frame: { parent: "world" }, secret: "s" }],
    packages: [{ name: "m", package: "org/m", type: "module", version: "1.2.3" }],
    jobs: [{ name: "j", schedule: "*/5 * * * *", resource: "left", method: "DoCommand", command: { a: 1 } }],
    log: [{ pattern: "rdk.*", level: "WARNING" }],
    debug: true,
    disable_log_deduplication: true,
    enable_web_profile: true,
    revision: "r1",
    agent: { version_control: {} },
    fragments: ["f"],
  });
  assertEquals([lines, fatal], [[], false]);
  assertEquals(config.cloud?.apiKey?.key.reveal(), "k");
  assertEquals(config.cloud?.refreshInterval, 5000);
  assertEquals(config.network.bindAddress, { host: "::1", port: 9000 });
  assertEquals(config.network.heartbeatWindowMs, 500);
  assertEquals(config.network.trafficTunnelEndpoints, [{ port: 22, connectionTimeout: 10_000 }]);
  assertEquals(config.auth.apiKeys?.a.reveal(), "secret");
  assertEquals(config.maintenance, {
    sensorName: "rdk:component:sensor/door",
    maintenanceAllowedKey: "open",
  });
  assertEquals(config.modules[0].executablePath, "/svc/packages/data/module/org-m-1_2_3/run");
  assertEquals([config.modules[0].env, config.modules[0].firstRunTimeout], [{ R: "r2" }, 3_600_000]);
  assertEquals([config.remotes[0].prefix, config.remotes[0].reconnectInterval], ["", 1000]);
  assertEquals(config.jobs[0].command, { a: 1 });
  assertEquals(config.log, [{ pattern: "rdk.*", level: "warn" }]);
  assertEquals([config.debug, config.disableLogDeduplication, config.revision], [true, true, "r1"]);
});

Deno.test("decodeConfig: a resource gets its name, model, decoded attributes and dependencies", async () => {
  const frame = { parent: "world", translation: { x: 1, y: 2, z: 3 } };
  const { resources: [one], lines } = await decode({
    components: [motor({
      attributes: { max_rpm: 100, board: "b", note: "on ${environment.ROBOT}" },
      depends_on: ["x", "rdk:component:sensor/y", "far:z"],
      frame,
      log_configuration: { level: "Debug" },
      service_configs: [{ type: "data_manager", attributes: { hz: 1 } }],
    })],
  });
  assertEquals(lines, []);
  const { name, decoded, implicit, ...rest } = one;
  assertEquals(name.full, "rdk:component:motor/left");
  assertEquals(decoded, { maxRpm: 100, board: "b", note: "on r2" });
  assertEquals(implicit, [{
    name: "b",
    type: "board",
    optional: false,
    path: "components.0.attributes.board",
  }]);
  assertEquals(rest, {
    path: "components.0",
    kind: "component",
    api: "rdk:component:motor",
    model: "rdk:builtin:wheel",
    attributes: { max_rpm: 100, board: "b", note: "on r2" },
    dependsOn: ["x", "rdk:component:sensor/y", "far:z"],
    frame,
    logLevel: "debug",
    serviceConfigs: [{ type: "rdk:service:data_manager", attributes: { hz: 1 } }],
    problems: [],
    modelProblem: undefined,
  });
});

Deno.test("decodeConfig: accepts silently what the published pages write and machines do not need", async () => {
  const { lines, resources } = await decode({
    processes: [],
    components: [motor({ ui_folder: { name: "wheels" } })],
  });
  assertEquals([lines, resources.length, "uiFolder" in resources[0]], [[], 1, false]);
  assertStringIncludes(
    (await decode({ processes: [{ id: "x" }] })).lines.join(),
    "processes are no longer run",
  );
});

Deno.test("decodeConfig: accepts the old forms of an API and a model", async () => {
  const forms: [entry: JsonObject, section: string, full: string, model: string][] = [
    [{ type: "motor" }, "components", "rdk:component:motor/a", "rdk:builtin:wheel"],
    [{ type: "rdk:component:motor" }, "components", "rdk:component:motor/a", "rdk:builtin:wheel"],
    [{ namespace: "acme", type: "gizmo" }, "components", "acme:component:gizmo/a", "rdk:builtin:wheel"],
    [{ type: "motor", model: "acme:x:y" }, "components", "rdk:component:motor/a", "acme:x:y"],
    [
      { type: "motor", model: { namespace: "acme", model_family: "x", name: "y" } },
      "components",
      "rdk:component:motor/a",
      "acme:x:y",
    ],
    [{ type: "slam", model: null }, "services", "rdk:service:slam/a", "rdk:builtin:builtin"],
    [
      { type: "motion", name: null, model: null },
      "services",
      "rdk:service:motion/builtin",
      "rdk:builtin:builtin",
    ],
    [
      { api: "", namespace: "", type: "motion", name: "", model: "" },
      "services",
      "rdk:service:motion/builtin",
      "rdk:builtin:builtin",
    ],
    [
      { api: "rdk:component:motor", namespace: "", type: "" },
      "components",
      "rdk:component:motor/a",
      "rdk:builtin:wheel",
    ],
  ];
  for (const [entry, section, full, model] of forms) {
    const [one] = (await decode({ [section]: [{ name: "a", model: "wheel", ...entry }] })).resources;
    assertEquals([one.name.full, one.model], [full, model]);
  }
});

Deno.test("an empty text counts as absent where the published runtime takes it so", async () => {
  const module = { name: "m", executable_path: "/m" };
  const remote = { name: "r", address: "r:1" };
  const usual = await decode({ modules: [module], remotes: [remote], components: [motor()] });
  const found = await decode({
    network: { bind_address: "", sessions: { heartbeat_window: "" } },
    modules: [{ ...module, type: "", log_level: "", first_run_timeout: "" }],
    remotes: [{ ...remote, connection_check_interval: "", reconnect_interval: "" }],
    components: [motor({ log_configuration: { level: "" } })],
  });
  assertEquals(found, usual);
});

Deno.test("a component needs a name and a model, and an empty text is none", async () => {
  const { lines } = await decode({ components: [motor({ name: "" }), motor({ model: "" })] });
  assertEquals(lines, [
    "error components.0.name: missing required field, wanted a name (this entry is ignored)",
    "error components.1.model: missing required field, wanted the name of a model",
  ]);
});

Deno.test("an entry with a bad name keeps the name, spelt so that no other resource can have it", async () => {
  const names = [
    "mo tor!",
    "far:arm",
    "rdk:component:motor/arm",
    "a\u001b[2J\n",
    "b\u00a0",
    "_",
    "c".repeat(61),
  ];
  const { resources, lines } = await decode({ components: names.map((name) => motor({ name })) });
  assertEquals(resources.map(({ name }) => name.short), [
    "mo tor!",
    "far?arm",
    "rdk?component?motor?arm",
    "a\\u001b[2J\\n",
    "b\\u00a0",
    "_",
    `${"c".repeat(59)}…`,
  ]);
  assertEquals(resources.map((one) => one.problems.length), names.map(() => 1));
  assertEquals(lines.length, names.length);
  assertEquals((await decode({ components: [motor({ name: 5 })] })).resources, []);
});

Deno.test("an error in a resource affects that resource alone", async () => {
  const { resources, fatal, lines } = await decode({
    components: [motor({ attributes: { max_rpm: "fast" } }), motor({ name: "right" })],
  });
  assertEquals(fatal, false);
  assertEquals(resources.map((one) => one.problems.length), [1, 0]);
  assertEquals(lines, ['error components.0.attributes.max_rpm: found "fast", wanted a number']);
});

Deno.test("decodeConfig: reports every problem of a resource, without consequences of other problems", async () => {
  const { lines } = await decode({
    components: [
      motor({ frame: 1, depends_on: 2, attributes: { max_rpm: "fast" } }),
      motor({ name: "b", attributes: { note: "${environment.NOPE}" } }),
      motor({ name: "c", attributes: 3, log_configuration: { level: "loud" } }),
    ],
  });
  assertEquals(lines.map((line) => line.split(":")[0]), [
    "warning components.0.frame",
    "error components.0.depends_on",
    "error components.0.attributes.max_rpm",
    "error components.1.attributes.note",
    "warning components.2.log_configuration.level",
    "error components.2.attributes",
  ]);
});

Deno.test("decodeConfig: a configuration may name the home folder, also where no variable gives it", async () => {
  const components = [
    motor({ attributes: { note: "${environment.VIAM_HOME}/a ${environment.SVC_HOME}/b" } }),
  ];
  const noteWith = async (env: Record<string, string>) => {
    const { config } = await decodeConfig({ components }, registry, { env: (name) => env[name] });
    return config.resources[0].attributes.note;
  };
  assertEquals(await noteWith({ HOME: "/home/me" }), "/home/me/.svc/a /home/me/.svc/b");
  assertEquals(await noteWith({ HOME: "/home/me", VIAM_HOME: "/data" }), "/data/a /data/b");
  assertEquals(await noteWith({ HOME: "/home/me", VIAM_HOME: "", SVC_HOME: "/srv" }), "/srv/a /srv/b");
});

Deno.test("decodeConfig: an error in a machine setting is fatal, and other errors are reported with it", async () => {
  const { fatal, lines } = await decode({
    network: { bind_address: "here" },
    components: [motor({ model: 5 })],
  });
  assertEquals(fatal, true);
  assertEquals(lines, [
    'error network.bind_address: found "here", wanted host:port, for example "localhost:8080" or ":8080"',
    "error components.0.model: found 5, wanted the name of a model",
  ]);
});

const PARTS: readonly (readonly [part: string, section: JsonObject, error: string])[] = [
  ["a component", { components: [motor({ attributes: { max_rpm: "fast" } })] }, "max_rpm"],
  ["a component without a usable name", { components: [motor({ name: "a b" })] }, "components.0.name"],
  ["two components of one name", { components: [motor(), motor()] }, "components.1"],
  ["an unknown model", { components: [motor({ model: "turbine" })] }, "components.0.model"],
  ["a remote", { remotes: [{ name: "far" }] }, "remotes.0.address"],
  ["a job", { jobs: [{ name: "j", schedule: "often", resource: "m", method: "Stop" }] }, "jobs.0.schedule"],
  ["a module", { modules: [{ name: "parent", executable_path: "/bin/true" }] }, "modules.0.name"],
];
for (const [part, section, error] of PARTS) {
  Deno.test(`decodeConfig: disable_partial_start refuses a configuration with an error in ${part}`, async () => {
    assertEquals((await decode(section)).fatal, false, "without it, the machine goes without the part");
    const { fatal, lines } = await decode({ ...section, disable_partial_start: true });
    assertEquals(fatal, true);
    assertStringIncludes(lines[0]!, error);
    assertEquals(lines.filter((line) => line.includes("ignored")), [], "nothing is ignored");
    assertStringIncludes(lines.at(-1)!, "error disable_partial_start: it is true");
  });
}

Deno.test("decodeConfig: disable_partial_start takes a configuration that has warnings alone", async () => {
  const { fatal, lines } = await decode({
    components: [motor()],
    unknown: 1,
    log: [{ pattern: "(", level: "info" }],
    disable_partial_start: true,
  });
  assertEquals([fatal, lines.every((line) => line.startsWith("warning"))], [false, true]);
});

Deno.test("decodeConfig: warns about a port that is open to every interface without auth.handlers", async () => {
  const warned = async (network: JsonObject, more: JsonObject = {}) =>
    (await decode({ network, ...more })).lines.length > 0;
  const keys = { handlers: [{ type: "api-key", config: { id: "key", keys: ["id"] } }] };
  assertEquals((await decode({ network: { bind_address: ":8080" } })).lines, [
    "warning network.bind_address: every interface, and no auth.handlers: " +
    "everybody who reaches this computer can move the machine",
  ]);
  assertEquals(await warned({ bind_address: "[::]:8080" }), true);
  assertEquals(await warned({ bind_address: "localhost:8080" }), false);
  assertEquals(await warned({}), false);
  assertEquals(await warned({ bind_address: "0.0.0.0:8080" }, { auth: keys }), false);
  assertEquals(await warned({ bind_address: "0.0.0.0:8080" }, { cloud: { id: "part", secret: "s" } }), false);
});

Deno.test("decodeConfig: reads what each caller may call, and warns where no caller can show who it is", async () => {
  const method = "/viam.component.camera.v1.CameraService/GetImages";
  const permissions = [{ resources: ["cam1"], allowed_methods: [method] }];
  const entries = (...users: JsonObject[]) => users.map((user) => ({ user, permissions }));
  const keys = { handlers: [{ type: "api-key", config: { id: "key", keys: ["id"] } }] };
  const read = (user_permissions: Json, more: JsonObject = keys) =>
    decode({ auth: { ...more, user_permissions } });

  const whole = await read(entries({ type: "api-key-id", id: "me" }, { type: "default" }));
  assertEquals([whole.lines, whole.fatal], [[], false]);
  const granted = [{ resources: ["cam1"], allowedMethods: [method] }];
  assertEquals(whole.config.auth.userPermissions, [
    { user: { type: "api-key-id", id: "me" }, permissions: granted },
    { user: { type: "default", id: "" }, permissions: granted },
  ]);

  const refused = async (user_permissions: Json) => {
    const { lines, fatal } = await read(user_permissions);
    assertEquals(fatal, true);
    return lines[0].replace("error auth.user_permissions.", "");
  };
  assertEquals(await refused([{}]), "0.user: missing required field, wanted an object");
  assertEquals(
    await refused(entries({ type: "email", id: "ann@example.com" })),
    '0.user.type: found "email", wanted one of "api-key-id", "app-user-id", "default"',
  );
  assertEquals(
    await refused(entries({ type: "app-user-id" })),
    "0.user.id: empty, wanted the app-user-id of the caller",
  );
  assertEquals(
    await refused(entries({ type: "default" }, { type: "default", id: "x" })),
    '1.user: "default" has two entries, wanted one for each caller',
  );
  assertEquals(
    await refused([{ user: { type: "default" }, permissions: [{ allowed_methods: ["GetImages"] }] }]),
    '0.permissions.0.allowed_methods.0: found "GetImages", wanted a full method such as "' + method + '"',
  );

  assertEquals((await read(entries({ type: "default" }), {})).lines, [
    "warning auth.user_permissions: no auth.handlers: no caller can show who it is, so all calls are refused",
  ]);
});

Deno.test("decodeConfig: a reloaded module runs the program that the published command line has copied", async () => {
  const module = { name: "soil", type: "registry", module_id: "acme:soil", version: "1.0.0" };
  const reload = { reload_path: "~/soil.tar.gz", reload_enabled: true, reload_user: "me" };
  const of = async (more: JsonObject) => {
    const { config: { modules: [one] }, lines } = await decode({ modules: [{ ...module, ...more }] });
    assertEquals(lines, []);
    return [one.type, one.moduleId, one.version, one.executablePath, one.env];
  };
  const first = await of({ ...reload, reload_time: "2026-05-01T00:00:00Z" });
  const env = { SVC_RELOAD_TIME: "2026-05-01T00:00:00Z" };
  assertEquals(first, ["local", "acme:soil", undefined, "~/soil.tar.gz", env]);
  assertEquals(await of(reload), ["local", "acme:soil", undefined, "~/soil.tar.gz", {}]);
  for (const off of [{ ...reload, reload_enabled: false }, { ...reload, reload_path: "" }]) {
    assertEquals(await of(off), ["registry", "acme:soil", "1.0.0", undefined, {}]);
  }
});

Deno.test("decodeConfig: two resources with the same name become a single unhealthy resource", async () => {
  const { resources } = await decode({ components: [motor(), motor({ name: "right" }), motor()] });
  assertEquals(resources.map(({ name, problems }) => `${name.short} ${problems.length}`), [
    "left 1",
    "right 0",
  ]);
  assertStringIncludes(resources[0].problems[0].message, "components.0 and components.2 are both");
});

Deno.test("decodeConfig: an unknown model is no error if a configured module may provide it", async () => {
  const components = [motor({ model: "weel" })];
  const alone = await decode({ components });
  assertStringIncludes(alone.lines[0], "did you mean rdk:builtin:wheel?");
  const { lines, resources: [one] } = await decode({
    components,
    modules: [{ name: "m", executable_path: "/m" }],
  });
  assertEquals(lines, []);
  assertStringIncludes(one.modelProblem!, "did you mean rdk:builtin:wheel?");
  assertEquals(one.decoded, undefined);
});

Deno.test("decodeConfig: log rules come from the log list first, then services, then components", async () => {
  const own = { log_configuration: { level: "error" } };
  const { config } = await decode({
    components: [motor(own)],
    services: [{ name: "s", type: "slam", ...own }],
    log: [{ pattern: "a", level: "info" }, { pattern: "[", level: "info" }, { pattern: "b", level: "debug" }],
  });
  assertEquals(config.log.map((rule) => rule.pattern), [
    "a",
    "b",
    "rdk.resource_manager.rdk:service:slam/s",
    "rdk.resource_manager.rdk:component:motor/left",
  ]);
});

Deno.test("formatProblems: prints a line per problem, errors first, at most 100 of them", () => {
  const warning = { severity: "warning", path: "a", message: "odd" } as const;
  const error = { severity: "error", path: "", message: "bad" } as const;
  assertEquals(formatProblems([warning, error], "f.json"), "f.json: bad\nf.json: a: warning: odd");
  const many = formatProblems(Array.from({ length: 1000 }, () => error), "f.json").split("\n");
  assertEquals([many.length, many.at(-1)], [101, "f.json: and 900 more problems"]);
});

Deno.test("configJson: prints a configuration without secrets", async () => {
  const { config } = await decode({
    cloud: {
      id: "p",
      secret: "hidden",
      tls_private_key: "hidden",
      location_secrets: [{ id: "a", secret: "hidden" }],
    },
    auth: { handlers: [{ type: "api-key", config: { keys: ["a"], a: "hidden" } }] },
    remotes: [{ name: "r", address: "x:1", auth: { credentials: { type: "api-key", payload: "hidden" } } }],
    components: [motor()],
  });
  const printed = configJson(config);
  assert(!printed.includes("hidden") && printed.includes("******"), printed);
  assertStringIncludes(printed, '"name": "rdk:component:motor/left"');
});

Deno.test("machineSchema: contains the attributes of each model under its name", async () => {
  const schema = await machineSchema(registry);
  const { components, services } = schema.properties as Record<string, { items: { allOf: Json[] } }>;
  assertEquals(services.items.allOf, []);
  assertEquals(components.items.allOf[1], {
    if: {
      properties: { api: { const: "rdk:component:motor" }, model: { enum: ["wheel", "rdk:builtin:wheel"] } },
      required: ["api", "model"],
    },
    then: { properties: { attributes: wheel.attributes.jsonSchema() }, required: ["attributes"] },
  });
});
