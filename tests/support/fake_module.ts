/**
 * Modules within the test's own process, for speed: each serves on its socket like a separate program, with scripted
 * behaviour. And a machine that runs them.
 */

import type { ComponentConfig } from "../../proto/gen/robot_config_pb.ts";
import { ModuleService, type ReadyRequest, type ReadyResponseSchema } from "../../proto/gen/module_pb.ts";
import { APIS } from "../../lib/api/mod.ts";
import { type Sensor, SensorApi } from "../../lib/api/sensors/sensor.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { FileError } from "../../lib/base/files/files.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { type LogRecord, Logs, memorySink } from "../../lib/base/log/log.ts";
import type { ProcessCommand, ProcessFigures } from "../../lib/base/process.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { MODELS } from "../../drivers/mod.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { Machine } from "../../lib/machine/graph/machine.ts";
import { Remotes } from "../../lib/machine/graph/remotes.ts";
import { ModuleGroups } from "../../lib/machine/modules/groups.ts";
import { ModuleParent } from "../../lib/machine/modules/parent.ts";
import { Modules } from "../../lib/machine/modules/modules.ts";
import { Operations } from "../../lib/machine/serve/operations.ts";
import { Sessions } from "../../lib/machine/serve/sessions.ts";
import { Streams } from "../../lib/machine/streams/streams.ts";
import { Tables } from "../../lib/machine/serve/tables.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { reflection } from "../../lib/wire/grpc/reflection.ts";
import { memoryChannel } from "../../lib/wire/rpc/memory.ts";
import { openPort, openUnixPort, type Port } from "../../lib/wire/port/port.ts";
import type { MessageInitShape } from "../../lib/wire/rpc/proto.ts";
import { type Service, service, ServiceTable } from "../../lib/wire/rpc/service.ts";
import { FakeProcess } from "./fake_processes.ts";
import type { ModuleLimits } from "../../lib/machine/modules/limits.ts";

const clock = new SystemClock();

/** A fake module's default model. */
export const MODEL = "acme:test:probe";

/** A fake module's behaviour; a well-behaved one by default. */
export interface Behaviour {
  /** Serves at once; otherwise the test calls `serve`. */
  readonly serves?: boolean;
  /** Called at the start; may end the process. */
  readonly started?: (module: FakeModule) => unknown;
  readonly ready?: (
    request: ReadyRequest,
    module: FakeModule,
  ) => MessageInitShape<typeof ReadyResponseSchema> | Promise<MessageInitShape<typeof ReadyResponseSchema>>;
  readonly validate?: (config: ComponentConfig, module: FakeModule) => {
    dependencies?: string[];
    optionalDependencies?: string[];
  } | Promise<void>;
  readonly add?: (
    config: ComponentConfig,
    dependencies: string[],
    module: FakeModule,
  ) => void | Promise<void>;
  readonly reconfigure?: (config: ComponentConfig, module: FakeModule) => void;
  readonly remove?: (name: string, module: FakeModule) => void | Promise<void>;
  readonly readings?: (name: string, module: FakeModule) => JsonObject | Promise<JsonObject>;
  /** More than sensors. */
  readonly services?: (module: FakeModule) => Service[];
}

export class FakeModule {
  /** Its requests, in order: `add a`, `remove a`. */
  readonly diary: string[] = [];
  readonly resources = new Map<string, ComponentConfig>();
  readonly process: FakeProcess;
  parentAddress = "";
  #port: Promise<Port> | undefined;

