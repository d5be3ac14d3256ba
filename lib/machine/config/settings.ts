/**
 * The settings of a machine besides its resources: a field for each section and for the entries of each list.
 *
 * The only place with their published names. A check after a field covers relations between several settings.
 */

import { type Level, parseLevel } from "../../base/log/log.ts";
import {
  any,
  anyObject,
  bool,
  choice,
  ConfigField,
  type DecodeContext,
  duration,
  type Infer,
  integer,
  list,
  mapOf,
  object,
  orNothing,
  text,
} from "../../base/schema/schema.ts";
import { Secret, secret } from "../../base/secret.ts";
import { frameField } from "../../geometry/schema.ts";
import { NAME_LENGTH_MAX } from "../../resource/name.ts";
import { parseSchedule } from "./schedule.ts";

export type CloudConfig = NonNullable<Infer<typeof cloudField>>;
export type NetworkConfig = NonNullable<Infer<typeof networkField>>;
export type AuthConfig = NonNullable<Infer<typeof authField>>;
export type UserPermission = AuthConfig["userPermissions"][number];
export type MaintenanceConfig = NonNullable<Infer<typeof maintenanceField>>;
export type TracingConfig = NonNullable<Infer<typeof tracingField>>;
export type ModuleConfig = NonNullable<Infer<typeof moduleField>>;
export type RemoteConfig = NonNullable<Infer<typeof remoteField>>;
export type PackageConfig = NonNullable<Infer<typeof packageField>>;
export type JobConfig = NonNullable<Infer<typeof jobField>>;

/** A name in the configuration: modules, packages and jobs may have longer ones than resources and remotes. */
export function nameRow(doc: string, lengthMax = NAME_LENGTH_MAX): ConfigField<string | undefined> {
  return text(doc, {
    pattern: new RegExp(`^[a-zA-Z0-9][-\\w]{0,${lengthMax - 1}}$`),
    wanted: `1 to ${lengthMax} letters, digits, "-" and "_", beginning with a letter or digit`,
  });
}

const LONG_NAME_MAX = 200;

/** A log level in any letter case. An unknown one is a warning and counts as absent, as an empty one does. */
const levelField: ConfigField<Level | undefined> = new ConfigField<Level | undefined>({
  doc: "lowest level to log",
  json: {
    anyOf: [{ enum: ["debug", "info", "warn", "error"] }, {
      type: "string",
      pattern: anyCase("debug|info|warn(ing)?|error"),
    }],
  },
  wanted: "debug, info, warn or error",
  read: (value, at) => {
    const level = typeof value === "string" ? parseLevel(value) : undefined;
    if (level === undefined) {
      at.warn(
        `${JSON.stringify(value)} is not a log level and is ignored, wanted debug, info, warn or error`,
      );
    }
    return level;
  },
}).emptyIsAbsent();

