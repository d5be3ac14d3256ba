/**
 * A small machine behind its services, for the tests of the machine: motors that note their stops and turn until
 * told otherwise, arms of one joint, plain components, and a client that reaches them through the real table.
 */

import { type Arm, ArmApi } from "../../lib/api/actuators/arm.ts";
import { GenericApi } from "../../lib/api/actuators/generic.ts";
import { type Motor, MotorApi } from "../../lib/api/actuators/motor.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { FakeClock } from "./fake_clock.ts";
import { assert, SvcError } from "../../lib/base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../lib/base/log/log.ts";
import { anyObject, type JsonObject } from "../../lib/base/schema/schema.ts";
import { armModel } from "../../lib/geometry/arm_models.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import { IDENTITY_POSE } from "../../lib/geometry/pose.ts";
import { model, Registry } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
import { type CallOptions, client } from "../../lib/wire/rpc/channel.ts";
import { memoryChannel } from "../../lib/wire/rpc/memory.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { type Interceptor, ServiceTable } from "../../lib/wire/rpc/service.ts";
import { decodeConfig, type MachineConfig } from "../../lib/machine/config/config.ts";
import { requestLimit } from "../../lib/machine/serve/limits.ts";
import { Jobs } from "../../lib/machine/serve/jobs.ts";
import { Machine } from "../../lib/machine/graph/machine.ts";
import { Operations } from "../../lib/machine/serve/operations.ts";
import { robotService, type RobotServiceParts } from "../../lib/machine/serve/service.ts";
import { Sessions } from "../../lib/machine/serve/sessions.ts";
import { FakeHost } from "./fake_host.ts";

/** The entity of a test's calls. */
export const ENTITY = "test-entity";

export interface Bench {
  readonly clock: FakeClock;
  readonly machine: Machine;
  readonly operations: Operations;
  readonly sessions: Sessions;
  readonly jobs: Jobs;
  readonly records: LogRecord[];
  /** What happened to the motors: `stop m {"fast":true}`. */
  readonly diary: string[];
  /** Resources by short name whose stop, joints or kinematics fail. */
  readonly faults: Set<string>;
  /** Degrees of every arm's joint. */
  readonly joints: Map<string, number>;
  /** Reasons that the program was asked to end. */
  readonly shutdowns: string[];
  /** The number of sources in each request with spans. */
  readonly spans: number[];
  readonly robot: ReturnType<typeof robotClient>;
  readonly motors: ReturnType<typeof motorClient>;
  readonly arms: ReturnType<typeof armClient>;
  apply(json: JsonObject): Promise<void>;
  close(): Promise<void>;
}

export function bench({ env = {}, heartbeatWindowMs = 2000, upload }: {
  env?: Record<string, string>;
  heartbeatWindowMs?: number;
  upload?: RobotServiceParts["upload"];
} = {}): Bench {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)]);
  const host = new FakeHost({ env });
  const scene = { diary: [] as string[], faults: new Set<string>(), joints: new Map<string, number>() };
  const registry = registryOf(scene);
  const machine = new Machine({ registry, logs, clock, host });
  const operations = new Operations(clock);
  const sessions = new Sessions({ machine, clock, logger: logs.logger("sessions"), heartbeatWindowMs });
  const known: Interceptor = (ctx) => void (ctx.entity = ctx.requestHeader.get(ENTITY));
  const limit = requestLimit({ host, registry, clock, logger: logs.logger("limits") });
  const around = [known, limit, operations.interceptor, sessions.interceptor];
  const table = new ServiceTable(clock, around);
  for (const api of registry.apis) table.add(api.serve((name) => machine.find(api.name, name)));
  const shutdowns: string[] = [], spans: number[] = [];
  const shutdown = (reason: string) => void shutdowns.push(reason);
  const channel = memoryChannel(table);
  const jobs = new Jobs({ machine, channel, clock, logs });
  const receiveSpans = (request: readonly unknown[]) => void spans.push(request.length);
  const parts = { machine, operations, sessions, jobs, logs, clock, version: "1.2.3", shutdown };
  table.add(robotService({ ...parts, upload, diagnostics: { receiveSpans } }));
  return {
    ...scene,
    clock,
    machine,
    operations,
    sessions,
    jobs,
    records,
    shutdowns,
    spans,
    robot: robotClient(channel),
    motors: motorClient(channel),
    arms: armClient(channel),
    apply: async (json) => {
      const config = await decodeTest(json, registry);
      await machine.apply(config);
      jobs.apply(config.jobs);
    },
    close: async () => {
      await jobs.close();
      channel.close();
      await sessions.close();
      await machine.close();
    },
  };
}