  constructor(readonly name: string, readonly behaviour: Behaviour, command: ProcessCommand, pid: number) {
    this.process = new FakeProcess(command, pid);
    void this.process.exited.then(async () => await (await this.#port?.catch(() => undefined))?.close(0));
    behaviour.started?.(this);
    if (behaviour.serves !== false && !this.process.over) void this.serve().catch(() => {});
  }

  get address(): string {
    return this.process.command.args![0];
  }

  /** The process ends as if it were killed. */
  kill(): void {
    this.process.exit(137, "SIGKILL");
  }

  serve(): Promise<Port> {
    return this.#port ??= this.#open();
  }

  /** A connection to the machine, as a module has it. */
  parent(): Channel {
    return connectGrpc(
      this.parentAddress.startsWith("/") ? `unix:${this.parentAddress}` : this.parentAddress,
      { clock },
    );
  }

  #open(): Promise<Port> {
    const table = new ServiceTable(clock);
    table.add(this.#moduleService());
    table.add(SensorApi.serve((name) => this.#sensor(name)));
    for (const one of this.behaviour.services?.(this) ?? []) table.add(one);
    for (const one of reflection(table)) table.add(one);
    if (!this.address.includes(":")) return openUnixPort({ path: this.address, table, clock });
    const [host, port] = this.address.split(":");
    return openPort({ bind: { host, port: Number(port) }, table, clock });
  }

  #moduleService(): Service {
    const { ready, validate, add, reconfigure, remove } = this.behaviour;
    return service(ModuleService, {
      ready: (request) => {
        this.parentAddress = request.parentAddress;
        return ready?.(request, this) ?? readyWith([{ api: SensorApi.name, models: [MODEL] }]);
      },
      validateConfig: async ({ config }) => await validate?.(config!, this) ?? {},
      addResource: async ({ config, dependencies }) => {
        this.diary.push([`add ${config!.name}`, ...dependencies].join(" "));
        await add?.(config!, dependencies, this);
        this.resources.set(config!.name, config!);
        return {};
      },
      reconfigureResource: ({ config }) => {
        this.diary.push(`reconfigure ${config!.name}`);
        if (!reconfigure) throw new SvcError("unimplemented", "resources are built anew");
        reconfigure(config!, this);
        this.resources.set(config!.name, config!);
        return {};
      },
      removeResource: async ({ name }) => {
        const short = name.slice(name.indexOf("/") + 1);
        this.diary.push(`remove ${short}`);
        await remove?.(name, this);
        this.resources.delete(short);
        return {};
      },
    });
  }

  #sensor(name: string): Sensor {
    if (!this.resources.has(name)) throw new SvcError("not_found", `module ${this.name} has no ${name}`);
    return new Probe(ResourceName.of(SensorApi.name, name), this);
  }
}

class Probe extends BaseComponent implements Sensor {
  constructor(name: ResourceName, private readonly module: FakeModule) {
    super(name);
  }

  async getReadings() {
    const { behaviour, resources, process } = this.module;
    const { attributes = {} } = resources.get(this.name.short)!;
    const own = await behaviour.readings?.(this.name.short, this.module) ?? {};
    return { ...attributes, ...own, run: process.pid } as JsonObject;
  }
}

/** The answer of a module that is ready, with these models. */
export function readyWith(
  handlers: readonly {
    readonly api: string;
    readonly models: readonly string[];
    readonly service?: string;
  }[],
): MessageInitShape<typeof ReadyResponseSchema> {
  return {
    ready: true,
    handlermap: {
      handlers: handlers.map(({ api, models, service = "viam.component.sensor.v1.SensorService" }) => {
        const [namespace, type, subtype] = api.split(":");
        return {
          subtype: { subtype: { namespace, type, subtype }, protoService: service },
          models: [...models],
        };
      }),
    },
  };
}

class WorldHost extends DenoHost {
  constructor(readonly home: string, private readonly run: (command: ProcessCommand) => FakeProcess) {
    super();
  }

  /** Nothing can be made in its home. */
  isFull = false;

  override makeFolder(path: string, options?: { readonly mode?: number }): Promise<void> {
    if (!this.isFull || !path.startsWith(this.home)) return super.makeFolder(path, options);
    return Promise.reject(new FileError("resource_exhausted", `cannot make ${path}: the disk is full`, path));
  }

  /** How many temporary folders were made. */
  temporaryFolders = 0;

  override temporaryFolder(prefix: string): Promise<string> {
    this.temporaryFolders++;
    return super.temporaryFolder(prefix);
  }

  /** Figures that the test can tell from others. */
  override figuresOf(pid: number): ProcessFigures {
    return { residentBytes: pid, cpuUs: 7 };
  }

  override spawn(command: ProcessCommand): FakeProcess {
    return this.run(command);
  }
}

export interface WorldLimits extends Partial<ModuleLimits> {
  readonly buildTimeoutMs?: number;
  readonly closeTimeoutMs?: number;
  readonly untrusted?: boolean;
  /** The machine that every remote of the configuration is. */
  readonly remote?: ModuleWorld;
}

/** A machine whose modules live in the test. */
export class ModuleWorld implements AsyncDisposable {
  /** Every start, in order. */
  readonly started: FakeModule[] = [];
  readonly records: LogRecord[] = [];
  readonly machine: Machine;
  readonly channel: Channel;
  readonly host: WorldHost;
  /** A connection to its port. */
  readonly dial: () => Channel;
  readonly #registry = new Registry(APIS, MODELS);

  private constructor(
    readonly home: string,
    private readonly behaviours: { readonly [name: string]: Behaviour },
    { buildTimeoutMs = 5_000, closeTimeoutMs = 5_000, untrusted = false, remote, ...limits }: WorldLimits,
  ) {
    const logs = new Logs(clock, [memorySink(this.records)]);
    const registry = this.#registry;
    const host = this.host = new WorldHost(home, (command) => this.#run(command));
    const machine = this.machine = new Machine({
      registry,
      logs,
      clock,
      host,
      limits: { retryMs: 50, buildTimeoutMs, closeTimeoutMs },
      remotes: remote && new Remotes({ registry, clock, logger: logs.logger("rdk"), connect: remote.dial }),
    });
    const operations = new Operations(clock);
    const sessions = new Sessions({
      machine,
      clock,
      logger: logs.logger("sessions"),
      heartbeatWindowMs: 2_000,
    });
    const logger = logs.logger("rdk");
    const streams = new Streams({ machine, clock, logger });
    const tables = new Tables({ machine, operations, sessions, streams, host, clock, logger, outermost: [] });
    this.channel = memoryChannel(tables.resources());
    const robot = { machine, operations, sessions, jobs: { statuses: () => [] }, logs, clock };
    const table = () => tables.port({ ...robot, version: "0.0.0", shutdown: () => {} });
    this.dial = () => memoryChannel(table());
    machine.runModules(() => {
      const logger = logs.logger("rdk.modmanager");
      const parent = new ModuleParent({ table, host, clock, logger });
      const groups = new ModuleGroups({ host, clock, logger });
      const whole = { registry, host, clock, logs, home, parent, groups, buildTimeoutMs };
      const parts = { ...whole, debug: false, untrusted };
      return Promise.resolve(
        new Modules({ ...parts, limits: { pauseMs: 1, crashPauseMaxMs: 5, retryMs: 20, ...limits } }),
      );
    });
  }

  static async open(
    behaviours: { readonly [name: string]: Behaviour } = {},
    limits: WorldLimits = {},
  ): Promise<ModuleWorld> {
    return new ModuleWorld(await Deno.makeTempDir({ prefix: "svc-world-" }), behaviours, limits);
  }

  /** Applies a configuration with these modules and components; a component that says no model is a probe. */
  async apply(
    modules: readonly (string | (JsonObject & { readonly name: string }))[],
    components: { readonly [name: string]: JsonObject } = {},
    more: JsonObject = {},
  ): Promise<void> {
    const entries = modules.map((one) => typeof one === "string" ? { name: one } : one);
    for (const { name } of entries) {
      await Deno.writeTextFile(`${this.home}/${name}.sh`, "#!/bin/sh\n", { mode: 0o755 });
    }
    const json = {
      modules: entries.map((one) => ({ executable_path: `${this.home}/${one.name}.sh`, ...one })),
      components: Object.entries(components).map(([name, { attributes = {}, ...one }]) => {
        return { name, api: SensorApi.name, model: MODEL, attributes, ...one };
      }),
      ...more,
    };
    await this.machine.apply((await decodeConfig(json, this.#registry, { env: () => undefined })).config);
  }

  /** The newest run of a module. */
  module(name: string): FakeModule {
    return this.started.findLast((one) => one.name === name)!;
  }

  /** The readings of a sensor, through the machine's own services. */
  readings(name: string): Promise<JsonObject> {
    return SensorApi.client(ResourceName.of(SensorApi.name, name), this.channel).getReadings() as Promise<
      JsonObject
    >;
  }

  /** `a: ready, b: unhealthy` */
  get states(): Record<string, string> {
    const nodes = [...this.machine.nodes].filter(({ name }) => name.api === SensorApi.name);
    return Object.fromEntries(nodes.map(({ name, state }) => [name.short, state]));
  }

  error(name: string): string | undefined {
    return [...this.machine.nodes].find((node) => node.name.short === name)?.error;
  }

  output(text: string): LogRecord[] {
    return this.records.filter(({ message }) => message.includes(text));
  }

  #run(command: ProcessCommand): FakeProcess {
    const name = command.env!.VIAM_MODULE_NAME;
    const module = new FakeModule(name, this.behaviours[name] ?? {}, command, 1000 + this.started.length);
    this.started.push(module);
    return module.process;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.channel.close();
    await this.machine.close();
    await Deno.remove(this.home, { recursive: true });
  }
}
