/**
 * A module as a program: it serves at the address that the machine gives it, until the machine ends it.
 *
 * Owns the program's port, its resources and its link to the machine. The program closes every resource before it ends,
 * and always ends in time.
 */

import process from "node:process";
import { type AddResourceRequest, ModuleService } from "../../proto/gen/module_pb.ts";
import { APIS } from "../api/mod.ts";
import { SystemClock } from "../base/clock.ts";
import { chainOf, SvcError } from "../base/error.ts";
import { checkStarter } from "../base/native/socket_table.ts";
import { type Level, Logs, parseLevel } from "../base/log/log.ts";
import { parseApi, parseModel } from "../resource/name.ts";
import type { AnyApi } from "../resource/registry.ts";
import { health } from "../wire/grpc/health.ts";
import { reflection } from "../wire/grpc/reflection.ts";
import { openPort, openUnixPort, type Port } from "../wire/port/port.ts";
import { noSite } from "../wire/port/sites.ts";
import { type CallContext, type Service, service, ServiceTable } from "../wire/rpc/service.ts";
import { ParentLink } from "./parent_link.ts";
import type { AnyModuleModel } from "./model.ts";
import { ModuleResources } from "./resources.ts";

/** Time for calls under way at the end; the machine kills a module that takes longer than 10 s. */
const DRAIN_MS = 2_000;
const END_MS = 8_000;

/** Settings of a module that runs. */
export interface ModuleOptions {
  /** The path of a socket, or `host:port`. By default the program's first argument. */
  readonly address?: string;
  /** By default `--log-level` of the program's arguments, else `info`. */
  readonly logLevel?: Level;
  /** By default the name that the machine gives the module. */
  readonly name?: string;
  /** APIs beside those of the models, for dependencies of your own types. */
  readonly apis?: readonly AnyApi[];
}

/** A module that serves its machine. */
export interface RunningModule {
  /** Closes every resource, then the port. Idempotent. */
  close(): Promise<void>;
}

/**
 * Runs these models as a module: serves them until the machine ends the process (SIGTERM). Throws if the models or the
 * arguments are invalid.
 */
export async function serveModule(models: readonly AnyModuleModel[], options: ModuleOptions = {}) {
  try {
    const running = await startModule(models, options);
    const end = (signal: string) => void endBy(signal, running);
    for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, end);
  } catch (error) {
    process.stderr.write(`${chainOf(error)}\n`);
    process.exit(1);
  }
}

async function endBy(signal: string, running: RunningModule): Promise<void> {
  const clock = new SystemClock();
  const late = clock.after(END_MS, () => {
    process.stderr.write(`the module got ${signal} and did not end within ${END_MS / 1000} s\n`);
    process.exit(1);
  });
  await running.close();
  late();
  process.exit(0);
}

/** Runs a module within a larger program; it handles no signals. */
export async function startModule(
  models: readonly AnyModuleModel[],
  options: ModuleOptions = {},
): Promise<RunningModule> {
  const { address, logLevel, name } = settingsOf(options);
  const apis = apisOf(models, options.apis ?? []);
  const clock = new SystemClock();
  const link = new ParentLink({ clock, complain: (line) => void process.stderr.write(`${line}\n`) });
  const logs = new Logs(clock, [link.log]);
  const loggerName = `rdk.modmanager.${name}`;

  const machine = () => link.channel;
  const resources = new ModuleResources({ models, apis, logs, loggerName, logLevel, clock, machine });
  const table = new ServiceTable(clock);
  table.add(moduleService(models, resources, link));
  for (const api of new Set(models.map((one) => one.api as AnyApi))) {
    table.add(api.serve((short) => resources.find(api.name, short)));
  }
  for (const one of [health(table), ...reflection(table)]) table.add(one);

  const port = await listen(address, table, clock);
  let closing: Promise<void> | undefined;
  const close = async () => {
    await resources.close();
    logs.flush();
    await link.close();
    await port.close(DRAIN_MS);
  };
  return { close: () => closing ??= close() };
}

