import { assertEquals, assertThrows } from "@std/assert";
import { RobotConfigSchema } from "../../proto/gen/robot_config_pb.ts";
import type { Json, JsonObject } from "../base/schema/schema.ts";
import { create, fromBinary, toBinary } from "../wire/rpc/proto.ts";
import { robotConfigJson } from "./config_json.ts";
import { robotConfigMessage } from "../cloud/config/config_message.ts";

Deno.test("robotConfigMessage: a reloaded module runs its program instead of the package, which is not fetched", () => {
  const module = {
    name: "soil",
    type: "registry",
    module_id: "acme:soil",
    version: "latest-with-prerelease",
  };
  const reload = {
    reload_path: "/home/me/soil.tar.gz",
    reload_user: "me",
    reload_time: "2026-05-01T00:00:00Z",
  };
  const env = { DEPTH: "3" };
  const { modules, packages } = through({ modules: [{ ...module, ...reload, env, reload_enabled: true }] });
  assertEquals([modules, packages], [[{
    name: "soil",
    type: "local",
    module_id: "acme:soil",
    executable_path: "/home/me/soil.tar.gz",
    env: { DEPTH: "3", SVC_RELOAD_TIME: "2026-05-01T00:00:00Z" },
  }], undefined]);
  const back = through({ modules: [{ ...module, ...reload, reload_enabled: false }] });
  assertEquals(back.modules, [module]);
  assertEquals((back.packages as JsonObject[]).length, 1);
});

/** A file after its way through a control plane, including the bytes on the wire. */
function through(json: JsonObject): JsonObject {
  const message = create(RobotConfigSchema, robotConfigMessage(json));
  return robotConfigJson(fromBinary(RobotConfigSchema, toBinary(RobotConfigSchema, message)));
}

const part = {
  name: "a",
  api: "rdk:component:motor",
  namespace: "rdk",
  type: "motor",
  model: "rdk:builtin:fake",
};

const SAME: Record<string, JsonObject> = {
  nothing: {},
  resources: {
    components: [{ ...part, attributes: { pins: { a: "1" }, list: [1, null, true] }, depends_on: ["b"] }],
    services: [{
      name: "s",
      api: "rdk:service:vision",
      namespace: "rdk",
      type: "vision",
      model: "x:y:z",
      log_configuration: { level: "debug" },
      service_configs: [{ type: "rdk:service:data_manager", attributes: { capture: true } }],
    }],
  },
  flags: {
    debug: true,
    enable_web_profile: true,
    disable_log_deduplication: true,
    disable_partial_start: true,
  },
  settings: {
    network: {
      fqdn: "m.local",
      bind_address: ":8080",
      sessions: { heartbeat_window: "1.500s" },
      traffic_tunnel_endpoints: [{ port: 22, connection_timeout: "10s" }],
    },
    log: [{ pattern: "rdk.*", level: "warn" }],
    maintenance: { sensor_name: "rdk:component:sensor/door", maintenance_allowed_key: "safe" },
    tracing: { enabled: true, otlpendpoint: "localhost:4317" },
    jobs: [{
      name: "j",
      schedule: "5m",
      resource: "a",
      method: "DoCommand",
      command: { go: 1 },
      log_configuration: { level: "info" },
    }],
  },
  auth: {
    auth: {
      handlers: [{ type: "api-key", config: { id: "key", keys: ["id"] } }],
      tls_auth_entities: ["client"],
      user_permissions: [{
        user: { type: "api-key-id", id: "id" },
        permissions: [{ resources: ["a"], allowed_methods: ["/viam.component.motor.v1.MotorService/Stop"] }],
      }, { user: { type: "default" } }],
      external_auth_config: { jwks: { keys: [{ kty: "RSA", alg: "RS256", kid: "k" }] } },
    },
  },
  programs: {
    modules: [{
      name: "m",
      type: "local",
      executable_path: "/m",
      log_level: "debug",
      env: { A: "b" },
      tcp_mode: true,
      first_run_timeout: "60s",
    }, { name: "bad", type: "registry", module_id: "o:m", status: { error: "no such version" } }],
    packages: [{ name: "p", package: "o/p", version: "1", type: "slam_map" }],
  },
  remotes: {
    remotes: [{
      name: "r",
      address: "r:8080",
      prefix: "p",
      insecure: true,
      connection_check_interval: "10s",
      reconnect_interval: "1s",
      secret: "s",
      auth: { entity: "e", credentials: { type: "api-key", payload: "k" } },
      frame: { parent: "world" },
    }],
  },
};

