/**
 * The world of the simulation: parts that fail, hang, come late, close slowly or not at all, and a link to another
 * machine that breaks. It watches every part and throws the machine's mistakes with it.
 */

import { GenericApi } from "../../lib/api/actuators/generic.ts";
import { GenericServiceApi } from "../../lib/api/services/generic_service.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../lib/base/log/log.ts";
import { anyObject, type JsonObject } from "../../lib/base/schema/schema.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { Machine } from "../../lib/machine/graph/machine.ts";
import { Remotes } from "../../lib/machine/graph/remotes.ts";
import { parseApi } from "../../lib/resource/name.ts";
import { type AnyApi, type Construction, model, Registry } from "../../lib/resource/registry.ts";
import { BaseComponent, type Resource } from "../../lib/resource/resource.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import type { GrpcOptions } from "../../lib/wire/grpc/grpc_channel.ts";
import { memoryChannel } from "../../lib/wire/rpc/memory.ts";
import { service, ServiceTable } from "../../lib/wire/rpc/service.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { FakeHost } from "../support/fake_host.ts";

export const APIS: readonly AnyApi[] = [GenericApi, SensorApi, GenericServiceApi];

/** Few, so that they are in each other's way. */
const CONCURRENT_BUILDS = 3;
const BUILD_TIMEOUT_MS = 20_000;

export class Dice {
  readonly next: () => number;

  constructor(seed: number) {
    this.next = randomFrom(seed);
  }

  /** An integer from 0 up to, not including, `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }
}

/** A machine of the simulation, with its watched parts. */
export interface Subject {
  readonly machine: Machine;
  /** The builds that the machine still waits for, with their inputs. */
  readonly building: Map<Construction<JsonObject>, readonly Resource[]>;
}

export class World {
  readonly clock = new FakeClock();
  readonly records: LogRecord[] = [];
  /** Those that stand, and how many there ever were. */
  readonly live = new Set<Part>();
  built = 0;
  readonly wrong: string[] = [];
  faulty = true;
  /** Something outside changes, at the worst moments: while something is being built or closed. */
  disturb = () => {};
  #link: "up" | "down" | "mute" = "up";
  readonly #connections = new Set<() => void>();

  constructor(readonly dice: Dice) {}

