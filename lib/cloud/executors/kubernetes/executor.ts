/**
 * Custom training scripts on a Kubernetes cluster: a Job for each, in the requested container.
 *
 * The pod fetches the script and the images from here and sends the model back, with a token that is valid as long as
 * its job runs. Cancelling removes the Job. The job's log contains the pod's output.
 *
 * The room owns training on a cluster: its client, its jobs, and the program that runs in their pods.
 */

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { WriteFiles } from "../../../base/files/files.ts";
import { type ArchiveFile, packed, unpacked, unpackInto } from "../../../base/files/archive.ts";
import type { Clock } from "../../../base/clock.ts";
import { messageOf, SvcError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import { fieldValue } from "../../../wire/port/exchange.ts";
import { textAnswer } from "../../../wire/port/routes.ts";
import type { Executor, JobScript, ScriptEnvironment, Work } from "../executor.ts";
import { datasetLine } from "../../../cloud_client/dataset.ts";
import { type Cluster, SECRETS_FOLDER } from "./cluster.ts";
import type { ClusterState } from "./pod_state.ts";
import { isAllowedImage } from "../containers.ts";
import { PACKAGE_BYTES_MAX } from "../../packages/packages.ts";
import type { DiskHold, DiskSpace } from "../../store/disk_space.ts";
import type { UsageLimits } from "../../sandbox/sandbox_usage.ts";
import { POD_FOLDER, POD_PROGRAM, TOKEN_FILE } from "./pod_program.ts";
import type { Route, RouteAnswer, RouteRequest } from "../../../wire/port/route.ts";
import { piecesUntil } from "../../../base/files/byte_reader.ts";

const PATH = "/training/v1";
const LOOK_MS = 2_000;
/** How far back each request for output reaches beyond the one before, so that no line is missed. */
const LOG_SECONDS = 30;
/** Tolerated consecutive failures of the cluster. */
const FAILURES_MAX = 30;
const DEADLINE_SECONDS = 24 * 3600;
/** Time for an image that cannot be pulled: its registry may be away for a moment, or somebody is still pushing it. */
const STUCK_MS = 10 * 60_000;
const SCRIPT_FILES = { filesMax: 10_000, bytesMax: 1024 ** 3 };
const OUTPUT_FILES = { filesMax: 100_000, bytesMax: PACKAGE_BYTES_MAX };
const LAST_LINES = 15;

interface Options {
  readonly host: WriteFiles;
  readonly cluster: Cluster;
  /** The address at which pods reach this control plane. */
  readonly url: string;
  /** The first one is the default. */
  readonly environments: readonly ScriptEnvironment[];
  /** Allowed prefixes of the names of organizations' images; absent, none. */
  readonly images?: readonly string[];
  readonly capacity: number;
  /** Limits of each pod. */
  readonly limits: Pick<UsageLimits, "memoryBytes" | "folderBytes">;
  /** Processors of each pod. */
  readonly cpus: number;
  /** Pods' users are users of their nodes, for nodes that cannot map them. */
  readonly hostUsers?: boolean;
  /** The disk with the working folders of jobs. */
  readonly space?: Pick<DiskSpace, "hold">;
  readonly clock: Clock;
}

/** A job in its pod, whose script may do with the pod's token what it likes. */
interface PodWork extends Work {
  /** Ends what its pod sends and fetches. */
  readonly over: AbortController;
  uploaded: boolean;
  /** The upload under way. */
  upload?: Promise<RouteAnswer>;
  /** Ends the download under way. */
  download?: AbortController;
}

export class KubernetesExecutor implements Executor {
  readonly reachesUs = true;
  /** By the token of its pod. */
  readonly #working = new Map<string, PodWork>();

  constructor(private readonly options: Options) {}

  get capacity(): number {
    return this.options.capacity;
  }

  get environments(): readonly ScriptEnvironment[] {
    return this.options.environments;
  }

  get images(): readonly string[] {
    return this.options.images ?? [];
  }

  /** The HTTP pages for pods. */
  get routes(): ReadonlyMap<string, Route> {
    return new Map([[`${PATH}/*`, (request: RouteRequest) => this.#answer(request)]]);
  }

  async run(work: Work): Promise<JsonObject> {
    const { job } = work;
    const { cluster, url, limits, cpus, hostUsers } = this.options;
    const imageUri = this.#imageOf(job.script!);
    const token = randomBytes(32).toString("hex");
    const mine: PodWork = { ...work, over: new AbortController(), uploaded: false };
    const name = nameOf(job.id);
    this.#working.set(token, mine);
    try {
      await cluster.create({
        name,
        image: imageUri,
        command: ["python3", "-c", POD_PROGRAM],
        env: { HOME: POD_FOLDER, SVC_TRAINING_URL: `${url}${PATH}`, SVC_TRAINING_SECRETS: SECRETS_FOLDER },
        secrets: { [TOKEN_FILE]: token },
        labels: { app: "svc-training", "svc-training-job": job.id },
        deadlineSeconds: DEADLINE_SECONDS,
        memoryBytes: limits.memoryBytes,
        diskBytes: limits.folderBytes,
        cpus,
        hostUsers,
      });
      work.log("info", `the cluster has it as job ${name}, in ${imageUri}`);
      await this.#follow(name, work);
      if (!mine.uploaded) {
        throw new SvcError("failed_precondition", "the job has ended without sending a model");
      }
    } finally {
      this.#working.delete(token);
      mine.over.abort(new SvcError("canceled", "the job has ended"));
      await mine.upload?.catch(() => {});
      await cluster.remove(name).catch((error) => work.log("warn", messageOf(error)));
    }
    return { model_type: job.modelType, model_framework: job.modelFramework };
  }

  /** The rules may have changed since the job was submitted. */
  #imageOf({ container, image }: JobScript): string {
    const environment = this.environments.find(({ key }) => key === container);
    const found = image ?? environment?.uri;
    if (found && (!image || isAllowedImage(image, this.images))) return found;
    throw new SvcError("failed_precondition", `"${image ?? container}" is no longer available`);
  }

  async abandon(id: string): Promise<void> {
    await this.options.cluster.remove(nameOf(id));
  }

  /** Resolves when the job has succeeded; throws otherwise. */
  async #follow(name: string, { log, signal }: Work): Promise<void> {
    const { cluster, clock } = this.options;
    const last: string[] = [];
    const stuck = new StuckLimit(clock);
    let [heard, failures, phase, told] = ["", 0, "", ""];
    let listenedMs = clock.monotonicMs();
    const listen = async () => {
      const nowMs = clock.monotonicMs();
      const seconds = LOG_SECONDS + Math.ceil((nowMs - listenedMs) / 1000);
      const found = await cluster.logs(name, seconds);
      listenedMs = nowMs;
      for (const { at, line } of found) {
        if (at <= heard) continue;
        heard = at;
        log("info", line);
        last.push(line);
        if (last.length > LAST_LINES) last.shift();
      }
    };
    for (;;) {
      signal.throwIfAborted();
      let state: ClusterState | undefined;
      try {
        state = await cluster.state(name);
        // Not fatal: the cluster may have lost the pod's output.
        await listen().catch((error) => log("warn", messageOf(error)));
        failures = 0;
      } catch (error) {
        if (++failures >= FAILURES_MAX) throw error;
        log("warn", messageOf(error));
      }
      if (state) {
        phase = state.phase;
        const now = shownState(state);
        if (now !== told) log(state.isStuck ? "warn" : "info", told = now);
        stuck.check(state);
      }
      if (phase === "succeeded") return;
      if (phase === "gone") throw new SvcError("aborted", "somebody has removed the job from the cluster");
      if (phase === "failed") {
        const words = last.length > 0 ? `; its last lines: ${last.join("\n")}` : "";
        throw new SvcError("failed_precondition", `the job has failed: ${state!.reason}${words}`);
      }
      await clock.sleep(LOOK_MS, signal);
    }
  }

  async #answer({ path, method, fields, body }: RouteRequest): Promise<RouteAnswer> {
    const what = path.slice(PATH.length + 1);
    const [, token = ""] = /^Bearer ([0-9a-f]+)$/.exec(fieldValue(fields, "authorization") ?? "") ?? [];
    const work = this.#working.get(token);
    if (!work) return textAnswer(401, "wanted the token of a job that has not ended");
    if (what === "input" && method === "GET") return this.#input(work);
    if (what !== "output" || method !== "PUT") return textAnswer(405, "wanted GET input or PUT output");
    if (work.uploaded) return textAnswer(409, "the model has arrived already");
    if (work.upload) return textAnswer(409, "the model is on its way already");
    work.upload = this.#receive(work, body).finally(() => work.upload = undefined);
    return await work.upload;
  }

  /** A further download ends the one before, which a lost connection may have left. */
  #input(work: PodWork): RouteAnswer {
    work.download?.abort(new SvcError("aborted", "another download of the same job has begun"));
    work.download = new AbortController();
    const signal = AbortSignal.any([work.download.signal, work.over.signal]);
    return { status: 200, contentType: "application/gzip", body: piecesUntil(signal, packed(inputOf(work))) };
  }

  /** Nothing stays of an upload that fails. */
  async #receive(work: PodWork, body: AsyncIterable<Uint8Array>): Promise<RouteAnswer> {
    const { host, space } = this.options;
    const output = join(work.folder, "output");
    let hold: DiskHold | undefined;
    try {
      hold = await space?.hold();
      const content = piecesUntil(work.over.signal, body);
      await unpackInto(host, output, content, OUTPUT_FILES, (bytes) => hold?.grow(bytes));
      work.over.signal.throwIfAborted();
      work.uploaded = true;
      return textAnswer(200, "taken");
    } catch (error) {
      await host.removeTree(output);
      if (!work.over.signal.aborted) await host.makeFolder(output, { mode: 0o700 });
      const isFull = SvcError.from(error).code === "resource_exhausted";
      return textAnswer(isFull ? 507 : 400, messageOf(error));
    } finally {
      hold?.release();
    }
  }
}

