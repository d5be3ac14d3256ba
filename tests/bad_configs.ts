/**
 * A table of broken configurations: the fault, the file, the required outcome and the one required message.
 */

import type { Json, JsonObject } from "../lib/base/schema/schema.ts";

/** The outcome of a file: `refused`, or the machine runs without an entry, or it only warns, or everything works. */
export type Outcome = "refused" | "unhealthy" | "left out" | "warned" | "fine";

export type Case = readonly [what: string, file: Content, outcome: Outcome, message: string];

/** JSON, or text, or bytes; the larger ones are made when they are needed. */
export type Content = JsonObject | Json[] | string | Uint8Array | (() => string | Uint8Array);

export function bytesOf(content: Content): Uint8Array {
  const made = typeof content === "function" ? content() : content;
  if (made instanceof Uint8Array) return made;
  return new TextEncoder().encode(typeof made === "string" ? made : JSON.stringify(made));
}

/** The environment in which they are read. */
export const ENV: Readonly<Record<string, string>> = { TOKEN: "secret text", SVC_HOME: "/svc" };

const with1 = (changes: JsonObject): JsonObject => ({ components: [part(changes)] });

/** A component that is right but for `changes`. */
export const part = (changes: JsonObject = {}): JsonObject => ({
  name: "a",
  api: "rdk:component:generic",
  model: "fake",
  ...changes,
});

/** A GPIO motor and its board, with changed attributes of the motor. */
const motor = (attributes: JsonObject): JsonObject => ({
  components: [
    { name: "b", api: "rdk:component:board", model: "fake" },
    {
      name: "a",
      api: "rdk:component:motor",
      model: "gpio",
      attributes: { board: "b", pins: { dir: "1", pwm: "2" }, max_rpm: 100, ...attributes },
    },
  ],
});

const api = (changes: JsonObject): JsonObject => ({
  auth: { handlers: [{ type: "api-key", config: { keys: ["id"], id: "key" }, ...changes }] },
});

const keys = (...keys: Json[]): JsonObject => ({ auth: { external_auth_config: { jwks: { keys } } } });

const utf16 = (text: string): Uint8Array =>
  new Uint8Array([...text].flatMap((letter) => [letter.charCodeAt(0), 0]));

const NAME = 'wanted 1 to 60 letters, digits, "-" and "_", beginning with a letter or digit';
const LONG_NAME = NAME.replace("60", "200");
const OUT = " (this entry is ignored)";