function anyCase(pattern: string): string {
  return `^(${pattern.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`)})$`;
}

export const logConfigurationField = object({ level: levelField }, "log level of this entry alone");

export const cloudField = object({
  id: text("ID of the machine part").required(),
  apiKey: object({
    id: text("ID of the key"),
    key: secret("the key itself"),
  }, "credentials of the machine part"),
  secret: secret("credentials in the old form; an API key is preferred"),
  appAddress: text("address of the control plane"),
  refreshInterval: duration("interval of checks for a new configuration").default(10_000),
  metered: bool("the connection costs money by its traffic: the machine sends less").default(false),
  fqdn: text("name of the machine, set by the control plane"),
  localFqdn: text("name of the machine in its own network, set by the control plane"),
  locationId: text(),
  primaryOrgId: text(),
  machineId: text(),
  managedBy: text(),
  locationSecret: secret(),
  locationSecrets: list(object({ id: text(), secret: secret() })).default([]),
  signalingAddress: text("address of the signaling server for WebRTC"),
  signalingInsecure: bool("the signaling address uses no TLS").default(false),
  tlsCertificate: text("certificate chain (PEM)"),
  tlsPrivateKey: secret("key of the certificate (PEM)"),
}, "the control plane that this machine belongs to").with((cloud, at) => {
  const { apiKey } = cloud;
  if (apiKey && !(apiKey.id && apiKey.key)) return at.at("api_key").error("wanted both an id and a key");
  if (!apiKey && !cloud.secret) {
    return at.at("api_key").error("missing required field, wanted an id and a key");
  }
  return { ...cloud, apiKey: apiKey?.id && apiKey.key ? { id: apiKey.id, key: apiKey.key } : undefined };
});

/** The machine's address; without a host, every interface. */
export interface Bind {
  readonly host: string;
  readonly port: number;
  /** The default host with a certificate of the control plane, if it differs. */
  readonly managedHost?: string;
}

const addressField = text(
  "host:port to listen on; without a host, on every interface; the default is :8080 with a certificate of the control plane",
).with((address, at): Bind | undefined => {
  const { v6, host = v6, port } =
    /^(?:\[(?<v6>[^\]]*)\]|(?<host>[^:]*)):(?<port>\d{1,5})$/.exec(address)?.groups ?? {};
  if (host !== undefined && Number(port) <= 65_535) return { host, port: Number(port) };
  return at.wanted('host:port, for example "localhost:8080" or ":8080"', address);
}).emptyIsAbsent();

/** STUN and TURN servers for WebRTC. */
const iceServerField = object({
  urls: list(text()).default([]),
  username: text("user name for a TURN server"),
  credential: secret("password for a TURN server"),
});

const webrtcField = object({
  maxPeers: integer("maximum of peers, connected or connecting", { min: 1, max: 10_000 }).default(512),
  maxOffers: integer("maximum of connecting peers", { min: 1, max: 1_000 }).default(32),
  maxCandidates: integer("maximum of ICE candidates from one peer", { min: 1, max: 1_000 }).default(64),
  maxCalls: integer("maximum of calls in progress on one peer", { min: 1, max: 10_000 }).default(256),
  iceServers: list(iceServerField, "STUN and TURN servers, for machines behind a NAT").default([]),
}, "connections over WebRTC").orEmpty();

export const networkField = object({
  fqdn: text("name of the machine on the network"),
  bindAddress: addressField.default({ host: "localhost", port: 8080, managedHost: "" }, "localhost:8080"),
  tlsCertFile: text("path of the certificate (PEM)"),
  tlsKeyFile: text("path of the certificate's key (PEM)"),
  noTls: bool("serve without TLS even with a certificate").default(false),
  sessions: object({
    heartbeatWindow: duration("how long a client may be silent before its movements stop")
      .default(2_000)
      .with((ms, at) => ms >= 30 && ms <= 60_000 ? ms : at.error("wanted a duration from 30ms to 1m")),
  }).orEmpty(),
  webrtc: webrtcField,
  trafficTunnelEndpoints: list(object({
    port: integer("port on this computer", { min: 1, max: 65_535 }).required(),
    connectionTimeout: duration("longest wait for a connection to the port").default(10_000),
  })).default([]),
}, "network settings of the machine").with((network, at) => {
  const { tlsCertFile, tlsKeyFile } = network;
  if (tlsCertFile && !tlsKeyFile) {
    return at.at("tls_key_file").error("missing, wanted together with tls_cert_file");
  }
  if (tlsKeyFile && !tlsCertFile) {
    return at.at("tls_cert_file").error("missing, wanted together with tls_key_file");
  }
  const { sessions, ...rest } = network;
  return { ...rest, heartbeatWindowMs: sessions.heartbeatWindow };
}).orEmpty();

const KEY_IDS = "a list of at least one key ID";

/** `{<key id>: <key>, "keys": [<key id>…]}` */
const apiKeysField = anyObject("pairs of key ID and key, and `keys`, the list of the IDs").with(
  (config, at) => {
    if (!Array.isArray(config.keys) || config.keys.length === 0) {
      // A text may be the key itself.
      if (typeof config.keys === "string") at.at("keys").error(`found a text (not shown), wanted ${KEY_IDS}`);
      else at.at("keys").wanted(KEY_IDS, config.keys);
      return undefined;
    }
    const apiKeys: { [id: string]: Secret } = {};
    for (const [id, key] of Object.entries(config)) {
      if (id === "keys" || id === "key") continue;
      if (typeof key !== "string" || key === "") {
        at.at(id).error("found something else (not shown), wanted an API key");
      } else apiKeys[id] = new Secret(key);
    }

    if (Object.keys(apiKeys).length === 0) {
      return at.error("no API keys, wanted at least one pair of key ID and key");
    }
    for (const id of config.keys) {
      if (typeof id !== "string" || !Object.hasOwn(config, id)) {
        at.at("keys").warn(`${JSON.stringify(id)} has no key`);
      }
    }

    return apiKeys;
  },
);

const handlerField = object({
  type: choice("only API keys can be configured", ["api-key"]).required(),
  config: apiKeysField.required(),
});

const jwkField = anyObject("a public key").with((key, at) => {
  if (key.kty !== "RSA") return at.at("kty").wanted('"RSA"', key.kty);
  if (!["RS256", "RS384", "RS512"].includes(key.alg as string)) {
    return at.at("alg").wanted("RS256, RS384 or RS512", key.alg);
  }
  return key;
});

const attemptLimitsField = object({
  wrongKeysPerAddress: integer("wrong keys in a row from one address before the machine slows it down", {
    min: 1,
    max: 1_000_000,
  }).default(20),
  wrongKeysPerKey: integer(
    "wrong keys in a row for one key ID from one address before the machine slows them down",
    {
      min: 1,
      max: 1_000_000,
    },
  ).default(5),
  keyChecksAtOnce: integer("keys to check at the same time; further keys wait", {
    min: 1,
    max: 1_000,
  })
    .default(4),
}, "limits for wrong keys").orEmpty();

const METHOD = /^\/[\w.]+\.\w+\/\w+$/;

const permissionField = object({
  resources: list(text(), 'names of resources; "_machine" for calls that address none').default([]),
  allowedMethods: list(
    text().with((method, at) =>
      METHOD.test(method)
        ? method
        : at.wanted('a full method such as "/viam.component.camera.v1.CameraService/GetImages"', method)
    ),
    "what the caller may call on them",
  ).default([]),
}, "methods that may be called on some resources");

const userField = object({
  type: choice(
    'how the caller is known; "default" stands for all who have no entry of their own',
    ["api-key-id", "app-user-id", "default"],
  ).required(),
  id: text("the caller's key ID or user ID").default(""),
}, "a caller").with((user, at) => {
  const { type, id } = user;
  if (type !== "default" && id === "") return at.at("id").error(`empty, wanted the ${type} of the caller`);
  return type === "default" ? { type, id: "" } : { type, id };
});

const userPermissionsField = list(
  object({
    user: userField.required(),
    permissions: list(permissionField, "what this caller may call").default([]),
  }, "what one caller may call"),
  "what each caller may call; with it, callers without an entry may call nothing",
).default([]).with((entries, at) => {
  const seen = new Set<string>();
  for (const [index, { user: { type, id } }] of entries.entries()) {
    if (seen.has(id)) {
      const who = type === "default" ? '"default"' : `"${id}"`;
      return at.at(`${index}.user`).error(`${who} has two entries, wanted one for each caller`);
    }
    seen.add(id);
  }
  return entries;
});

export const authField = object({
  handlers: list(handlerField, "who may connect").default([]),
  tlsAuthEntities: list(
    text(),
    "names in client certificates, of the issuers in the file of the server's own, that may connect without a token",
  ).default([]),
  externalAuthConfig: object({
    jwks: object({
      keys: list(jwkField).required().with((keys, at) =>
        keys.length > 0 ? keys : at.wanted("at least one key", keys)
      ),
    }).required(),
  }, "keys of outside token issuers"),
  tokenKeysFile: text(
    "file for the keys that sign tokens, so that tokens outlive a restart; a relative path begins in the program's home folder",
  ),
  limits: attemptLimitsField,
  userPermissions: userPermissionsField,
}, "who may use the machine").with((auth, at) => {
  const { handlers, tlsAuthEntities, externalAuthConfig, tokenKeysFile, limits, userPermissions } = auth;
  if (handlers.length > 1) return at.at("handlers.1.type").error('"api-key" is there twice, wanted it once');
  return {
    apiKeys: handlers.at(0)?.config,
    tlsAuthEntities,
    publicKeys: externalAuthConfig?.jwks.keys ?? [],
    tokenKeysFile: tokenKeysFile || undefined,
    limits,
    userPermissions,
  };
}).orEmpty();

export const maintenanceField = object({
  sensorName: text("full name of a sensor, for example rdk:component:sensor/door").required().with(
    (name, at) => {
      if (/^[\w-]+:component:[\w-]+\/.+$/.test(name)) return name;
      const word = name.split(/[:/]/).at(-1)!.trim();
      const wanted = `rdk:component:sensor/${word || "<name>"}`;
      return at.error(`"${name}" is not the full name of a sensor, wanted ${wanted}`);
    },
  ),
  maintenanceAllowedKey: text("key of the reading that is true when the configuration may change").required(),
}, "when the configuration may change");

export const tracingField = object({
  enabled: bool().default(false),
  disk: bool("write spans to files").default(false),
  console: bool("write spans to the log").default(false),
  otlpendpoint: text("send spans to this collector"),
}, "what is traced").orEmpty();

export const logField = object({
  pattern: text(
    "regular expression for whole names of loggers, such as rdk.components.arm, rdk.components.arm.left or rdk.services.*",
  ).required(),
  level: levelField.required(),
});

/** The variable that tells a module when its program was put in the place of its package. */
export const RELOAD_TIME = "SVC_RELOAD_TIME";

export const moduleField = object({
  name: nameRow("name of the module", LONG_NAME_MAX).required().with((name, at) => {
    return name === "parent" ? at.error('"parent" is reserved, wanted another name') : name;
  }),
  type: choice("origin of the module", ["local", "registry"]).emptyIsAbsent().default("local"),
  executablePath: text("program to run; required for a local module"),
  moduleId: text("ID in the registry; required for a registry module"),
  version: text("version in the registry"),
  reloadPath: text(
    "program or archive that runs in place of the package, as the published command line sets it",
  ),
  reloadEnabled: bool("run reload_path").default(false),
  reloadUser: text(),
  reloadTime: text(),
  logLevel: levelField,
  env: mapOf(text(), "environment variables of the program").default({}),
  tcpMode: bool("talk over TCP rather than a Unix socket").default(false),
  reconfigures: bool(
    "the module changes resources in place (ReconfigureResource) instead of rebuilding them",
  )
    .default(false),
  firstRunTimeout: duration("time limit of its first-run script").default(3_600_000),
  limits: object({
    memoryMb: integer("memory, in MiB", { min: 1 }),
    cpuPercent: integer("processor time; 100 is one core", { min: 1 }),
    processes: integer("processes and threads", { min: 1 }),
  }, "limits for all its processes together; needs root"),
  status: object({ error: text() }, "set by the control plane"),
}, "a program that provides resources").with((written, at) => {
  const { reloadPath, reloadEnabled, reloadUser: _user, reloadTime, ...own } = written;
  // The time is news of another program at the same path: with it the module starts again.
  const env = reloadTime ? { ...own.env, [RELOAD_TIME]: reloadTime } : own.env;
  const module = reloadEnabled && reloadPath
    ? { ...own, type: "local" as const, executablePath: reloadPath, version: undefined, env }
    : own;
  if (module.status?.error) return at.at("status").error(module.status.error);
  if (module.type === "local" && !module.executablePath) {
    return at.at("executable_path").error(
      "missing required field, wanted the path of the program of a local module",
    );
  }
  if (module.type === "registry" && !module.moduleId) {
    return at.at("module_id").error("missing required field, wanted the ID of a registry module");
  }
  return module;
});

export const serviceConfigField = object({
  type: text("API of the service, or its bare type").required()
    .with((type) => type.includes(":") ? type : `rdk:service:${type}`),
  attributes: anyObject("the service's settings for this resource").default({}),
});

export const remoteField = object({
  name: nameRow("name of the remote; its resources are called <name>:<resource>").required(),
  address: text("host:port of the machine").required(),
  frame: orNothing(frameField, "the frame is ignored"),
  auth: object({
    credentials: object({ type: text("kind of credentials").required(), payload: secret("the credentials") }),
    entity: text("owner of the credentials"),
  }),
  managedBy: text(),
  insecure: bool("connect without TLS, which is otherwise tried first").default(false),
  connectionCheckInterval: duration("time between two checks of the connection").default(10_000),
  reconnectInterval: duration("time between two attempts to connect").default(1_000),
  secret: secret("credentials in the old form"),
  prefix: text("prefix for the names of its resources").default(""),
  serviceConfigs: list(serviceConfigField).default([]),
}, "another machine whose resources are part of this one").with((remote, at) => {
  if (!remote.frame || remote.frame.parent) return remote;
  at.at("frame.parent").warn("missing required field, wanted a frame (the frame is ignored)");
  return { ...remote, frame: undefined };
});

export const packageField = object({
  name: nameRow("name of the package in this file", LONG_NAME_MAX).required(),
  package: text("ID of the package: <organization>/<name>").required(),
  version: text("version of the package").default("latest"),
  type: choice("kind of package", ["ml_model", "module", "slam_map", "archive"]).required(),
}, "files to fetch");

export const jobField = object({
  name: nameRow("name of the job", LONG_NAME_MAX).required(),
  schedule: text('a duration ("5m"), a cron line of 5 or more fields, "@daily" and the like, or "continuous"')
    .required().with(
      (when, at) => {
        if (parseSchedule(when)) return when;
        return at.wanted('a duration such as "5m", a cron line of 5 or more fields, or "continuous"', when);
      },
    ),
  resource: text("name of the resource to call").required(),
  method: text("method to call").required(),
  command: anyObject("argument of DoCommand").default({}),
  logConfiguration: logConfigurationField,
}, "a scheduled call");

/** Settings for other programs, and settings that the control plane leaves in the file. */
export const foreignFields = {
  schema: any("schema of this file, for editors").key("$schema"),
  agent: any("settings of the agent, which reads them itself"),
  fragments: any(),
  fragmentMods: any(),
  triggers: any("notifications of what happens at the machine, which the control plane reads itself"),
  dataRetentionPolicy: any(
    "how many days the control plane keeps what this part captures, which it reads itself",
  ),
  processes: any("no longer supported: use a module or a service of the system").with(
    (value, at: DecodeContext) => {
      const isEmpty = Array.isArray(value) && value.length === 0;
      if (!isEmpty) at.warn("processes are no longer run and this setting is ignored; use a module instead");
      return undefined;
    },
  ),
};
