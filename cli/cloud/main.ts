/**
 * `svc-cloud`: a control plane of one's own for machines, agents and training jobs.
 *
 * Owns its command line, and serving. Promises: what a machine or a person is told to have been saved is on disk; a
 * command that fails says why on standard error and ends with 1, one that cannot be read with 2.
 */

import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { APIS } from "../../lib/api/mod.ts";
import { settingsProblems } from "../../lib/agent/settings/settings.ts";
import { type Clock, SystemClock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import { escaped } from "../../lib/base/escape.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { Host } from "../../lib/base/host.ts";
import { isObject } from "../../lib/base/schema/schema.ts";
import { suggest } from "../../lib/base/schema/suggest.ts";
import { Addresses, checkedAddress, noteAddress } from "../../lib/cloud/addresses.ts";
import { type Cloud, openCloud } from "../../lib/cloud/cloud.ts";
import { ORGANIZATION_MAKERS, type Validate } from "../../lib/cloud/context.ts";
import { FileStore } from "../../lib/cloud/store/files.ts";
import { Secrets, type SecretsParts } from "../../lib/cloud/store/secrets.ts";
import { openStore, type Store } from "../../lib/cloud/store/store.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { connectionLimit } from "../../lib/wire/port/guests.ts";
import { openPort, type TlsFiles } from "../../lib/wire/port/port.ts";
import { MODELS } from "../../drivers/mod.ts";
import { type Command, COMMANDS as PEOPLE_COMMANDS, openDesk } from "./commands.ts";
import { CONTENT_WORKER, contentWorker, INFERENCE_FLAGS, openInference } from "./content.ts";
import { describeExample, makeExample } from "./example.ts";
import { RELEASE_COMMANDS } from "./releases.ts";
import { SECRET_COMMANDS } from "./secrets.ts";
import { LIMITS, limitsOf } from "./limits.ts";
import { openSandbox } from "../../lib/cloud/sandbox/sandbox.ts";
import { openTraining, TRAINING_FLAGS } from "./training.ts";
import { columns, type Flag, type Values } from "../flags.ts";
import { openLogs } from "../logs.ts";
import { begin } from "../program.ts";
import { VERSION } from "../version.ts";

const PROGRAM = {
  name: "svc-cloud",
  summary:
    "Serves a control plane for machines, agents and training jobs, so that all of them work without anybody's cloud.",
  style: "gnu",
  usage: "COMMAND [flags]",
  flags: [],
} as const;

/** Flags of every command. */
const COMMON = [
  {
    name: "data",
    type: "string",
    default: "svc-cloud-data",
    value: "FOLDER",
    env: "SVC_CLOUD_DATA",
    help: "Where everything is kept.",
  },
  {
    name: "database",
    type: "string",
    default: "",
    value: "URL",
    env: "SVC_CLOUD_DATABASE",
    help: "A database of PostgreSQL instead of the one in the folder: postgres://user:password@host/name",
  },
  {
    name: "keys",
    type: "string",
    default: "",
    value: "FOLDER",
    env: "SVC_CLOUD_KEYS",
    help:
      "The folder of the control plane's own keys; left out, keys in the data folder. Control planes on one database " +
      "have the same keys.",
  },
] as const satisfies readonly Flag[];
const COMMANDS: readonly Command[] = [...PEOPLE_COMMANDS, ...RELEASE_COMMANDS, ...SECRET_COMMANDS];
const JSON_FLAG = { name: "json", type: "bool", default: false, help: "Print one JSON value." } as const;
const LISTEN = {
  name: "listen",
  type: "string",
  default: "localhost:8090",
  value: "HOST:PORT",
  help: "Where to serve; port 0 takes a free one.",
} as const;

const PUBLIC_URL = {
  name: "public-url",
  type: "string",
  default: "",
  value: "URL",
  env: "SVC_CLOUD_PUBLIC_URL",
  help: "The address that people and machines will reach it by; left out, the one of --listen.",
} as const;

const SERVE = {
  ...PROGRAM,
  name: "svc-cloud serve",
  summary: "Serves the control plane until it is told to stop.",
  usage: "[flags]",
  flags: [
    ...COMMON,
    LISTEN,
    {
      name: "demo",
      type: "bool",
      default: false,
      help: "At the first start, make an example as init --example does.",
    },
    {
      name: "public-url",
      type: "list",
      default: [],
      value: "URL",
      env: "SVC_CLOUD_PUBLIC_URL",
      help:
        "The address that people and machines reach it by, for installers, links and what commands print; may " +
        "stand several times, the main one first. Left out, only this computer's own addresses are believed.",
    },
    {
      name: "organizations",
      type: "string",
      default: "operator",
      value: "WHO",
      help:
        "Who makes organizations by a call: operator (nobody; svc-cloud org create does) or anybody with a " +
        "key of a person. Keys of machines never do.",
    },
    {
      name: "tls",
      type: "bool",
      default: false,
      help: "Serve over TLS, with a certificate of the local authority.",
    },
    LIMITS,
    {
      name: "metrics-key-file",
      type: "string",
      default: "",
      value: "FILE",
      env: "SVC_CLOUD_METRICS_KEY_FILE",
      help:
        "The key that /metrics is shown for, as `Authorization: Bearer KEY`; metrics.key in the data folder where " +
        "left out. It is made where there is none.",
    },
    {
      name: "localhost-certificates",
      type: "bool",
      default: false,
      help:
        "Make certificates of machines good for localhost, too: for programs beside them that connect over TLS.",
    },
    {
      name: "tls-cert",
      type: "string",
      default: "",
      value: "FILE",
      help: "Serve over TLS with this certificate (PEM).",
    },
    {
      name: "tls-key",
      type: "string",
      default: "",
      value: "FILE",
      help: "The key of that certificate (PEM).",
    },
    {
      name: "log-file",
      type: "string",
      default: "",
      value: "FILE",
      help: "Write logs to a file with rotation.",
    },
    ...TRAINING_FLAGS,
    ...INFERENCE_FLAGS,
    { name: "debug", type: "bool", default: false, help: "Write debug-level logs." },
  ],
} as const;

const INIT = {
  ...PROGRAM,
  name: "svc-cloud init",
  summary:
    "Makes what there is to begin with: an organization, a location, a machine, and keys for a person and for the " +
    "machine.",
  usage: "[flags]",
  flags: [...COMMON, LISTEN, PUBLIC_URL, JSON_FLAG, {
    name: "example",
    type: "bool",
    default: false,
    help: "Make a dataset to train from, too, and a machine that uses the model.",
  }],
} as const;

const SHUTDOWN_MS = 5_000;
const METRICS_KEY_BYTES = 24;
const METRICS_KEY_CHARS_MIN = 16;
/** An upload that is older was left behind by a process that is no more. */
const UNFINISHED_MS = 24 * 3600 * 1000;

export async function main(args: readonly string[], host: Host): Promise<number> {
  const dash = args.findIndex((word) => word.startsWith("-"));
  const words = args.slice(0, dash < 0 ? args.length : dash);
  try {
    if (words[0] === CONTENT_WORKER) return await contentWorker();
    if (words[0] === "serve") return await serve(args.slice(1), host);
    if (words[0] === "init") return await init(args.slice(1), host);
    const command = COMMANDS.find((one) =>
      one.words === words.slice(0, one.words.split(" ").length).join(" ")
    );
    if (command) return await runCommand(command, args, host);
    return noCommand(args, words, host);
  } catch (error) {
    host.writeError(`svc-cloud: ${escaped(chainOf(error))}\n`);
    return 1;
  }
}

function noCommand(args: readonly string[], words: readonly string[], host: Host): number {
  const more = `\nCommands (each with --help):\n${listed()}`;
  const begun = begin({ ...PROGRAM, more }, words.length > 0 ? [] : args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const names = ["serve", "init", ...COMMANDS.map((one) => one.words)];
  const near = suggest(words.slice(0, 2).join(" "), names) ??
    names.find((name) => name.split(" ")[0] === words[0]);
  const found = words.length === 0 ? "no command" : `unknown command "${words.slice(0, 2).join(" ")}"`;
  host.writeError(`svc-cloud: ${found}${near ? `; did you mean ${near}?` : ""}; see --help\n`);
  return 2;
}

function listed(): string {
  const commands = COMMANDS.map(({ words, takes, summary }) => ({
    left: [words, ...takes].join(" "),
    right: summary,
  }));
  return columns([
    { left: "serve", right: SERVE.summary },
    { left: "init", right: INIT.summary },
    ...commands,
  ]);
}

async function runCommand(command: Command, args: readonly string[], host: Host): Promise<number> {
  const program = {
    ...PROGRAM,
    name: `svc-cloud ${command.words}`,
    summary: command.summary,
    usage: [...command.takes, "[flags]"].join(" "),
    flags: [...COMMON, JSON_FLAG, ...command.flags] as readonly Flag[],
  };
  const begun = begin(program, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const values = located(begun.values as Values<typeof INIT.flags>, host);
  const given = begun.rest.slice(command.words.split(" ").length);
  if (given.length !== command.takes.length) {
    host.writeError(`${program.name}: found ${given.length} words, wanted ${program.usage}\n`);
    return 2;
  }
  await requireFolder(values, host);
  return await withStore(values, async (store) => {
    const files = () => filesIn(values.data, new SystemClock());
    const secrets = secretsOf(values, store, host);
    const desk = openDesk({ store, files, secrets, host, validate: validator() }, values.json);
    await command.run(desk, given, values as never);
    return 0;
  });
}

async function init(args: readonly string[], host: Host): Promise<number> {
  const begun = begin(INIT, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const values = located(begun.values, host);
  return await withStore(values, async (store) => {
    const clock = new SystemClock();
    const { data, publicUrl, listen } = values;
    const url = publicUrl === "" ? `http://${listen}` : checkedAddress(publicUrl);
    const parts = { store, files: await filesIn(data, clock), validate: validator(), data, clock };
    const example = await makeExample(parts, url, {
      withData: values.example,
      tell: (text) => host.writeError(`${text}\n`),
    });
    if (!example) {
      throw new SvcError("failed_precondition", "there is an organization already: init is for a new folder");
    }
    if (publicUrl !== "") await noteAddress(store, url);
    host.write(values.json ? `${JSON.stringify(example)}\n` : describeExample(example));
    return 0;
  });
}

async function serve(args: readonly string[], host: Host): Promise<number> {
  const begun = begin(SERVE, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const values = located(begun.values, host);
  const clock = new SystemClock();
  using open = openLogs(PROGRAM.name, values.logFile, host, clock);
  open.logs.configure([], values.debug);
  const logger = open.logs.logger("cloud");
  const { promise: stopped, resolve } = Promise.withResolvers<string>();
  const ignore = host.onTermination(resolve);
  try {
    return await withStore(values, async (store) => {
      const organizations = ORGANIZATION_MAKERS.find((one) => one === values.organizations);
      if (!organizations) {
        const wanted = ORGANIZATION_MAKERS.join(" or ");
        throw new SvcError(
          "invalid_argument",
          `--organizations: found "${values.organizations}", wanted ${wanted}`,
        );
      }
      logger.info("svc-cloud", { version: VERSION });
      const files = await filesIn(values.data, clock);
      const addresses = new Addresses(values.publicUrl, host.hostname());
      const around = { host: new DenoHost(), clock, logger };
      const sandbox = await openSandbox(around.host, clock, [values.data]);
      const inference = openInference(values, around, sandbox);
      const { training, routes } = await openTraining(
        { ...values, publicUrl: addresses.main ?? "" },
        { ...around, sandbox },
        inference.content,
      );
      const secrets = await Secrets.open({ ...secretsOf(values, store, host), logger });
      const over = new AbortController();
      const following = secrets.follow(over.signal);
      const cloud = openCloud({
        secrets,
        store,
        files,
        clock,
        logger,
        validate: validator(),
        addresses,
        organizations,
        limits: await limitsOf(values.limits, host),
        metricsKey: await metricsKeyOf(values, host),
        localhostCertificates: values.localhostCertificates,
        installers: await installers(host),
        training,
        inference,
      });
      try {
        const bind = addressOf(values.listen);
        const pem = () => ({
          status: 200,
          contentType: "application/x-pem-file",
          body: cloud.authority.certificate,
        });
        const port = await openPort({
          table: cloud.table,
          bind,
          tls: await tlsOf(values, bind.host, cloud, host),
          http: { routes: new Map([...cloud.routes, ...routes, ["/ca.pem", pem]]) },
          clock,
          logger,
          connections: await connectionLimit(host),
        });
        const parts = { store, files, validate: validator(), data: values.data, clock };
        const url = addresses.main ?? port.url.replace(/(?<=:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, host.hostname());
        await noteAddress(store, url);
        const example = values.demo
          ? await makeExample(parts, url, { withData: true, tell: (text) => logger.info(text) })
          : undefined;
        if (example) host.write(describeExample(example));
        logger.info("serving", { url: port.url });
        logger.info(`stopping: ${await stopped}`);
        await port.close(SHUTDOWN_MS);
        return 0;
      } finally {
        over.abort();
        await following;
        await cloud.close();
      }
    });
  } finally {
    ignore();
  }
}

/** Reads the key for the figures, made where there is none. */
async function metricsKeyOf(
  { metricsKeyFile, data }: Values<typeof SERVE.flags>,
  host: Host,
): Promise<string> {
  const path = metricsKeyFile || `${data}/metrics.key`;
  if (await host.fileSize(path) === undefined) {
    await host.writeFile(path, `${randomBytes(METRICS_KEY_BYTES).toString("base64url")}\n`, { mode: 0o600 });
  }
  const key = (await host.readTextFile(path)).trim();
  if (key.length >= METRICS_KEY_CHARS_MIN) return key;
  throw new SvcError(
    "invalid_argument",
    `${path}: found a metrics key of ${key.length} letters, wanted at least ${METRICS_KEY_CHARS_MIN}`,
  );
}

async function tlsOf(
  { tls, tlsCert, tlsKey }: Values<typeof SERVE.flags>,
  name: string,
  { authority }: Cloud,
  host: Host,
): Promise<TlsFiles | undefined> {
  if (tlsCert !== "" || tlsKey !== "") {
    const [certPem, keyPem] = [await host.readTextFile(tlsCert), await host.readTextFile(tlsKey)];
    return { certPem, keyPem, certName: tlsCert, keyName: tlsKey };
  }
  if (!tls) return undefined;
  const names = new Set([name, host.hostname(), "localhost", "127.0.0.1"].filter((one) => one !== "0.0.0.0"));
  const { certificate, privateKey } = await authority.issue([...names]);
  return { certPem: certificate, keyPem: privateKey };
}

function addressOf(listen: string): { host: string; port: number } {
  const { v6, host = v6, port } =
    /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:]*)):(?<port>\d+)$/.exec(listen)?.groups ?? {};
  if (port !== undefined) return { host: host || "0.0.0.0", port: Number(port) };
  throw new SvcError(
    "invalid_argument",
    `--listen: found "${listen}", wanted host:port such as localhost:8090`,
  );
}

/** The data folder from the root on: programs that this one starts work in other folders. */
function located<T extends { readonly data: string }>(values: T, host: Host): T {
  return { ...values, data: resolve(host.cwd(), values.data) };
}

/** Only `init` and `serve` make a folder: a command in the wrong place would otherwise see an empty control plane. */
async function requireFolder(
  { data, database }: { data: string; database: string },
  host: Host,
): Promise<void> {
  const there = database === ""
    ? await host.fileSize(`${data}/cloud.db`) !== undefined
    : await host.readFolder(data).then(() => true, () => false);
  if (there) return;
  throw new SvcError(
    "not_found",
    `found no control plane in ${
      resolve(data)
    }: give its folder with --data (or SVC_CLOUD_DATA), run this where ` +
      "svc-cloud serves, or make a new one with svc-cloud init",
  );
}

async function withStore(
  { data, database }: { data: string; database: string },
  run: (store: Store) => Promise<number>,
): Promise<number> {
  // What is in there is nobody else's business.
  await Deno.mkdir(data, { recursive: true, mode: 0o700 });
  const store = await openStore({ file: `${data}/cloud.db`, url: database }, new SystemClock());
  try {
    return await run(store);
  } finally {
    await store.close();
  }
}

function secretsOf(
  { data, keys }: { data: string; keys: string },
  store: Store,
  host: Host,
): SecretsParts {
  const tell = (text: string) =>
    host.writeError(`svc-cloud: ${text}
`);
  const logger = { info: tell, warn: tell, error: tell };
  return { store, host, folder: keys || `${data}/keys`, clock: new SystemClock(), logger };
}

/** Scripts that install agents; the build puts them into the executable. */
async function installers(host: Host): Promise<Map<string, string>> {
  const scripts = ["install.sh", "install.ps1"].map(async (name) => {
    const path = fileURLToPath(new URL(`../../install/${name}`, import.meta.url));
    return [`/${name}`, await host.readTextFile(path)] as const;
  });
  return new Map(await Promise.all(scripts));
}

/** What is uploaded, beside the database. Control planes that share a database share this folder too. */
function filesIn(data: string, clock: Clock): Promise<FileStore> {
  return FileStore.open(`${data}/files`, { olderThanMs: clock.nowMs() - UNFINISHED_MS });
}

/** What the machine itself and its agent would say of a configuration. Only they know its environment. */
function validator(): Validate {
  const registry = new Registry(APIS, MODELS);
  return (json) => [
    ...decodeConfig(json, registry, { env: () => "" }).problems,
    ...settingsProblems(isObject(json) ? json.agent : undefined),
  ];
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
