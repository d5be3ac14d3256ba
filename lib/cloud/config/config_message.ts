/**
 * Converts a machine's configuration from JSON, as people write it, to the message that a machine polls.
 *
 * Leaves out settings without a field in the message (settings of the agent, for example) and values of the wrong type,
 * which the save has refused already.
 */

import {
  type ComponentConfigSchema,
  CredentialsType,
  type RemoteConfigSchema,
  type RobotConfigSchema,
  type ServiceConfigSchema,
} from "../../../proto/gen/robot_config_pb.ts";
import { toDuration } from "../../api/shared/time.ts";
import { isObject, type Json, type JsonObject, parseDurationMs } from "../../base/schema/schema.ts";
import { RELOAD_TIME } from "../../machine/config/settings.ts";
import { frameMessage, numberOrZero } from "../../cloud_client/frame_message.ts";
import type { MessageInitShape } from "../../wire/rpc/proto.ts";

const CREDENTIALS: { readonly [type: string]: CredentialsType } = {
  "internal": CredentialsType.INTERNAL,
  "api-key": CredentialsType.API_KEY,
  "robot-secret": CredentialsType.ROBOT_SECRET,
  "robot-location-secret": CredentialsType.ROBOT_LOCATION_SECRET,
};

/** The message of a whole configuration, without its `cloud` section. */
export function robotConfigMessage(json: JsonObject) {
  const { network, auth, maintenance, tracing } = json;
  return {
    components: objects(json.components).map(componentMessage),
    services: objects(json.services).map(serviceMessage),
    remotes: objects(json.remotes).map(remoteMessage),
    modules: objects(json.modules).map(moduleMessage),
    packages: [...objects(json.packages).map(packageMessage), ...packagesOfModules(json)],
    processes: objects(json.processes).map(processMessage),
    network: isObject(network) ? networkMessage(network as JsonObject) : undefined,
    auth: isObject(auth) ? authMessage(auth as JsonObject) : undefined,
    debug: json.debug === undefined ? undefined : json.debug === true,
    disablePartialStart: json.disable_partial_start === true || undefined,
    enableWebProfile: json.enable_web_profile === true,
    log: objects(json.log).map(({ pattern, level }) => ({ pattern: text(pattern), level: text(level) })),
    maintenance: isObject(maintenance) ? maintenanceMessage(maintenance as JsonObject) : undefined,
    disableLogDeduplication: json.disable_log_deduplication === true,
    jobs: objects(json.jobs).map((job) => ({
      name: text(job.name),
      schedule: text(job.schedule),
      resource: text(job.resource),
      method: text(job.method),
      command: struct(job.command),
      logConfiguration: logMessage(job),
    })),
    tracing: isObject(tracing)
      ? {
        enabled: tracing.enabled === true,
        disk: tracing.disk === true,
        console: tracing.console === true,
        otlpEndpoint: text(tracing.otlpendpoint as Json),
      }
      : undefined,
  } satisfies MessageInitShape<typeof RobotConfigSchema>;
}

function componentMessage(entry: JsonObject): MessageInitShape<typeof ComponentConfigSchema> {
  const { api, namespace, type } = apiOf(entry, "component");
  return { ...resource(entry), api, namespace, type, frame: frameMessage(entry.frame) };
}

function serviceMessage(entry: JsonObject): MessageInitShape<typeof ServiceConfigSchema> {
  return { ...resource(entry), ...apiOf(entry, "service") };
}

function resource(entry: JsonObject) {
  const { model } = entry;
  return {
    name: text(entry.name),
    // Old files split a model over three members.
    model: isObject(model)
      ? [model.namespace, model.model_family, model.name].map((word) => text(word as Json)).join(":")
      : fullModel(text(model)),
    dependsOn: texts(entry.depends_on),
    attributes: struct(entry.attributes),
    serviceConfigs: objects(entry.service_configs).map(serviceConfigMessage),
    logConfiguration: logMessage(entry),
  };
}

/** In full, which is the only form that the published microcontroller runtime knows. */
function fullModel(model: string): string {
  return model === "" || model.includes(":") ? model : `rdk:builtin:${model}`;
}

/** By `api`, or in older files by `type` and `namespace`. */
function apiOf({ api, type, namespace }: JsonObject, kind: string) {
  const written = text(api) || text(type);
  const [space, , word] = written.split(":");
  if (word !== undefined) return { api: written, namespace: space, type: word };
  const named = text(namespace) || "rdk";
  return { api: `${named}:${kind}:${written}`, namespace: named, type: written };
}

function serviceConfigMessage({ type, attributes }: JsonObject) {
  const word = text(type);
  return { type: word.includes(":") ? word : `rdk:service:${word}`, attributes: struct(attributes) };
}

function logMessage({ log_configuration: log }: JsonObject) {
  return isObject(log) ? { level: text(log.level as Json) } : undefined;
}

function remoteMessage(remote: JsonObject): MessageInitShape<typeof RemoteConfigSchema> {
  const auth = isObject(remote.auth) ? remote.auth as JsonObject : undefined;
  const credentials = isObject(auth?.credentials) ? auth.credentials as JsonObject : undefined;
  return {
    name: text(remote.name),
    address: text(remote.address),
    frame: frameMessage(remote.frame),
    auth: auth && {
      entity: text(auth.entity),
      credentials: credentials && {
        type: CREDENTIALS[text(credentials.type)] ?? CredentialsType.UNSPECIFIED,
        payload: text(credentials.payload),
      },
    },
    managedBy: text(remote.managed_by),
    insecure: remote.insecure === true,
    connectionCheckInterval: duration(remote.connection_check_interval),
    reconnectInterval: duration(remote.reconnect_interval),
    serviceConfigs: objects(remote.service_configs).map(serviceConfigMessage),
    secret: text(remote.secret),
    prefix: text(remote.prefix),
  };
}