export const FILES: readonly Case[] = [
  ["empty file", "", "refused", "f.json: the file is empty, wanted JSON"],
  ["only a comment", "// later\n", "refused", "f.json: the file is empty, wanted JSON"],
  ["not JSON", "components:\n  - name: a\n", "refused", 'f.json:1:1: found "components", wanted a value'],
  ["a program", "\x7fELF\x02\x01", "refused", 'f.json:1:1: found "\x7f", wanted a value'],
  ["an array", [], "refused", 'f.json: found an empty array, wanted an object such as {"components": []}'],
  ["a text", '"x"', "refused", 'f.json: found "x", wanted an object such as {"components": []}'],
  ["null", "null", "refused", 'f.json: found null, wanted an object such as {"components": []}'],
  [
    "two documents",
    "{}\n{}",
    "warned",
    'f.json: warning: 2:1: found "{", wanted the end of the file; this and what follows is ignored',
  ],
  [
    "cut off",
    '{"components": [',
    "refused",
    'f.json:1:17: found the end of the file, wanted a closing "]" for the "[" at 1:16',
  ],
  ["missing comma", '{"a": 1\n"b": 2}', "refused", 'f.json:2:1: found a ", wanted "," or "}"'],
  ["missing colon", '{"a" 1}', "refused", 'f.json:1:6: found "1", wanted ":" after the key'],
  ["wrong bracket", '{"components": [}', "refused", 'f.json:1:17: found "}", wanted a value'],
  ["single quotes", "{'a': 1}", "refused", `f.json:1:2: found a ', wanted a key in double quotes or "}"`],
  ["bare key", "{debug: 1}", "refused", 'f.json:1:2: found "debug", wanted a key in double quotes or "}"'],
  [
    "Python",
    '{"debug": True}',
    "refused",
    'f.json:1:11: found "True", wanted a value; did you mean true?',
  ],
  ["leading zero", '{"a": 007}', "refused", 'f.json:1:7: found "007", wanted a value'],
  ["huge number", '{"a": 1e999}', "refused", 'f.json:1:7: found "1e999", wanted a number up to 1.8e308'],
  [
    "line break in a text",
    '{"a": "x\ny"}',
    "refused",
    'f.json:1:7: found the end of the line in a text, wanted a closing "',
  ],
  [
    "Windows path",
    '{"a": "C:\\svc"}',
    "refused",
    'f.json:1:10: found "\\\\s", wanted \\\\ for a backslash',
  ],
  ["tab in a text", '{"a": "\t"}', "refused", 'f.json:1:8: found "\\t", wanted it written with a backslash'],
  ["NUL byte", '{"a": \0}', "refused", "f.json:1:7: found a NUL character, wanted a value"],
  [
    "zeros after a power loss",
    new Uint8Array(4096),
    "refused",
    "f.json:1:1: found a NUL character, wanted a value",
  ],
  [
    "UTF-16 with a mark",
    utf16("\uFEFF{}").with(0, 0xff).with(1, 0xfe),
    "refused",
    "f.json: found UTF-16 text, wanted UTF-8",
  ],
  ["UTF-16", utf16("{}"), "refused", "f.json: found UTF-16 text, wanted UTF-8"],
  [
    "Latin-1",
    new Uint8Array([0x7b, 0x0a, 0x22, 0xe9, 0x22, 0x7d]),
    "refused",
    'f.json:2:4: found "}", wanted ":" after the key',
  ],
  ["byte order mark", "\uFEFF{}", "fine", ""],
  [
    "open comment",
    '{} /* "',
    "warned",
    'f.json: warning: 1:4: found a comment without its closing "*/"; this and what follows is ignored',
  ],
  ["deep arrays", () => "[".repeat(1e6), "refused", "f.json:1:101: nested deeper than 100 levels"],
  ["deep objects", () => '{"a":'.repeat(1e6), "refused", "f.json:1:501: nested deeper than 100 levels"],
  [
    "50 MB",
    () => new Uint8Array(50 * 1024 * 1024),
    "refused",
    "f.json: the file has 50.0 MiB, wanted at most 16 MiB",
  ],
  [
    "millions of values",
    () => `[${"0,".repeat(4e6)}0]`,
    "refused",
    "f.json:1:1000000: more than 500000 values",
  ],
  ["unset variable", '{"debug": $NOPE}', "refused", "f.json:1:11: environment variable NOPE is not set"],
  [
    "text variable without quotes",
    '{"debug": ${TOKEN}}',
    "refused",
    'f.json:1:11: ${TOKEN} is not a number, true, false or null; a text needs quotes: "${TOKEN}"',
  ],
  [
    "placeholder without quotes",
    '{"debug": ${environment.X}}',
    "refused",
    'f.json:1:11: found "$", wanted a value; a placeholder needs quotes',
  ],
  [
    "key written twice",
    '{"debug": true, "debug": false}',
    "warned",
    "f.json: debug: warning: written more than once, the last one counts",
  ],
];

