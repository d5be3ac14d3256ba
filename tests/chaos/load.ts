/**
 * Callers that write through the balancer without end and note what was acknowledged: logs, readings, pictures, packages
 * and configurations. What is not acknowledged they send again, as machines and people do.
 */

import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { PackageService, PackageType } from "../../proto/gen/packages_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type Code, SvcError } from "../../lib/base/error.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import type { Planes } from "./planes.ts";

const clock = new SystemClock();
const CALL = { timeoutMs: 15_000 };
const AGAIN_MS = 100;
/** Errors of a control plane that is gone or in trouble: the same call may succeed at another one. */
const PASSING: readonly Code[] = ["unavailable", "deadline_exceeded", "aborted", "canceled", "unknown"];
/** Readings of five minutes. */
const MINUTES = 5;
const MINUTE_MS = 60_000;
/** Has no divisor in common with five minutes, so that readings spread over them and have times of their own. */
const READING_MS = 7_919;
/** Every so many readings fulfil the trigger's condition. */
export const MARKED_EVERY = 10;

export interface Acknowledged {
  readonly logs: Set<string>;
  readonly readings: Set<number>;
  readonly pictures: Set<string>;
  /** Versions. */
  readonly packages: Set<string>;
  /** `max_rpm` in order. */
  readonly configs: number[];
}

/** What the machine's configuration has beside the motor. */
export type ConfigRest = Readonly<Record<string, unknown>>;

export class Load {
  readonly known: Acknowledged = {
    logs: new Set(),
    readings: new Set(),
    pictures: new Set(),
    packages: new Set(),
    configs: [],
  };
  readonly #over = new AbortController();
  readonly #writers: Promise<void>[];
  /** Calls that were repeated. */
  repeated = 0;

  /** @param startMs of the readings: the beginning of a minute, five minutes ago */
  constructor(
    private readonly planes: Planes,
    { owner, machine }: Tokens,
    private readonly config: ConfigRest,
    readonly startMs: number,
  ) {
    const { organizationId, partId } = planes.example;
    const { known } = this;
    this.#writers = [
      this.#write(machine, (channel, number) => this.#log(channel, partId, `a${number}`)),
      this.#write(machine, (channel, number) => this.#log(channel, partId, `b${number}`)),
      this.#write(machine, (channel, number) => this.#read(channel, partId, number)),
      this.#write(machine, async (channel, number) => {
        await uploadPicture(channel, partId, number);
        known.pictures.add(`picture ${number}`);
      }),
      this.#write(owner, (channel, number) => this.#publish(channel, organizationId, `1.0.${number}`)),
      this.#write(owner, async (channel, number) => {
        const { updateRobotPart } = client(AppService, channel);
        await updateRobotPart({ id: partId, name: "", robotConfig: this.#configOf(number + 1) }, CALL);
        known.configs.push(number + 1);
      }),
    ];
  }

  /** The number of acknowledged writes. */
  get written(): number {
    const { logs, readings, pictures, packages, configs } = this.known;
    return logs.size + readings.size + pictures.size + packages.size + configs.length;
  }

  /** Waits until each writer has written once more. */
  async stop(): Promise<void> {
    this.#over.abort();
    await Promise.all(this.#writers);
  }

  async #write(token: string, write: (channel: Channel, number: number) => Promise<void>): Promise<void> {
    let channel = this.planes.connect(token);
    try {
      for (let number = 0; !this.#over.signal.aborted;) {
        try {
          await write(channel, number);
          number++;
        } catch (error) {
          if (!PASSING.includes(SvcError.from(error).code)) throw error;
          this.repeated++;
          channel.close();
          await clock.sleep(AGAIN_MS);
          channel = this.planes.connect(token);
        }
      }
    } finally {
      channel.close();
    }
  }

  async #log(channel: Channel, id: string, message: string): Promise<void> {
    const time = toTimestamp(this.startMs + Number(message.slice(1)));
    await client(RobotService, channel).log(
      { id, logs: [{ message, level: "info", loggerName: "load", time }] },
      CALL,
    );
    this.known.logs.add(message);
  }

  async #read(channel: Channel, partId: string, number: number): Promise<void> {
    const time = toTimestamp(this.startMs + number * READING_MS % (MINUTES * MINUTE_MS));
    const readings = { n: number, marked: number % MARKED_EVERY === 0 };
    await client(DataSyncService, channel).dataCaptureUpload({
      metadata: {
        partId,
        componentType: "rdk:component:sensor",
        componentName: "thermo",
        methodName: "Readings",
        type: DataType.TABULAR_SENSOR,
      },
      sensorContents: [{
        metadata: { timeRequested: time, timeReceived: time },
        data: { case: "struct", value: { readings } },
      }],
    }, CALL);
    this.known.readings.add(number);
  }

  async #publish(channel: Channel, organizationId: string, version: string): Promise<void> {
    const { createPackage } = client(PackageService, channel);
    try {
      await createPackage(packageUpload(organizationId, version), CALL);
    } catch (error) {
      // The call before has succeeded, and its answer was lost.
      if (SvcError.from(error).code !== "already_exists") throw error;
    }
    this.known.packages.add(version);
  }

  #configOf(rpm: number) {
    const motor = { name: "m", api: "rdk:component:motor", model: "fake", attributes: { max_rpm: rpm } };
    return { ...this.config, components: [motor] };
  }
}

async function uploadPicture(channel: Channel, partId: string, number: number): Promise<void> {
  await client(DataSyncService, channel).dataCaptureUpload({
    metadata: {
      partId,
      componentType: "rdk:component:camera",
      componentName: "cam",
      methodName: "GetImages",
      type: DataType.BINARY_SENSOR,
      fileExtension: ".jpg",
    },
    sensorContents: [{
      metadata: { timeRequested: toTimestamp(1_700_000_000_000 + number) },
      data: { case: "binary", value: new TextEncoder().encode(`picture ${number}`) },
    }],
  }, CALL);
}

/** The first bytes of an archive, and the version. */
export function packageContent(version: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.of(0x1f, 0x8b, 8, 0, ...new TextEncoder().encode(version));
}

async function* packageUpload(organizationId: string, version: string) {
  const value = { organizationId, name: "tools", version, type: PackageType.MODULE };
  yield { package: { case: "info" as const, value } };
  yield { package: { case: "contents" as const, value: packageContent(version) } };
}

/** Tokens, which are good at all control planes. */
export interface Tokens {
  readonly owner: string;
  readonly machine: string;
}

/** The tokens of the example's owner and of its machine. */
export async function tokensOf(planes: Planes): Promise<Tokens> {
  const channel = planes.connect();
  const { authenticate } = client(AuthService, channel);
  const tokenOf = async ({ id, key }: { readonly id: string; readonly key: string }) =>
    (await authenticate({ entity: id, credentials: { type: "api-key", payload: key } })).accessToken;
  try {
    const { ownerKey, config } = planes.example;
    return { owner: await tokenOf(ownerKey), machine: await tokenOf(config.cloud.api_key) };
  } finally {
    channel.close();
  }
}

/** The beginning of the minute five minutes ago. */
export function loadStartMs(nowMs: number): number {
  return (Math.floor(nowMs / MINUTE_MS) - MINUTES) * MINUTE_MS;
}