/** Ends the wait for what does not come. */
class StuckLimit {
  #sinceMs: number | undefined;

  constructor(private readonly clock: Clock) {}

  /** Throws `failed_precondition` if the job has been stuck for too long. */
  check({ phase, isStuck = false, reason }: ClusterState): void {
    const nowMs = this.clock.monotonicMs();
    if (phase !== "waiting") this.#sinceMs = undefined;
    if (!isStuck) return;
    // Between two tries the kubelet may show nothing for a moment.
    this.#sinceMs ??= nowMs;
    if (nowMs - this.#sinceMs < STUCK_MS) return;
    const problem = `the job has not started for ${STUCK_MS / 60_000} minutes: ${reason}`;
    throw new SvcError("failed_precondition", problem);
  }
}

function shownState({ phase, reason }: ClusterState): string {
  return phase === "waiting" && reason !== "" ? `the job is waiting: ${reason}` : `the job is ${phase}`;
}

function nameOf(id: string): string {
  return `svc-training-${id}`;
}

/** Everything that a pod needs, in the folders that it expects. */
async function* inputOf({ job, images, read, apiKey }: Work): AsyncGenerator<ArchiveFile> {
  const args = Object.entries(job.script!.arguments).map(([name, value]) => `--${name}=${value}`);
  const env = { API_KEY: apiKey?.key ?? "", API_KEY_ID: apiKey?.id ?? "" };
  yield textFile("job.json", JSON.stringify({ arguments: args, env }));
  for await (const file of unpacked(read(job.script!.sha256), SCRIPT_FILES)) {
    yield { ...file, path: `script/${file.path}` };
  }
  const lines: string[] = [];
  for (const [index, image] of images.entries()) {
    const path = `data/${index}_${image.fileName.replace(/[^\w.-]/g, "_").slice(-100)}`;
    yield { path, bytes: image.bytes, content: read(image.sha256) };
    lines.push(datasetLine(image, `${POD_FOLDER}/${path}`));
  }
  yield textFile("dataset.jsonl", lines.map((line) => `${line}\n`).join(""));
}

function textFile(path: string, content: string): ArchiveFile {
  const bytes = new TextEncoder().encode(content);
  return { path, bytes: bytes.length, content: [bytes] };
}