  /** A new machine in this world. `far` is whom its remote leads to. */
  subject(far?: Machine): Subject {
    const logs = new Logs(this.clock, [memorySink(this.records)]);
    const building: Subject["building"] = new Map();
    const registry = new Registry(APIS, APIS.map((api) => this.#model(api, building)));
    const { clock } = this;
    const connect = (_address: string, options: GrpcOptions) => this.#connect(far!, options);
    const remotes = far && new Remotes({ registry, clock, logger: logs.logger("remotes"), connect });
    const limits = { concurrentBuilds: CONCURRENT_BUILDS, buildTimeoutMs: BUILD_TIMEOUT_MS };
    return {
      machine: new Machine({ registry, logs, clock, host: new FakeHost(), remotes, limits }),
      building,
    };
  }

  /** The link's behaviour from now on; a change ends its connections. */
  set link(state: World["link"]) {
    this.#link = state;
    for (const lose of [...this.#connections]) lose();
  }

  get link(): "up" | "down" | "mute" {
    return this.#link;
  }

  /** Within the next few turns of the program, now and then. */
  #disturbSometime(): void {
    if (!this.faulty || !this.dice.chance(0.03)) return;
    let turns = this.dice.below(16);
    const wait = () => turns-- > 0 ? queueMicrotask(wait) : this.disturb();
    wait();
  }

  #model(api: AnyApi, building: Subject["building"]) {
    return model<Resource, JsonObject>({
      api,
      name: "rdk:builtin:part",
      doc: "a part of the simulation",
      attributes: anyObject().default({}),
      weakDependencies: parseApi(api.name).kind === "service"
        ? (other) => other === GenericApi.name
        : undefined,
      construct: (from) => this.#construct(from, building),
    });
  }

  #construct(from: Construction<JsonObject>, building: Subject["building"]): Resource | Promise<Resource> {
    const held = APIS.flatMap((api) => from.dependencies.all(api) as Resource[]);
    for (const one of held) if (one instanceof Part) one.use(`${from.name} is built`);
    building.set(from, held);
    from.signal.addEventListener("abort", () => building.delete(from));
    if (building.size > CONCURRENT_BUILDS) this.wrong.push(`${building.size} are built at once`);
    this.#disturbSometime();
    const part = () => {
      building.delete(from);
      this.#disturbSometime();
      const made = new Part(this, building, from, held);
      this.live.add(made);
      this.built++;
      return made;
    };
    const broken = (): never => {
      building.delete(from);
      throw new SvcError("unavailable", `${from.name.short} is broken`);
    };
    const { dice, clock } = this;
    if (!this.faulty) return part();
    const roll = dice.below(100);
    if (roll < 55) return part();
    if (roll < 65) return broken();
    if (roll < 75) return clock.sleep(dice.below(8_000)).then(part);
    if (roll < 82) return clock.sleep(dice.below(8_000)).then(broken);
    if (roll < 87) return clock.sleep(BUILD_TIMEOUT_MS + dice.below(5_000)).then(part);
    if (roll < 92) return clock.sleep(dice.below(40_000), from.signal).then(part);
    if (roll < 95) return new Promise(() => {});
    if (roll < 98) return Promise.resolve().then(part);
    building.delete(from);
    throw new TypeError("undefined is not a function");
  }

  #connect(far: Machine, { lost }: GrpcOptions): Channel {
    const { clock } = this;
    if (this.#link !== "up") {
      const mute = this.#link === "mute";
      return {
        // deno-lint-ignore require-yield
        call: async function* (_method, _requests, { timeoutMs = 0, signal } = {}) {
          if (mute) await clock.sleep(timeoutMs, signal);
          throw new SvcError("unavailable", mute ? "no answer" : "cannot connect");
        },
        close: () => {},
      };
    }
    const table = new ServiceTable(clock);
    const names = () =>
      far.names.map(({ api, simple: name }) => {
        const { namespace, kind: type, type: subtype } = parseApi(api);
        return { namespace, type, subtype, name };
      });
    table.add(service(RobotService, { resourceNames: () => ({ resources: names() }) }));
    for (const api of APIS) table.add(api.serve((name) => far.find(api.name, name)));
    const channel = memoryChannel(table);
    const lose = () => {
      this.#connections.delete(lose);
      channel.close();
      lost?.();
    };
    this.#connections.add(lose);
    const close = () => {
      this.#connections.delete(lose);
      channel.close();
    };
    return { call: (...call) => channel.call(...call), close };
  }
}

/** A resource that the machine builds. It knows its inputs and whether it may still be used. */
export class Part extends BaseComponent {
  #closes = 0;
  readonly #seen: () => readonly Resource[];
  logged: readonly Resource[] | undefined;
  weakDependenciesChanged?: () => Promise<void>;

  constructor(
    private readonly world: World,
    private readonly building: Subject["building"],
    { name, dependencies, attributes }: Construction<JsonObject>,
    readonly held: readonly Resource[],
  ) {
    super(name);
    this.#seen = () => dependencies.weak;
    const sees = name.api === GenericServiceApi.name;
    if (sees && attributes.watches) {
      this.weakDependenciesChanged = () => Promise.resolve(void (this.logged = this.#seen()));
    }
  }

  get seen(): readonly Resource[] {
    return this.#seen();
  }

  get closes(): number {
    return this.#closes;
  }

  use(why: string): void {
    if (this.#closes > 0) this.world.wrong.push(`${this.name} is used after its close: ${why}`);
  }

  override doCommand(): Promise<JsonObject> {
    this.use("a command");
    return Promise.resolve({});
  }

  override close(): Promise<void> {
    this.#closes++;
    const { world, name } = this;
    if (this.#closes > 1) world.wrong.push(`${name} is closed ${this.#closes} times`);
    world.live.delete(this);
    for (const { held, name: user } of world.live) {
      if (held.includes(this)) world.wrong.push(`${name} is closed and ${user} still holds it`);
    }
    for (const [{ name: user }, held] of this.building) {
      if (held.includes(this)) world.wrong.push(`${name} is closed and ${user} is being built with it`);
    }
    if (!world.faulty) return Promise.resolve();
    const roll = world.dice.below(100);
    if (roll < 70) return Promise.resolve();
    if (roll < 80) return world.clock.sleep(world.dice.below(6_000));
    if (roll < 87) return world.clock.sleep(20_000 + world.dice.below(20_000));
    if (roll < 93) return Promise.reject(new SvcError("internal", "it cannot be closed"));
    if (roll < 97) throw new TypeError("undefined is not a function");
    return new Promise(() => {});
  }
}
