/** People of the fleet: they call machines over WebRTC, and train models, all the while. */

import { randomUUID } from "node:crypto";
import { MotorService } from "../../../proto/gen/motor_pb.ts";
import { MLTrainingService, TrainingStatus } from "../../../proto/gen/ml_training_pb.ts";
import { DataService } from "../../../proto/gen/data_pb.ts";
import { DatasetService } from "../../../proto/gen/dataset_pb.ts";
import { PackageService, PackageType } from "../../../proto/gen/packages_pb.ts";
import { RobotService } from "../../../proto/gen/robot_pb.ts";
import { SensorService } from "../../../proto/gen/sensor_pb.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { Secret } from "../../../lib/base/secret.ts";
import { connectApp } from "../../../lib/cloud_client/app_channel.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { dialWebRtc } from "../../../lib/wire/signaling/dialer.ts";
import { scriptArchive } from "../../cloud/training_world.ts";
import type { Planes } from "../planes.ts";
import type { Device } from "./device.ts";

const clock = new SystemClock();
const CALL = { timeoutMs: 15_000 };
const UPLOAD = { timeoutMs: 60_000 };
const AGAIN_MS = 500;
const JOB_EVERY_MS = 10_000;
/** Work of a second or so, which a killed control plane may interrupt. */
const SCRIPT = `import os, sys, time
print("begun", flush=True)
time.sleep(1)
folder = [one.split("=", 1)[1] for one in sys.argv if one.startswith("--model_output_directory=")][0]
os.makedirs(folder, exist_ok=True)
open(os.path.join(folder, "model.txt"), "w").write("a model")
`;
const OVER = [TrainingStatus.COMPLETED, TrainingStatus.FAILED, TrainingStatus.CANCELED];

/** Calls one machine over WebRTC, signaling through the balancer; throws if anything about it fails. */
export async function visit(planes: Planes, device: Device): Promise<void> {
  const { ownerKey } = planes.example;
  const signaling = connectApp({
    address: `http://${planes.host}`,
    keyId: ownerKey.id,
    key: new Secret(ownerKey.key),
    allowInsecureCredentials: true,
    clock,
  });
  let channel: Channel | undefined;
  try {
    channel = await dialWebRtc({ signaling, host: device.options.hostOfMachine, clock });
    const { resources } = await client(RobotService, channel).resourceNames({}, CALL);
    const names = new Set(resources.map(({ name }) => name));
    const wanted = device.hasRemote ? ["air", "m", "data", "near-air", "near-m"] : ["air", "m", "data"];
    const missing = wanted.filter((name) => !names.has(name));
    if (missing.length > 0) throw new SvcError("unavailable", `${device.name} has no ${missing.join(", ")}`);
    for (const name of wanted.filter((one) => one.endsWith("air"))) {
      await client(SensorService, channel).getReadings({ name }, CALL);
    }
    await client(MotorService, channel).setPower({ name: "m", powerPct: 0.5 }, CALL);
    await client(MotorService, channel).stop({ name: "m" }, CALL);
  } finally {
    channel?.close();
    signaling.close();
  }
}

/** Visit one machine after the other. */
export class Visitors {
  visits = 0;
  failed = 0;
  readonly #over = new AbortController();
  readonly #visiting: Promise<void>;

  constructor(planes: Planes, devices: readonly Device[]) {
    this.#visiting = this.#visitAll(planes, devices);
  }

  async stop(): Promise<void> {
    this.#over.abort();
    await this.#visiting;
  }

  async #visitAll(planes: Planes, devices: readonly Device[]): Promise<void> {
    for (let at = 0; !this.#over.signal.aborted; at = (at + 1) % devices.length) {
      try {
        await visit(planes, devices[at]);
        this.visits++;
      } catch {
        // What fails in the meantime is part of the exercise; each machine answers in the end.
        this.failed++;
      }
      await clock.sleep(AGAIN_MS);
    }
  }
}

/** Submits training jobs, and knows those that were acknowledged. */
export class Trainers {
  /** Ids. */
  readonly jobs: string[] = [];
  readonly #over = new AbortController();
  readonly #working: Promise<void>;
  /** The id of what they learn from. */
  #datasetId: Promise<string> | undefined;