function moduleService(
  models: readonly AnyModuleModel[],
  resources: ModuleResources,
  link: ParentLink,
): Service {
  const add = async ({ config, dependencies }: Adding, { signal }: CallContext) => {
    if (!config) throw new SvcError("invalid_argument", "the resource to add has no configuration");
    await resources.add(config, dependencies, signal);
    return {};
  };
  return service(ModuleService, {
    ready: ({ parentAddress, rawParentAddress }) => {
      link.connect(parentAddress || rawParentAddress);
      return { ready: true, handlermap: { handlers: handlersOf(models) } };
    },
    validateConfig: ({ config }) => {
      if (!config) throw new SvcError("invalid_argument", "there is no configuration to validate");
      const { required, optional } = resources.check(config);
      return { dependencies: [...required], optionalDependencies: [...optional] };
    },
    addResource: add,
    // A resource is built anew, so that it depends on its configuration alone and not on earlier ones.
    reconfigureResource: add,
    removeResource: async ({ name }) => {
      await resources.remove(name);
      return {};
    },
  });
}

type Adding = Pick<AddResourceRequest, "config" | "dependencies">;

/** The models by API, for the machine's list. */
function handlersOf(models: readonly AnyModuleModel[]) {
  return [...Map.groupBy(models, ({ api }) => api as AnyApi)].map(([api, ofApi]) => {
    const { namespace, kind, type } = parseApi(api.name);
    return {
      subtype: {
        subtype: { namespace, type: kind, subtype: type, name: "" },
        protoService: api.desc.typeName,
      },
      models: ofApi.map(({ name }) => name),
    };
  });
}

function apisOf(models: readonly AnyModuleModel[], more: readonly AnyApi[]): ReadonlyMap<string, AnyApi> {
  if (models.length === 0) throw new SvcError("invalid_argument", "a module has at least one model");
  const seen = new Set<string>();
  for (const { api, name } of models) {
    parseApi(api.name);
    if (parseModel(name) !== name) {
      throw new SvcError(
        "invalid_argument",
        `"${name}" is not the name of a model, wanted namespace:family:name`,
      );
    }
    const key = `${api.name} ${name}`;
    if (seen.has(key)) throw new SvcError("invalid_argument", `model ${key} is listed twice`);
    seen.add(key);
  }

  const all: readonly AnyApi[] = [...APIS, ...more, ...models.map(({ api }) => api as AnyApi)];
  return new Map(all.map((api) => [api.name, api]));
}

function settingsOf({ address, logLevel, name }: ModuleOptions) {
  const args = process.argv.slice(2);
  const flag = args.find((arg) => arg.startsWith("--log-level="));
  const given = flag === undefined ? undefined : parseLevel(flag.slice(flag.indexOf("=") + 1));
  const where = address ?? args.find((arg) => !arg.startsWith("-"));
  if (!where) {
    throw new SvcError(
      "invalid_argument",
      "a module gets the address to serve at as its first argument; svc-server gives it one, " +
        "when it is listed under modules",
    );
  }

  return {
    address: where,
    logLevel: logLevel ?? given ?? "info",
    name: name ?? process.env.VIAM_MODULE_NAME ?? "module",
  };
}

/** Published machines give `host:port` with `--tcp-mode`, and otherwise the path of a socket. */
async function listen(address: string, table: ServiceTable, clock: SystemClock): Promise<Port> {
  const [, host, port] = /^(\[.*\]|[^/\\:]+):(\d+)$/.exec(address) ?? [];
  if (host === undefined) return await openUnixPort({ table, clock, path: address });
  const bind = { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
  // Every user of the computer reaches the port, and a call needs no key.
  return await openPort({ table, clock, sites: noSite, bind, admit: checkStarter });
}