Deno.test("robotConfigMessage: a registry module's version travels in its package, as published", () => {
  const module = { name: "m", type: "registry", module_id: "o:m" };
  const own = { name: "m", package: "o:m", version: "^1.2", type: "module" };
  const listed = { ...own, name: "listed", version: "1.0.0" };
  assertEquals(through({ modules: [{ ...module, version: "^1.2" }] }), {
    modules: [{ ...module, version: "^1.2" }],
    packages: [own],
  });
  assertEquals(through({ modules: [module], packages: [listed] }).modules, [{ ...module, version: "1.0.0" }]);
  assertEquals(through({ modules: [module] }).modules, [module]);
});

for (const [what, json] of Object.entries(SAME)) {
  Deno.test(`robotConfigJson: restores the configuration from its message: ${what}`, () => {
    assertEquals(through(json), json);
  });
}

const VALUE = { x: 0, y: 0.5, z: 1 };
const FRAMES: [what: string, frame: JsonObject][] = [
  ["a translation", { parent: "world", translation: VALUE }],
  ["a vector in degrees", {
    parent: "world",
    orientation: { type: "ov_degrees", value: { ...VALUE, th: 90 } },
  }],
  ["a vector in radians", {
    parent: "world",
    orientation: { type: "ov_radians", value: { ...VALUE, th: 1 } },
  }],
  ["an axis", { parent: "world", orientation: { type: "axis_angles", value: { ...VALUE, th: 1 } } }],
  ["angles", {
    parent: "world",
    orientation: { type: "euler_angles", value: { roll: 1, pitch: 2, yaw: 3 } },
  }],
  ["a quaternion", { parent: "world", orientation: { type: "quaternion", value: { w: 1, ...VALUE } } }],
  ["no orientation type", { parent: "world", orientation: { type: "" } }],
];

for (const [what, frame] of FRAMES) {
  Deno.test(`robotConfigJson: restores a frame from its message: ${what}`, () => {
    assertEquals(through({ components: [{ ...part, frame }] }).components, [{ ...part, frame }]);
  });
}

Deno.test("robotConfigJson: each geometry shape survives the message", () => {
  const place = {
    translation: { x: 1, y: 2, z: 3 },
    orientation: { type: "ov_degrees", value: { x: 0, y: 0, z: 1, th: 0 } },
    label: "body",
  };
  const shapes: JsonObject[] = [
    { type: "box", x: 1, y: 2, z: 3 },
    { type: "sphere", r: 4 },
    { type: "capsule", r: 1, l: 5 },
    { type: "mesh", mesh_data: "AAEC", mesh_content_type: "stl" },
  ];
  for (const shape of shapes) {
    const frame: Json = { parent: "world", geometry: { ...shape, ...place } };
    assertEquals(through({ components: [{ ...part, frame }] }).components, [{ ...part, frame }]);
  }
});

Deno.test("robotConfigJson: drops message fields without a setting in the file", () => {
  const message = create(RobotConfigSchema, {
    overwriteFragmentStatus: [{ error: "x" }],
    processes: [{ name: "p" }],
    auth: {},
    packages: [{ name: "p", status: { error: "x" } }],
  });
  assertEquals(robotConfigJson(message), { auth: {}, packages: [{ name: "p" }] });
});

Deno.test("robotConfigJson: passes incomplete values to the decoder, and NaN throws", () => {
  const { maintenance, components } = robotConfigJson(create(RobotConfigSchema, {
    maintenance: {},
    components: [{ name: "a", frame: { geometry: { label: "body" } } }],
  }));
  assertEquals(maintenance, { sensor_name: "::/" });
  assertEquals(components, [{ name: "a", frame: { parent: "", geometry: { label: "body" } } }]);
  const message = create(RobotConfigSchema, { components: [{ attributes: { x: NaN } }] });
  assertThrows(() => robotConfigJson(message));
});