  constructor(private readonly planes: Planes, private readonly token: string) {
    this.#working = this.#work();
  }

  async stop(): Promise<void> {
    this.#over.abort();
    await this.#working;
  }

  /** How the jobs ended so far; those that go on are not counted. */
  async ended(): Promise<
    { readonly completed: number; readonly interrupted: number; readonly others: string[] }
  > {
    let [completed, interrupted] = [0, 0];
    const others: string[] = [];
    for (const id of this.jobs) {
      const { metadata } = await this.#call((channel) => {
        return client(MLTrainingService, channel).getTrainingJob({ id }, CALL);
      });
      const { status, errorStatus } = metadata!;
      if (!OVER.includes(status)) continue;
      if (status === TrainingStatus.COMPLETED) completed++;
      else if (errorStatus?.message.startsWith("interrupted")) interrupted++;
      else others.push(`${id}: ${TrainingStatus[status]} ${errorStatus?.message}`);
    }
    return { completed, interrupted, others };
  }

  /** Submits one more job, and returns its id. */
  async submit(): Promise<string> {
    const { organizationId } = this.planes.example;
    const job = {
      organizationId,
      datasetId: await this.#dataset(),
      registryItemId: `${organizationId}:script`,
      registryItemVersion: "1.0.0",
      modelName: "chaos",
    };
    const { id } = await this.#call((channel) => {
      const modelVersion = randomUUID();
      return client(MLTrainingService, channel).submitCustomTrainingJob({ ...job, modelVersion }, CALL);
    });
    this.jobs.push(id);
    return id;
  }

  async #work(): Promise<void> {
    await this.#call((channel) => uploadScript(channel, this.planes.example.organizationId));
    while (!this.#over.signal.aborted) {
      await this.submit();
      await clock.sleep(JOB_EVERY_MS, this.#over.signal).catch(() => {});
    }
  }

  #dataset(): Promise<string> {
    return this.#datasetId ??= this.#makeDataset();
  }

  async #makeDataset(): Promise<string> {
    const { organizationId } = this.planes.example;
    const { id: datasetId } = await this.#call((channel) => {
      return client(DatasetService, channel).createDataset({ organizationId, name: randomUUID() }, CALL);
    });
    const binaryDataIds = await this.#call(async (channel) => {
      const dataRequest = { filter: { organizationIds: [organizationId] }, limit: 2n };
      const { data } = await client(DataService, channel).binaryDataByFilter({ dataRequest }, CALL);
      if (data.length < 2) throw new SvcError("unavailable", "there are no pictures yet");
      return data.map(({ metadata }) => metadata!.binaryDataId);
    });
    await this.#call((channel) => {
      return client(DataService, channel).addBinaryDataToDatasetByIDs({ datasetId, binaryDataIds }, CALL);
    });
    return datasetId;
  }

  /** Repeats a call until it succeeds, or is refused for good. */
  async #call<T>(call: (channel: Channel) => Promise<T>): Promise<T> {
    for (;;) {
      const channel = this.planes.connect(this.token);
      try {
        return await call(channel);
      } catch (error) {
        if (["invalid_argument", "permission_denied", "not_found"].includes(SvcError.from(error).code)) {
          throw error;
        }
        await clock.sleep(AGAIN_MS);
      } finally {
        channel.close();
      }
    }
  }
}

async function uploadScript(channel: Channel, organizationId: string): Promise<void> {
  const archive = scriptArchive(SCRIPT);
  const value = { organizationId, name: "script", version: "1.0.0", type: PackageType.ML_TRAINING };
  const upload = async function* () {
    yield { package: { case: "info" as const, value } };
    for await (const chunk of archive) yield { package: { case: "contents" as const, value: chunk } };
  };
  try {
    await client(PackageService, channel).createPackage(upload(), UPLOAD);
  } catch (error) {
    // The call before has succeeded, and its answer was lost.
    if (SvcError.from(error).code !== "already_exists") throw error;
  }
}
