/**
 * A small scripted control plane in memory for tests of `svc-ml`, which records its requests.
 */

import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { type BinaryDataSchema, DataService } from "../../proto/gen/data_pb.ts";
import { type BoundingBoxSchema, type ClassificationSchema } from "../../proto/gen/annotations_pb.ts";
import { DatasetService } from "../../proto/gen/dataset_pb.ts";
import { DataSyncService } from "../../proto/gen/datasync_pb.ts";
import { MLInferenceService } from "../../proto/gen/ml_inference_pb.ts";
import {
  MLTrainingService,
  type TrainingJobLogEntrySchema,
  type TrainingJobMetadata,
  TrainingJobMetadataSchema,
  TrainingStatus,
} from "../../proto/gen/ml_training_pb.ts";
import { type PackageInfo, PackageService, PackageType } from "../../proto/gen/packages_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import type { TlsFiles } from "../../lib/wire/port/tls.ts";
import { create, type MessageInitShape } from "../../lib/wire/rpc/proto.ts";
import { type CallContext, service, ServiceTable } from "../../lib/wire/rpc/service.ts";
import type { Route } from "../../lib/wire/port/route.ts";

export const KEY = { id: "key-1", key: "secret-1" };
export const ORGANIZATION = { id: "org-1", name: "example" };
/** 2024-01-02 03:04:05 UTC */
export const THEN_MS = Date.UTC(2024, 0, 2, 3, 4, 5);

type JobInit = Omit<MessageInitShape<typeof TrainingJobMetadataSchema>, "$typeName">;
type Log = MessageInitShape<typeof TrainingJobLogEntrySchema>;

interface FakeImage {
  readonly name: string;
  readonly tags: string[];
  readonly boxes: MessageInitShape<typeof BoundingBoxSchema>[];
  readonly classifications?: MessageInitShape<typeof ClassificationSchema>[];
  readonly content: Uint8Array;
  readonly mimeType: string;
  readonly timeMs: number;
  readonly datasets: string[];
}

export class FakeCloud {
  url = "";
  /** Calls that came, by the name of their method, with their first message. */
  readonly calls: { readonly method: string; readonly request: unknown }[] = [];
  readonly organizations = [ORGANIZATION];
  /** Their names; each has one part. */
  readonly machines = ["rover"];
  /** Where each upload is said to come from: its part, or else its organization. */
  readonly sources: string[] = [];
  readonly jobs: TrainingJobMetadata[] = [];
  readonly logs: Log[] = [];
  /** Each look at a job takes one of them and does it. */
  readonly steps: ((job: TrainingJobMetadata) => void)[] = [];
  /** Each is the answer to the next call of that method. */
  readonly failures: { readonly method: string; readonly error: SvcError }[] = [];
  readonly datasets: { id: string; name: string }[] = [];
  readonly images = new Map<string, FakeImage>();
  readonly packages: { info: PackageInfo; content: Uint8Array; checksum: string }[] = [];
  /** Where downloads are sent instead. */
  downloadsAt?: string;
  /** Requests for the content of packages: their ranges. */
  readonly downloads: (string | undefined)[] = [];
  /** Bytes after which a download breaks off, once each. */
  readonly breaks: number[] = [];
  token = 0;

  /** The calls of one method. */
  of(method: string): unknown[] {
    return this.calls.filter((one) => one.method === method).map(({ request }) => request);
  }

  addJob(job: JobInit): void {
    this.jobs.push(create(TrainingJobMetadataSchema, { organizationId: ORGANIZATION.id, ...job }));
  }

  addImage(
    id: string,
    dataset: string,
    { tags = [] as string[], boxes = [] as string[], name = `${id}.png`, content = PNG as Uint8Array },
  ) {
    this.images.set(id, {
      name,
      tags,
      boxes: boxes.map((label, at) => ({
        id: `${id}-box-${at}`,
        label,
        xMinNormalized: 0.25,
        yMinNormalized: 0.25,
        xMaxNormalized: 0.5,
        yMaxNormalized: 0.75,
      })),
      content,
      mimeType: "image/png",
      timeMs: THEN_MS + this.images.size * 1000,
      datasets: [dataset],
    });
  }
}

/** The smallest thing that begins as a PNG does. */
export const PNG = Uint8Array.of(137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13);
const PAGE = 3;

/** Serves a fake for as long as `run` takes. */
export async function withFakeCloud(
  run: (cloud: FakeCloud) => Promise<void>,
  tls?: TlsFiles,
): Promise<void> {
  const cloud = new FakeCloud();
  const clock = new SystemClock();
  const table = new ServiceTable(clock, [(ctx, request) => admit(cloud, ctx, request)]);
  for (const one of servicesOf(cloud)) table.add(one);
  const files: Route = ({ path, fields }) =>
    contentOf(cloud, path, fields.find(([name]) => name === "range")?.[1]);
  const routes = new Map([["/files/*", files]]);
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, tls, clock, http: { routes } });
  cloud.url = tls ? `https://localhost:${port.port}` : port.url;
  try {
    await run(cloud);
  } finally {
    await port.close(2_000);
  }
}