/** Call options that carry metadata. */
export function header(...pairs: [string, string][]): CallOptions {
  return { header: Metadata.from(pairs) };
}

/** `{ name, api, model }` of a component of the bench. */
export function component(type: string, name: string, more: JsonObject = {}): JsonObject {
  return { name, api: `rdk:component:${type}`, model: "rdk:builtin:test", ...more };
}

function robotClient(channel: ReturnType<typeof memoryChannel>) {
  return client(RobotService, channel);
}

function motorClient(channel: ReturnType<typeof memoryChannel>) {
  return client(MotorApi.desc as typeof import("../../proto/gen/motor_pb.ts").MotorService, channel);
}

function armClient(channel: ReturnType<typeof memoryChannel>) {
  return client(ArmApi.desc as typeof import("../../proto/gen/arm_pb.ts").ArmService, channel);
}

export async function decodeTest(json: JsonObject, registry: Registry): Promise<MachineConfig> {
  const { config, problems, fatal } = await decodeConfig(json, registry, { env: () => undefined });
  assert(!fatal, `the test's configuration is wrong: ${JSON.stringify(problems)}`);
  return config;
}

type Scene = Pick<Bench, "diary" | "faults" | "joints">;

export function registryOf(scene: Scene): Registry {
  const doc = "for tests";
  const name = "rdk:builtin:test";
  const attributes = anyObject().default({});
  const construct = <R>(Class: new (name: BaseComponent["name"]) => BaseComponent) => {
    return ({ name, attributes }: { name: BaseComponent["name"]; attributes: JsonObject }) => {
      if (attributes.broken) throw new SvcError("unavailable", `${name.short} is broken`);
      return new Class(name) as unknown as R;
    };
  };
  return new Registry([ArmApi, GenericApi, MotorApi], [
    model({ api: ArmApi, name, doc, attributes, construct: construct<Arm>(armOf(scene)) }),
    model({ api: GenericApi, name, doc, attributes, construct: construct(partOf(scene)) }),
    model({ api: MotorApi, name, doc, attributes, construct: construct<Motor>(motorOf(scene)) }),
  ]);
}

/** Turns until its call is aborted; cannot stop while it has a fault. */
function motorOf({ diary, faults }: Scene) {
  return class extends BaseComponent {
    setPower(): Promise<void> {
      return Promise.resolve();
    }

    goFor(_rpm: number, _revolutions: number, call?: Call): Promise<void> {
      diary.push(`go ${this.name.short}`);
      return new Promise((_resolve, reject) => {
        call?.signal?.addEventListener("abort", () => {
          diary.push(`aborted ${this.name.short}`);
          reject(call.signal?.reason);
        });
      });
    }

    stop(call?: Call): Promise<void> {
      if (faults.has(this.name.short)) return Promise.reject(new SvcError("unavailable", "no power"));
      diary.push(`stop ${this.name.short}${call?.extra ? ` ${JSON.stringify(call.extra)}` : ""}`);
      return Promise.resolve();
    }

    isMoving(): Promise<boolean> {
      return Promise.resolve(true);
    }
  };
}

/** Has one joint, where the scene says. */
function armOf({ diary, faults, joints }: Scene) {
  return class extends BaseComponent {
    getKinematics() {
      if (faults.has(`${this.name.short} kinematics`)) throw new SvcError("unavailable", "no answer");
      return Promise.resolve(armModel("fake", this.name.short).source);
    }

    getJointPositions() {
      if (faults.has(this.name.short)) return Promise.reject(new SvcError("unavailable", "no answer"));
      return Promise.resolve([joints.get(this.name.short) ?? 0]);
    }

    async *moveThroughJointPositionsStreamed(batches: AsyncIterable<unknown>) {
      for await (const _ of batches) yield;
    }

    stop(): Promise<void> {
      diary.push(`stop ${this.name.short}`);
      return Promise.resolve();
    }

    isMoving(): Promise<boolean> {
      return Promise.resolve(true);
    }
  };
}

/** A ball that obeys its commands. */
function partOf({ diary }: Scene) {
  return class extends BaseComponent {
    override doCommand(command: JsonObject): Promise<JsonObject> {
      diary.push(`do ${this.name.short} ${JSON.stringify(command)}`);
      return Promise.resolve(command);
    }

    override getGeometries(): Promise<Geometry[]> {
      const shape = { type: "sphere", radiusMm: 7 } as const;
      return Promise.resolve([{ center: IDENTITY_POSE, label: this.name.short, shape }]);
    }
  };
}
