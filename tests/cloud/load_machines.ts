/**
 * Simulated machines for the bench of the control plane: each with a connection, a key and a pace of its own, as
 * `svc-server` has that hears of changes by push and captures data.
 */

import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { ChangeService } from "../../proto/gen/changes_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { requestPauseMs, unevenMs } from "../../lib/base/async/backoff.ts";
import { type Clock, SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";

/** The calls that a machine makes, and the names of their figures. */
export const CALLS = [
  "authenticate",
  "config",
  "restart",
  "log",
  "readings",
  "image",
  "change",
  "pushed",
] as const;
type Call = typeof CALLS[number];

/** Milliseconds between two calls of a machine. The polls are those without news. */
export const PACE = {
  config: 30 * 60_000,
  restart: 30 * 60_000,
  log: 60_000,
  readings: 60_000,
  image: 10 * 60_000,
  change: 10 * 60_000,
} as const;
const LOG_LINES = 5;
const READINGS = 6;
const IMAGE_BYTES = 50_000;
const LIMITS = { timeoutMs: 30_000 };
const AGAIN = { firstMs: 1_000, mostMs: 60_000, jitter: 0.5 };
const AGAIN_MS = 1_000;

export interface LoadMachine {
  readonly partId: string;
  readonly keyId: string;
  /** The address of its control plane. */
  readonly host: string;
}

export interface LoadKeys {
  /** The secret of all keys. */
  readonly secret: string;
  readonly ownerId: string;
}

/** How long calls took, and which failed. */
export class Figures {
  readonly failures = new Map<string, number>();
  #took = new Map<Call, number[]>();
  #hasEnded = false;
  readonly #clock: Clock = new SystemClock();

  times(call: Call): readonly number[] {
    return this.#took.get(call) ?? [];
  }

  get calls(): number {
    return CALLS.reduce((sum, call) => sum + this.times(call).length, 0);
  }

  /** Forgets the times so far. */
  begin(): void {
    this.#took = new Map();
  }

  /** Notes no further times: the end of thousands of machines holds up the answers that are under way. */
  end(): void {
    this.#hasEnded = true;
  }

  note(call: Call, ms: number): void {
    if (this.#hasEnded) return;
    const times = this.#took.get(call) ?? [];
    times.push(ms);
    this.#took.set(call, times);
  }

  /** Calls until it succeeds, as a machine does; gives nothing when the time is over before. */
  async timed<T>(call: Call, work: () => Promise<T>, until: AbortSignal): Promise<T | undefined> {
    for (let failures = 1; !until.aborted; failures++) {
      const startMs = this.#clock.monotonicMs();
      try {
        const value = await work();
        this.note(call, this.#clock.monotonicMs() - startMs);
        return value;
      } catch (error) {
        if (until.aborted) return undefined;
        const { code, message } = SvcError.from(error);
        // Those that differ in a number alone are counted together.
        const failure = `${call}: ${code}: ${message.replaceAll(/\d+/g, "…")}`;
        this.failures.set(failure, (this.failures.get(failure) ?? 0) + 1);
        await this.#clock.sleep(requestPauseMs(AGAIN, failures, error), until).catch(() => {});
      }
    }
  }
}

const clock = new SystemClock();

/** Connects, authenticates, and reads the first configuration, as a machine does that starts. */
export async function connectMachine(
  machine: LoadMachine,
  secret: string,
  figures: Figures,
  until: AbortSignal,
): Promise<Channel | undefined> {
  const channel = await dial(machine, secret, figures, until);
  if (!channel) return undefined;
  const { config } = client(RobotService, channel);
  await figures.timed("config", () => config({ id: machine.partId }, LIMITS), until);
  return channel;
}

/** Authenticates on a connection of its own; the returned channel connects at its first call. */
export async function dial(
  { host, keyId }: Pick<LoadMachine, "host" | "keyId">,
  secret: string,
  figures: Figures,
  until: AbortSignal,
): Promise<Channel | undefined> {
  const first = connectGrpc(host, { clock });
  const credentials = { type: "api-key", payload: secret };
  const { authenticate } = client(AuthService, first);
  const login = await figures.timed(
    "authenticate",
    () => authenticate({ entity: keyId, credentials }, LIMITS),
    until,
  );
  first.close();
  if (!login) return undefined;
  const header = Metadata.from([["authorization", `Bearer ${login.accessToken}`]]);
  return connectGrpc(host, { clock, header });
}

/** Runs a machine until the time is over. `pushedAt` has when its configuration was changed last. */
export async function runMachine(
  { partId: id }: LoadMachine,
  channel: Channel,
  figures: Figures,
  pushedAt: Map<string, number>,
  until: AbortSignal,
): Promise<void> {
  const robot = client(RobotService, channel);
  const sync = client(DataSyncService, channel);
  let number = 0;
  const readConfig = () => figures.timed("config", () => robot.config({ id }, LIMITS), until);
  const work: Record<Exclude<keyof typeof PACE, "change">, () => Promise<unknown>> = {
    config: readConfig,
    restart: () => figures.timed("restart", () => robot.needsRestart({ id }, LIMITS), until),
    log: () => figures.timed("log", () => robot.log({ id, logs: lines(number++) }, LIMITS), until),
    readings: () => figures.timed("readings", () => sync.dataCaptureUpload(readingsOf(id), LIMITS), until),
    image: () => figures.timed("image", () => sync.dataCaptureUpload(imageOf(id, number++), LIMITS), until),
  };
  const paced = Object.entries(work).map(([name, call]) =>
    every(PACE[name as keyof typeof work], call, until)
  );
  await Promise.all([...paced, followChanges(id, channel, figures, pushedAt, readConfig, until)]);
}

/** Reads the configuration whenever the control plane announces a change of it. */
async function followChanges(
  id: string,
  channel: Channel,
  figures: Figures,
  pushedAt: Map<string, number>,
  readConfig: () => Promise<unknown>,
  until: AbortSignal,
): Promise<void> {
  const { follow } = client(ChangeService, channel);
  while (!until.aborted) {
    try {
      for await (const _ of follow({ id }, { signal: until })) {
        const changedMs = pushedAt.get(id);
        if (changedMs === undefined) continue;
        pushedAt.delete(id);
        figures.note("pushed", clock.monotonicMs() - changedMs);
        await readConfig();
      }
    } catch {
      // The control plane has ended the stream, or the time is over.
    }
    await clock.sleep(AGAIN_MS, until).catch(() => {});
  }
}

/** Changes machines' configurations, as people do, at their pace. */
export async function changeConfigs(
  machines: readonly LoadMachine[],
  channel: Channel,
  figures: Figures,
  pushedAt: Map<string, number>,
  until: AbortSignal,
): Promise<void> {
  const { updateRobotPart } = client(AppService, channel);
  let number = 0;
  await every(PACE.change / machines.length, async () => {
    const { partId: id } = machines[Math.floor(Math.random() * machines.length)];
    const attributes = { max_rpm: ++number };
    const motor = { name: "m", api: "rdk:component:motor", model: "fake", attributes };
    pushedAt.set(id, clock.monotonicMs());
    const robotConfig = { components: [motor] };
    await figures.timed("change", () => updateRobotPart({ id, name: "", robotConfig }, LIMITS), until);
  }, until);
}

/** Calls at an interval, beginning at a random moment. */
async function every(ms: number, call: () => Promise<unknown>, until: AbortSignal): Promise<void> {
  await clock.sleep(Math.random() * ms, until).catch(() => {});
  while (!until.aborted) {
    const startMs = clock.monotonicMs();
    await call();
    await clock.sleep(Math.max(0, unevenMs(ms) - (clock.monotonicMs() - startMs)), until).catch(() => {});
  }
}

function lines(number: number) {
  return Array.from({ length: LOG_LINES }, (_, index) => ({
    message: `the motor turned ${number}.${index} times and is at ${Math.random().toFixed(3)}`,
    level: "info",
    loggerName: "rdk.resource_manager.rdk:component:motor/left",
    time: toTimestamp(clock.nowMs()),
  }));
}

/** An upload of readings, as a machine makes one a minute. */
export function readingsOf(partId: string) {
  const contents = Array.from({ length: READINGS }, (_, index) => {
    const time = toTimestamp(clock.nowMs() - index * PACE.readings / READINGS);
    const readings = { celsius: 20 + Math.random(), humidity: Math.random(), state: "on" };
    return {
      metadata: { timeRequested: time, timeReceived: time },
      data: { case: "struct" as const, value: { readings } },
    };
  });
  const source = { componentType: "rdk:component:sensor", componentName: "thermo", methodName: "Readings" };
  return { metadata: { partId, ...source, type: DataType.TABULAR_SENSOR }, sensorContents: contents };
}

function imageOf(partId: string, number: number) {
  const value = crypto.getRandomValues(new Uint8Array(IMAGE_BYTES));
  value.set([0xff, 0xd8, 0xff, number & 0xff]);
  const source = { componentType: "rdk:component:camera", componentName: "cam", methodName: "GetImages" };
  const metadata = { partId, ...source, type: DataType.BINARY_SENSOR, fileExtension: ".jpg" };
  const at = { metadata: { timeRequested: toTimestamp(clock.nowMs()) } };
  return { metadata, sensorContents: [{ ...at, data: { case: "binary" as const, value } }] };
}