function admit(cloud: FakeCloud, ctx: CallContext, request: unknown): void {
  const method = ctx.method.localName;
  cloud.calls.push({ method, request });
  const at = cloud.failures.findIndex((one) => one.method === method);
  if (at >= 0) throw cloud.failures.splice(at, 1)[0].error;
  if (method === "authenticate") return;
  if (ctx.requestHeader.get("authorization") !== `Bearer token-${cloud.token}`) {
    throw new SvcError("unauthenticated", "no good token");
  }
}

function servicesOf(cloud: FakeCloud) {
  return [
    service(AuthService, {
      authenticate({ entity, credentials }) {
        if (entity === KEY.id && credentials?.payload === KEY.key) {
          return { accessToken: `token-${cloud.token}` };
        }
        throw new SvcError("unauthenticated", "invalid credentials");
      },
    }),
    service(AppService, {
      listOrganizations: () => ({ organizations: cloud.organizations }),
      listMachineSummaries: () => ({
        locationSummaries: [{
          machineSummaries: cloud.machines.map((machineName, at) => ({
            machineName,
            partSummaries: [{ partId: `part-${at + 1}`, partName: `${machineName}-main`, isMainPart: true }],
          })),
        }],
      }),
    }),
    training(cloud),
    service(DatasetService, {
      listDatasetsByOrganizationID: () => ({
        datasets: cloud.datasets.map((one) => ({
          ...one,
          organizationId: ORGANIZATION.id,
          timeCreated: toTimestamp(THEN_MS),
        })),
      }),
      createDataset({ name }) {
        cloud.datasets.push({ id: `dataset-${cloud.datasets.length + 1}`, name });
        return { id: cloud.datasets.at(-1)!.id };
      },
      renameDataset({ id, name }) {
        cloud.datasets.find((one) => one.id === id)!.name = name;
        return {};
      },
      deleteDataset({ id }) {
        cloud.datasets.splice(cloud.datasets.findIndex((one) => one.id === id), 1);
        return {};
      },
    }),
    ...data(cloud),
    packages(cloud),
  ];
}

function training(cloud: FakeCloud) {
  const find = (id: string) => {
    const job = cloud.jobs.find((one) => one.id === id);
    if (!job) throw new SvcError("not_found", `there is no training job "${id}"`);
    return job;
  };
  const add = (job: JobInit) => {
    const same = cloud.jobs.some((one) =>
      one.modelName === job.modelName && one.modelVersion === job.modelVersion
    );
    if (same) throw new SvcError("already_exists", `version "${job.modelVersion}" is there already`);
    const id = `job-${cloud.jobs.length + 1}`;
    cloud.addJob({ ...job, id, status: TrainingStatus.PENDING, createdOn: toTimestamp(THEN_MS) });
    return { id };
  };
  return service(MLTrainingService, {
    submitTrainingJob: ({ $typeName: _, ...request }) => add(request),
    submitCustomTrainingJob: ({ $typeName: _, ...request }) => add({ ...request, isCustomJob: true }),
    getTrainingJob({ id }) {
      const job = find(id);
      cloud.steps.shift()?.(job);
      return { metadata: job };
    },
    listTrainingJobs: ({ status }) => ({
      jobs: cloud.jobs.filter((one) => status === TrainingStatus.UNSPECIFIED || one.status === status),
    }),
    cancelTrainingJob({ id }) {
      if (find(id).status === TrainingStatus.COMPLETED) {
        throw new SvcError("failed_precondition", `training job "${id}" is completed`);
      }
      return {};
    },
    deleteCompletedTrainingJob({ id }) {
      cloud.jobs.splice(cloud.jobs.indexOf(find(id)), 1);
      return {};
    },
    getTrainingJobLogs({ id, pageToken }) {
      find(id);
      const from = Number(pageToken ?? 0);
      const end = from + PAGE;
      return { logs: cloud.logs.slice(from, end), nextPageToken: cloud.logs.length > end ? String(end) : "" };
    },
    listSupportedContainers: () => ({
      containerMap: {
        "python:3.11": { key: "python:3.11", framework: "any", description: "Python on this computer" },
      },
    }),
  });
}