export const SETTINGS: readonly Case[] = [
  [
    "components in an object",
    { components: {} },
    "refused",
    "f.json: components: found an object, wanted an array",
  ],
  ["services as a text", { services: "none" }, "refused", 'f.json: services: found "none", wanted an array'],
  ["flag as a text", { debug: "yes" }, "refused", 'f.json: debug: found "yes", wanted true or false'],
  ["revision as a number", { revision: 3 }, "refused", "f.json: revision: found 3, wanted a string"],
  [
    "network as an array",
    { network: [] },
    "refused",
    "f.json: network: found an empty array, wanted an object",
  ],
  [
    "address without a port",
    { network: { bind_address: "localhost" } },
    "refused",
    'f.json: network.bind_address: found "localhost", wanted host:port, for example "localhost:8080" or ":8080"',
  ],
  [
    "port out of range",
    { network: { bind_address: ":70000" } },
    "refused",
    'f.json: network.bind_address: found ":70000", wanted host:port, for example "localhost:8080" or ":8080"',
  ],
  [
    "certificate without a key",
    { network: { tls_cert_file: "cert.pem" } },
    "refused",
    "f.json: network.tls_key_file: missing, wanted together with tls_cert_file",
  ],
  [
    "key without a certificate",
    { network: { tls_key_file: "key.pem" } },
    "refused",
    "f.json: network.tls_cert_file: missing, wanted together with tls_key_file",
  ],
  [
    "duration without a unit",
    { network: { sessions: { heartbeat_window: "2" } } },
    "refused",
    'f.json: network.sessions.heartbeat_window: found "2", wanted a duration such as "10s" or "1m30s"',
  ],
  [
    "duration as a number",
    { cloud: { id: "x", secret: "s", refresh_interval: 10 } },
    "refused",
    'f.json: cloud.refresh_interval: found 10, wanted a duration such as "10s" or "1m30s"',
  ],
  [
    "duration out of range",
    { network: { sessions: { heartbeat_window: "2m" } } },
    "refused",
    'f.json: network.sessions.heartbeat_window: found "2m", wanted a duration from 30ms to 1m',
  ],
  [
    "tunnel to port 0",
    { network: { traffic_tunnel_endpoints: [{ port: 0 }] } },
    "refused",
    "f.json: network.traffic_tunnel_endpoints.0.port: found 0, wanted an integer from 1 to 65535",
  ],
  [
    "cloud without an ID",
    { cloud: { secret: "s" } },
    "refused",
    "f.json: cloud.id: missing required field, wanted a string",
  ],
  [
    "cloud without credentials",
    { cloud: { id: "x" } },
    "refused",
    "f.json: cloud.api_key: missing required field, wanted an id and a key",
  ],
  [
    "half an API key",
    { cloud: { id: "x", api_key: { id: "k" } } },
    "refused",
    "f.json: cloud.api_key: wanted both an id and a key",
  ],
  [
    "secret as a number",
    { cloud: { id: "x", secret: 12345 } },
    "refused",
    "f.json: cloud.secret: found something else (not shown), wanted a string",
  ],
  [
    "outside handler",
    api({ type: "external" }),
    "refused",
    'f.json: auth.handlers.0.type: found "external", wanted "api-key"',
  ],
  [
    "handler without a type",
    api({ type: null }),
    "refused",
    'f.json: auth.handlers.0.type: missing required field, wanted "api-key"',
  ],
  [
    "handler without keys",
    api({ config: { id: "key" } }),
    "refused",
    "f.json: auth.handlers.0.config.keys: found nothing, wanted a list of at least one key ID",
  ],
  [
    "handler in the legacy form",
    api({ config: { keys: ["id"] } }),
    "refused",
    "f.json: auth.handlers.0.config: no API keys, wanted at least one pair of key ID and key",
  ],
  [
    "handler twice",
    { auth: { handlers: [1, 2].map(() => ({ type: "api-key", config: { keys: ["id"], id: "key" } })) } },
    "refused",
    'f.json: auth.handlers.1.type: "api-key" is there twice, wanted it once',
  ],
  [
    "no public keys",
    keys(),
    "refused",
    "f.json: auth.external_auth_config.jwks.keys: found an empty array, wanted at least one key",
  ],
  [
    "public key of another kind",
    keys({ kty: "EC", alg: "ES256" }),
    "refused",
    'f.json: auth.external_auth_config.jwks.keys.0.kty: found "EC", wanted "RSA"',
  ],
  [
    "maintenance without its key",
    { maintenance: { sensor_name: "rdk:component:sensor/s" } },
    "refused",
    "f.json: maintenance.maintenance_allowed_key: missing required field, wanted a string",
  ],
  [
    "maintenance by no sensor",
    { maintenance: { sensor_name: "s", maintenance_allowed_key: "k" } },
    "refused",
    'f.json: maintenance.sensor_name: "s" is not the full name of a sensor, wanted rdk:component:sensor/s',
  ],
  [
    "unknown section",
    { componets: [] },
    "warned",
    'f.json: componets: warning: unknown key, ignored; did you mean "components"?',
  ],
  [
    "processes",
    { processes: [{ id: "x", name: "echo" }] },
    "warned",
    "f.json: processes: warning: processes are no longer run and this setting is ignored; use a module instead",
  ],
  [
    "module named parent",
    { modules: [{ name: "parent", executable_path: "/m" }] },
    "left out",
    `f.json: modules.0.name: "parent" is reserved, wanted another name${OUT}`,
  ],
  [
    "local module without a program",
    { modules: [{ name: "m" }] },
    "left out",
    `f.json: modules.0.executable_path: missing required field, wanted the path of the program of a local module${OUT}`,
  ],
  [
    "two modules of one name",
    { modules: [{ name: "m", executable_path: "/a" }, { name: "m", executable_path: "/b" }] },
    "left out",
    `f.json: modules.1.name: "m" is also the name of modules.0${OUT}`,
  ],
  [
    "two modules of one program",
    { modules: [{ name: "m", executable_path: "/a" }, { name: "n", executable_path: "/a" }] },
    "left out",
    `f.json: modules.1.executable_path: "/a" is also the program of modules.0${OUT}`,
  ],
  [
    "module's variable from nowhere",
    { modules: [{ name: "m", executable_path: "/a", env: { X: "${environment.NOPE}" } }] },
    "left out",
    `f.json: modules.0.env.X: \${environment.NOPE}: environment variable NOPE is not set${OUT}`,
  ],
  [
    "package of an unknown type",
    { packages: [{ name: "p", package: "o/p", type: "slam-map" }] },
    "left out",
    'f.json: packages.0.type: found "slam-map", wanted one of "ml_model", "module", "slam_map", "archive"; ' +
    `did you mean "slam_map"?${OUT}`,
  ],
  [
    "package name with a space",
    { packages: [{ name: "my p", package: "o/p", type: "module" }] },
    "left out",
    `f.json: packages.0.name: found "my p", ${LONG_NAME}${OUT}`,
  ],
  [
    "remote without an address",
    { remotes: [{ name: "r" }] },
    "left out",
    `f.json: remotes.0.address: missing required field, wanted a string${OUT}`,
  ],
  [
    "job without a schedule",
    { jobs: [{ name: "j", schedule: "often", resource: "a", method: "DoCommand" }] },
    "left out",
    'f.json: jobs.0.schedule: found "often", wanted a duration such as "5m", a cron line of 5 or more fields, or ' +
    `"continuous"${OUT}`,
  ],
  [
    "log pattern",
    { log: [{ pattern: "(", level: "info" }] },
    "warned",
    `f.json: log.0.pattern: warning: Invalid regular expression: /(/: Unterminated group${OUT}`,
  ],
  [
    "log level",
    { log: [{ pattern: "rdk.*", level: "loud" }] },
    "warned",
    'f.json: log.0.level: warning: "loud" is not a log level and is ignored, wanted debug, info, warn or error',
  ],
];

