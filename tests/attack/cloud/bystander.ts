/**
 * The process of the tenants that nobody attacks: `bystander.ts WORK`. Their machines and owners call until its input
 * ends; then it prints how long the calls took.
 *
 * It works at a control plane under attack and at a calm one alike: what the computer itself delays is in both.
 */

import { AppService } from "../../../proto/gen/app_pb.ts";
import { DataService } from "../../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../../proto/gen/datasync_pb.ts";
import { RobotService } from "../../../proto/gen/robot_config_pb.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../../lib/wire/rpc/metadata.ts";
import { quantile } from "../../support/quantile.ts";

/** A tenant at a control plane; each of its programs has a token. */
export interface BystanderWork {
  /** `tenant 1 under attack` */
  readonly name: string;
  readonly address: string;
  readonly organization: string;
  readonly location: string;
  readonly ownerToken: string;
  readonly machines: readonly { readonly part: string; readonly token: string }[];
}

/** How long a tenant's calls took. */
export interface BystanderReport {
  readonly name: string;
  readonly calls: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** The call with the highest p99. */
  readonly slowest: string;
  /** `Config: unavailable: …`; each once. */
  readonly failures: readonly string[];
}

type Steps = readonly (readonly [call: string, run: () => Promise<unknown>])[];

const PAUSE_MS = 500;
const IMAGE_BYTES = 20_000;
const LIMITS = { timeoutMs: 10_000 };
const clock = new SystemClock();

class Bystander {
  readonly #took = new Map<string, number[]>();
  readonly #failures = new Set<string>();
  #turn = 0;

  constructor(private readonly work: BystanderWork) {}

  async live(until: AbortSignal): Promise<void> {
    const { ownerToken, machines } = this.work;
    await Promise.all([
      this.#repeat(ownerToken, until, (channel) => this.#ownerSteps(channel)),
      ...machines.map(({ part, token }) =>
        this.#repeat(token, until, (channel) => this.#machineSteps(channel, part))
      ),
    ]);
  }

  get report(): BystanderReport {
    const all = [...this.#took.values()].flat();
    const slowest = [...this.#took].map(([call, times]) => ({ call, p99Ms: quantile(times, 0.99) }))
      .toSorted((a, b) => b.p99Ms - a.p99Ms)[0];
    return {
      name: this.work.name,
      calls: all.length,
      p50Ms: quantile(all, 0.5),
      p99Ms: quantile(all, 0.99),
      maxMs: quantile(all, 1),
      slowest: slowest ? `${slowest.call} ${slowest.p99Ms.toFixed(0)} ms` : "none",
      failures: [...this.#failures],
    };
  }

  async #repeat(token: string, until: AbortSignal, stepsOf: (channel: Channel) => Steps): Promise<void> {
    const header = Metadata.from([["authorization", `Bearer ${token}`]]);
    const channel = connectGrpc(this.work.address, { clock, header });
    const steps = stepsOf(channel);
    try {
      while (!until.aborted) {
        for (const [call, run] of steps) {
          if (until.aborted) break;
          await this.#timed(call, run);
          await clock.sleep(PAUSE_MS * (0.5 + Math.random()), until).catch(() => {});
        }
      }
    } finally {
      channel.close();
    }
  }

  async #timed(call: string, run: () => Promise<unknown>): Promise<void> {
    const beganMs = performance.now();
    try {
      await run();
    } catch (error) {
      const { code, message } = SvcError.from(error);
      this.#failures.add(`${call}: ${code}: ${message}`);
    }
    const times = this.#took.getOrInsertComputed(call, () => []);
    times.push(performance.now() - beganMs);
  }

  #machineSteps(channel: Channel, id: string): Steps {
    const robot = client(RobotService, channel), sync = client(DataSyncService, channel);
    const about = { partId: id, componentName: "eye" };
    const log = () => {
      const entry = { message: `turn ${this.#turn++}`, level: "info", loggerName: "bystander" };
      return robot.log({ id, logs: [entry] }, LIMITS);
    };
    const read = () =>
      sync.dataCaptureUpload({
        metadata: {
          ...about,
          componentType: "rdk:component:sensor",
          methodName: "Readings",
          type: DataType.TABULAR_SENSOR,
        },
        sensorContents: [{ data: { case: "struct", value: { readings: { turn: this.#turn++ } } } }],
      }, LIMITS);
    const photograph = () =>
      sync.dataCaptureUpload({
        metadata: {
          ...about,
          componentType: "rdk:component:camera",
          methodName: "GetImages",
          type: DataType.BINARY_SENSOR,
          fileExtension: ".png",
        },
        sensorContents: [{
          data: { case: "binary", value: crypto.getRandomValues(new Uint8Array(IMAGE_BYTES)) },
        }],
      }, LIMITS);
    return [
      ["Config", () => robot.config({ id }, LIMITS)],
      ["Log", log],
      ["NeedsRestart", () => robot.needsRestart({ id }, LIMITS)],
      ["DataCaptureUpload of a reading", read],
      ["Log", log],
      ["DataCaptureUpload of an image", photograph],
    ];
  }

  #ownerSteps(channel: Channel): Steps {
    const app = client(AppService, channel), data = client(DataService, channel);
    const { organization: organizationId, location: locationId, machines: [{ part: id }] } = this.work;
    const dataRequest = { filter: { organizationIds: [organizationId] }, limit: 10n };
    const edit = () => app.updateRobotPart({ id, name: "main", robotConfig: { turn: this.#turn++ } }, LIMITS);
    return [
      ["ListLocations", () => app.listLocations({ organizationId }, LIMITS)],
      ["ListRobots", () => app.listRobots({ locationId }, LIMITS)],
      ["UpdateRobotPart", edit],
      ["GetRobotPart", () => app.getRobotPart({ id }, LIMITS)],
      ["GetRobotPartLogs", () => app.getRobotPartLogs({ id }, LIMITS)],
      ["TabularDataByFilter", () => data.tabularDataByFilter({ dataRequest }, LIMITS)],
      ["BinaryDataByFilter", () => data.binaryDataByFilter({ dataRequest }, LIMITS)],
    ];
  }
}

if (import.meta.main) {
  const works: BystanderWork[] = JSON.parse(Deno.args[0]);
  const over = new AbortController();
  const living = works.map((work) => {
    const bystander = new Bystander(work);
    return { bystander, life: bystander.live(over.signal) };
  });
  await Deno.stdin.read(new Uint8Array(1));
  over.abort();
  await Promise.all(living.map(({ life }) => life));
  console.log(JSON.stringify(living.map(({ bystander }) => bystander.report)));
}