function data(cloud: FakeCloud) {
  const message = (id: string, binary = false): MessageInitShape<typeof BinaryDataSchema> => {
    const { name, tags, boxes, classifications, content, mimeType, timeMs, datasets } = cloud.images.get(id)!;
    return {
      binary: binary ? content : undefined,
      metadata: {
        binaryDataId: id,
        fileName: name,
        fileSizeBytes: BigInt(content.length),
        captureMetadata: { tags, mimeType, partId: "part-1", organizationId: ORGANIZATION.id },
        annotations: { bboxes: boxes, classifications },
        timeRequested: toTimestamp(timeMs),
        datasetIds: datasets,
      },
    };
  };
  return [
    service(DataService, {
      binaryDataByFilter({ dataRequest }) {
        const wanted = dataRequest!.filter!.datasetId;
        const ids = [...cloud.images].filter(([, one]) => one.datasets.includes(wanted)).map(([id]) => id);
        const from = dataRequest!.last === "" ? 0 : ids.indexOf(dataRequest!.last) + 1;
        const page = ids.slice(from, from + PAGE);
        return { data: page.map((id) => message(id)), last: page.at(-1) ?? "" };
      },
      binaryDataByIDs: ({ binaryDataIds }) => ({ data: binaryDataIds.map((id) => message(id, true)) }),
      deleteBinaryDataByIDs: ({ binaryDataIds }) => ({
        deletedCount: BigInt(binaryDataIds.filter((id) => cloud.images.delete(id)).length),
      }),
    }),
    service(DataSyncService, {
      async streamingDataCaptureUpload(requests) {
        const content: number[] = [];
        let image: Omit<FakeImage, "content"> | undefined;
        for await (const { uploadPacket } of requests) {
          if (uploadPacket.case === "data") content.push(...uploadPacket.value);
          if (uploadPacket.case !== "metadata") continue;
          const { uploadMetadata, sensorMetadata } = uploadPacket.value;
          cloud.sources.push(uploadMetadata!.partId || uploadMetadata!.organizationId);
          image = {
            name: uploadMetadata!.fileName,
            tags: uploadMetadata!.tags,
            boxes: sensorMetadata?.annotations?.bboxes ?? [],
            classifications: sensorMetadata?.annotations?.classifications,
            mimeType: uploadMetadata!.mimeType,
            timeMs: Number(sensorMetadata!.timeRequested!.seconds) * 1000,
            datasets: uploadMetadata!.datasetIds,
          };
        }
        const binaryDataId = image!.name;
        cloud.images.set(binaryDataId, { ...image!, content: Uint8Array.from(content) });
        return { binaryDataId };
      },
    }),
    service(MLInferenceService, {
      getInference: () => ({
        annotations: {
          bboxes: [{
            label: "circle",
            confidence: 0.875,
            xMinNormalized: 0.1,
            yMinNormalized: 0.2,
            xMaxNormalized: 0.3,
            yMaxNormalized: 0.4,
          }],
        },
      }),
    }),
  ];
}

function packages(cloud: FakeCloud) {
  const message = ({ info, checksum }: FakeCloud["packages"][number], at: number) => ({
    info,
    checksum,
    url: `${cloud.url}/files/${at}?signature=1`,
    createdOn: toTimestamp(THEN_MS),
    id: `${info.organizationId}/${info.name}`,
  });
  return service(PackageService, {
    async createPackage(requests) {
      let info: PackageInfo | undefined;
      const content: number[] = [];
      for await (const { package: part } of requests) {
        if (part.case === "info") info = part.value;
        else if (part.case === "contents") content.push(...part.value);
      }
      cloud.packages.push({ info: info!, content: Uint8Array.from(content), checksum: "" });
      return { id: `${info!.organizationId}/${info!.name}`, version: info!.version };
    },
    deletePackage({ id, version }) {
      const at = cloud.packages.findIndex(({ info }) => {
        return `${info.organizationId}/${info.name}` === id && info.version === version;
      });
      cloud.packages.splice(at, 1);
      return {};
    },
    listPackages: ({ type }) => ({
      packages: cloud.packages.map(message).filter(({ info }) => info.type === type),
    }),
    getPackage({ id, type }) {
      const at = cloud.packages.findIndex(({ info }) =>
        `${info.organizationId}/${info.name}` === id && info.type === type
      );
      if (at < 0) throw new SvcError("not_found", `there is no package "${id}"`);
      return { package: message(cloud.packages[at], at) };
    },
  });
}

function contentOf(cloud: FakeCloud, path: string, range: string | undefined): ReturnType<Route> {
  const { content } = cloud.packages[Number(path.slice("/files/".length))];
  const from = range === undefined ? 0 : Number(/^bytes=(\d+)-$/.exec(range)![1]);
  cloud.downloads.push(range);
  if (cloud.downloadsAt !== undefined) {
    const fields = [["location", cloud.downloadsAt]] as const;
    return { status: 307, contentType: "text/plain", body: "", fields };
  }
  if (from >= content.length) return { status: 416, contentType: "text/plain", body: "" };
  const end = cloud.breaks.shift() ?? content.length;
  async function* body() {
    yield content.subarray(from, end);
    await Promise.resolve();
    if (end < content.length) throw new SvcError("data_loss", "the test breaks it off");
  }
  return {
    status: range === undefined ? 200 : 206,
    contentType: "application/gzip",
    body: body(),
    bytes: content.length - from,
  };
}

export { PackageType };