export const RESOURCES: readonly Case[] = [
  [
    "entry that is a number",
    { components: [5] },
    "left out",
    `f.json: components.0: found 5, wanted an object${OUT}`,
  ],
  [
    "entry that is null",
    { components: [null] },
    "left out",
    `f.json: components.0: missing required field, wanted an object${OUT}`,
  ],
  [
    "no name",
    with1({ name: null }),
    "left out",
    `f.json: components.0.name: missing required field, wanted a name${OUT}`,
  ],
  [
    "name with a space",
    with1({ name: "my arm" }),
    "unhealthy",
    `f.json: components.0.name: found "my arm", ${NAME}`,
  ],
  [
    "name with a colon",
    with1({ name: "far:arm" }),
    "unhealthy",
    `f.json: components.0.name: found "far:arm", ${NAME}`,
  ],
  [
    "long name",
    with1({ name: "a".repeat(61) }),
    "unhealthy",
    `f.json: components.0.name: found "${"a".repeat(61)}", ${NAME}`,
  ],
  [
    "no API",
    with1({ api: null }),
    "left out",
    `f.json: components.0.api: missing required field, wanted rdk:component:<type>${OUT}`,
  ],
  [
    "bad API",
    with1({ api: "generic" }),
    "left out",
    'f.json: components.0.api: "generic" is not the name of an API, wanted rdk:component:<type> or ' +
    `rdk:service:<type>${OUT}`,
  ],
  [
    "service among components",
    { components: [part({ api: "rdk:service:generic" })] },
    "warned",
    'f.json: components.0.api: warning: rdk:service:generic belongs in "services"',
  ],
  [
    "no model",
    with1({ model: null }),
    "unhealthy",
    "f.json: components.0.model: missing required field, wanted the name of a model",
  ],
  [
    "bad model",
    with1({ model: "acme:fake" }),
    "unhealthy",
    'f.json: components.0.model: "acme:fake" is not the name of a model, wanted a word such as fake, or ' +
    "namespace:family:name",
  ],
  [
    "unknown model",
    with1({ model: "fakee" }),
    "unhealthy",
    "f.json: components.0.model: no model rdk:builtin:fakee is registered for API rdk:component:generic; did you " +
    "mean rdk:builtin:fake?",
  ],
  [
    "unknown model of somebody else",
    with1({ model: "acme:demo:thermometer" }),
    "unhealthy",
    "f.json: components.0.model: no model acme:demo:thermometer is registered for API rdk:component:generic; a " +
    'module may bring it: is it in "modules"?',
  ],
  [
    "unknown API",
    with1({ api: "rdk:component:genric" }),
    "unhealthy",
    "f.json: components.0.model: no model rdk:builtin:fake is registered for API rdk:component:genric; did you mean " +
    "API rdk:component:generic?",
  ],
  [
    "namesakes",
    { components: [part(), part()] },
    "unhealthy",
    "f.json: components.1.name: components.0 and components.1 are both rdk:component:generic/a, neither can be used " +
    "until one is renamed",
  ],
  [
    "missing dependency",
    with1({ depends_on: ["b"] }),
    "unhealthy",
    "a: resource has unresolved dependencies not found in machine config or connected remotes: [b]",
  ],
  ["depends on itself", with1({ depends_on: ["a"] }), "unhealthy", 'a: depends on itself through "a"'],
  [
    "depends on a bad name",
    with1({ depends_on: ["b c"] }),
    "unhealthy",
    'f.json: components.0.depends_on.0: "b c" is not the full name of a resource, wanted <api>/<name>, for example ' +
    "rdk:component:motor/left",
  ],
  [
    "dependencies as a text",
    with1({ depends_on: "b" }),
    "unhealthy",
    'f.json: components.0.depends_on: found "b", wanted an array',
  ],
  [
    "attributes as an array",
    with1({ attributes: [] }),
    "unhealthy",
    "f.json: components.0.attributes: found an empty array, wanted an object",
  ],
  [
    "attribute of the wrong type",
    motor({ pwm_freq: "fast" }),
    "unhealthy",
    'f.json: components.1.attributes.pwm_freq: found "fast", wanted an integer of at least 0',
  ],
  [
    "attribute missing",
    motor({ board: null }),
    "unhealthy",
    "f.json: components.1.attributes.board: missing required field, wanted a string",
  ],
  [
    "attribute out of range",
    motor({ max_power_pct: 2 }),
    "unhealthy",
    "f.json: components.1.attributes.max_power_pct: found 2, wanted a number from 0.06 to 1",
  ],
  [
    "half a pin pattern",
    motor({ pins: { a: "1" } }),
    "unhealthy",
    "f.json: components.1.attributes.pins: motor pin config has specified pin A but not pin B",
  ],
  [
    "unknown attribute",
    motor({ max_rmp: 100 }),
    "warned",
    'f.json: components.1.attributes.max_rmp: warning: unknown key, ignored; did you mean "max_rpm"?',
  ],
  [
    "attribute names a missing board",
    { components: [(motor({}).components as Json[])[1]] },
    "unhealthy",
    "a: resource has unresolved dependencies not found in machine config or connected remotes: [b]",
  ],
  [
    "a broken resource that names a missing board",
    { components: [(motor({ pins: { a: "1" } }).components as Json[])[1]] },
    "unhealthy",
    "f.json: components.0.attributes.pins: motor pin config has specified pin A but not pin B",
  ],
  [
    "fails when it is built",
    {
      components: [{ name: "b", api: "rdk:component:board", model: "fake", attributes: { fail_new: true } }],
    },
    "unhealthy",
    "b: resource build error: whoops: rdk:component:board/b fails at start, as fail_new asks",
  ],
  [
    "placeholder of an unset variable",
    with1({ attributes: { a: [{ b: "${environment.NOPE}" }] } }),
    "unhealthy",
    "f.json: components.0.attributes.a.0.b: ${environment.NOPE}: environment variable NOPE is not set",
  ],
  [
    "placeholder of an unknown package",
    {
      ...with1({ attributes: { path: "${packages.mdel}" } }),
      packages: [{ name: "model", package: "o/m", type: "ml_model" }],
    },
    "unhealthy",
    'f.json: components.0.attributes.path: ${packages.mdel}: no package named "mdel" is configured; did you mean "model"?',
  ],
  [
    "placeholder of another type of package",
    {
      ...with1({ attributes: { path: "${packages.map}" } }),
      packages: [{ name: "map", package: "o/m", type: "slam_map" }],
    },
    "unhealthy",
    'f.json: components.0.attributes.path: ${packages.map}: package "map" is of another type, wanted ${packages.slam_map.map}',
  ],
  [
    "placeholder of no kind",
    {
      components: [{
        name: "b",
        api: "rdk:component:board",
        model: "fake",
        attributes: { analogs: [{ name: "${secrets.x}" }] },
      }],
    },
    "warned",
    "f.json: components.0.attributes.analogs.0.name: warning: ${secrets.x} stays unchanged: not a placeholder such as " +
    "${environment.NAME} or ${packages.type.name}",
  ],
  [
    "frame of unknown orientation",
    with1({ frame: { parent: "world", orientation: { type: "euler" } } }),
    "warned",
    'f.json: components.0.frame.orientation.type: warning: found "euler", wanted one of "", "ov_degrees", "ov_radians", ' +
    '"euler_angles", "axis_angles", "quaternion"; did you mean "euler_angles"? (the frame is ignored)',
  ],
  [
    "frame with a translation in words",
    with1({ frame: { parent: "world", translation: { x: "far" } } }),
    "warned",
    'f.json: components.0.frame.translation.x: warning: found "far", wanted a number (the frame is ignored)',
  ],
  [
    "log level of a resource",
    with1({ log_configuration: { level: 3 } }),
    "warned",
    "f.json: components.0.log_configuration.level: warning: 3 is not a log level and is ignored, wanted debug, info, " +
    "warn or error",
  ],
  [
    "something to capture without a method",
    with1({ service_configs: [{ type: "data_manager", attributes: { capture_methods: [{}] } }] }),
    "warned",
    "f.json: components.0.service_configs.0.attributes.capture_methods.0.method: warning: missing required field, wanted a string",
  ],
  [
    "service settings without a type",
    with1({ service_configs: [{ attributes: {} }] }),
    "unhealthy",
    "f.json: components.0.service_configs.0.type: missing required field, wanted a string",
  ],
];