/** Whether a program on the device stands for the module's package: the published command line reloads a module so. */
export function isReloaded({ reload_enabled: enabled, reload_path: path }: JsonObject): boolean {
  return enabled === true && text(path) !== "";
}

/** As the message has it, which has no fields for a reloaded module. */
function asReloaded(module: JsonObject): JsonObject {
  if (!isReloaded(module)) return module;
  const time = text(module.reload_time);
  const own = isObject(module.env) ? module.env as JsonObject : {};
  const env = time === "" ? own : { ...own, [RELOAD_TIME]: time };
  return { ...module, type: "local", executable_path: module.reload_path ?? "", env };
}

function moduleMessage(written: JsonObject) {
  const module = asReloaded(written);
  const status = module.status as JsonObject | undefined;
  return {
    name: text(module.name),
    path: text(module.executable_path),
    logLevel: text(module.log_level),
    type: text(module.type) || "local",
    moduleId: text(module.module_id),
    env: environment(module.env),
    status: isObject(status) ? { error: text(status.error as Json) } : undefined,
    firstRunTimeout: duration(module.first_run_timeout),
    tcpMode: module.tcp_mode === true,
  };
}

function packageMessage(one: JsonObject) {
  return {
    name: text(one.name),
    package: text(one.package),
    version: text(one.version),
    type: text(one.type),
  };
}

/** The versions of modules: in the message, as published, a module has one through its package alone. */
function packagesOfModules({ modules, packages }: JsonObject) {
  const listed = new Set(objects(packages).map((one) => text(one.package)));
  return objects(modules)
    .filter((one) => one.type === "registry" && !isReloaded(one))
    .filter((one) => text(one.version) !== "" && !listed.has(text(one.module_id)))
    .map(({ name, module_id: id, version }) =>
      packageMessage({ name: name ?? null, package: id ?? null, version: version ?? null, type: "module" })
    );
}

function processMessage(process: JsonObject) {
  return {
    id: text(process.id),
    name: text(process.name),
    args: texts(process.args),
    cwd: text(process.cwd),
    oneShot: process.one_shot === true,
    log: process.log === true,
    stopSignal: numberOrZero(process.stop_signal),
    stopTimeout: duration(process.stop_timeout),
    env: environment(process.env),
    username: text(process.username),
  };
}

function networkMessage(network: JsonObject) {
  const { sessions } = network;
  return {
    fqdn: text(network.fqdn),
    bindAddress: text(network.bind_address),
    tlsCertFile: text(network.tls_cert_file),
    tlsKeyFile: text(network.tls_key_file),
    noTls: network.no_tls === true,
    sessions: isObject(sessions)
      ? { heartbeatWindow: duration(sessions.heartbeat_window as Json) }
      : undefined,
    trafficTunnelEndpoints: objects(network.traffic_tunnel_endpoints).map((one) => ({
      port: numberOrZero(one.port),
      connectionTimeout: duration(one.connection_timeout),
    })),
  };
}

function authMessage(auth: JsonObject) {
  const { external_auth_config: external } = auth;
  return {
    handlers: objects(auth.handlers).map(({ type, config }) => ({
      type: CREDENTIALS[text(type)] ?? CredentialsType.UNSPECIFIED,
      config: struct(config),
    })),
    tlsAuthEntities: texts(auth.tls_auth_entities),
    externalAuthConfig: isObject(external) ? { jwks: { json: struct(external.jwks as Json) } } : undefined,
    userPermissions: objects(auth.user_permissions).map(({ user, permissions }) => ({
      user: isObject(user) ? { type: text(user.type as Json), id: text(user.id as Json) } : undefined,
      permissions: objects(permissions).map(({ resources, allowed_methods: methods }) => ({
        resources: texts(resources),
        allowedMethods: texts(methods),
      })),
    })),
  };
}

function maintenanceMessage({ sensor_name: sensor, maintenance_allowed_key: key }: JsonObject) {
  const [, namespace = "", type = "", subtype = "", name = ""] =
    /^([^:]*):([^:]*):([^/]*)\/(.*)$/.exec(text(sensor)) ?? ["", "rdk", "component", "sensor", text(sensor)];
  return { sensorName: { namespace, type, subtype, name }, maintenanceAllowedKey: text(key) };
}

// Typed reads of arbitrary values.

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function texts(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function objects(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter((one): one is JsonObject => isObject(one)) : [];
}

function struct(value: Json | undefined): JsonObject | undefined {
  return isObject(value) ? value as JsonObject : undefined;
}

function environment(value: Json | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(struct(value) ?? {}).map(([key, one]) => [key, text(one)]));
}

/** Written as `1m30s`, or in nanoseconds. */
function duration(value: Json | undefined) {
  let ms: number | undefined;
  if (typeof value === "string") ms = parseDurationMs(value);
  else if (typeof value === "number") ms = value / 1e6;

  return ms === undefined ? undefined : toDuration(ms);
}
