/**
 * Jobs of a Kubernetes cluster: creates, observes and removes them.
 */

import { randomBytes } from "node:crypto";
import { type Clock, deadline, race } from "../../../base/clock.ts";
import { type Code, messageOf, SvcError } from "../../../base/error.ts";
import type { BatchV1Api, CoreV1Api, V1Job, V1Pod, V1Secret } from "./client.ts";
import { type ClusterState, clusterStateOf, needsPods } from "./pod_state.ts";

export interface ClusterJob {
  /** Unique in the namespace: lower-case letters, digits and `-`. */
  readonly name: string;
  readonly image: string;
  readonly command: readonly string[];
  /** Everybody who may view jobs sees these variables. */
  readonly env: { readonly [name: string]: string };
  /** The contents of files in `SECRETS_FOLDER`, by name. */
  readonly secrets: { readonly [name: string]: string };
  readonly labels: { readonly [name: string]: string };
  /** The cluster ends it after this time. */
  readonly deadlineSeconds: number;
  readonly memoryBytes: number;
  /** Limit of the data that it writes. */
  readonly diskBytes: number;
  /** Limit of its processors. */
  readonly cpus: number;
  /** Its users are users of the node, which some nodes require. */
  readonly hostUsers?: boolean;
}

/** Where a job finds its secrets. */
export const SECRETS_FOLDER = "/run/secrets/svc-training";
/** The only folder of a job that it can write to. */
const WRITABLE_FOLDER = "/tmp";

export interface ClusterLog {
  /** The time of the line (`sortableTime`); these texts sort like their times. */
  readonly at: string;
  readonly line: string;
}

export interface Cluster {
  create(job: ClusterJob): Promise<void>;
  state(name: string): Promise<ClusterState>;
  /** The output of its pod in the last `seconds`; empty without a pod. */
  logs(name: string, seconds: number): Promise<readonly ClusterLog[]>;
  /** Removes it with its pod; succeeds if it is gone already. */
  remove(name: string): Promise<void>;
}

/** How long the cluster keeps jobs that nobody has removed. */
const KEPT_SECONDS = 3600;
/** Limit of one request for a pod's log; a script that writes more loses lines instead of occupying our memory. */
const LOG_BYTES_MAX = 1024 * 1024;
/** The user of containers, which owns nothing in any image. */
const NOBODY = 65_534;
const SECRET_MODE = 0o440;
/** Makes the names of secrets unique; those of jobs and pods have at most 63 characters. */
const SUFFIX_BYTES = 4;
/** A job's own share of a busy node; it may use more up to its limit. */
const CPU_REQUEST = "250m";
/** Time limit of a request to the cluster. */
const CALL_MS = 30_000;

/**
 * The cluster of a configuration file; without one that of `KUBECONFIG`, of `~/.kube/config`, or the cluster that this
 * program runs in. Throws `failed_precondition` if there is none.
 */
export async function openCluster(namespace: string, clock: Clock, kubeconfig?: string): Promise<Cluster> {
  const { BatchV1Api, CoreV1Api, KubeConfig } = await import("./client.ts");
  const config = new KubeConfig();
  try {
    if (kubeconfig) config.loadFromFile(kubeconfig);
    else config.loadFromDefault();
    const [batch, core] = [config.makeApiClient(BatchV1Api), config.makeApiClient(CoreV1Api)];
    return new KubernetesCluster(namespace, clock, batch, core);
  } catch (cause) {
    const wanted = "wanted a cluster in KUBECONFIG, in ~/.kube/config or around this program";
    throw new SvcError("failed_precondition", `no Kubernetes cluster: ${messageOf(cause)}, ${wanted}`, {
      cause,
    });
  }
}

class KubernetesCluster implements Cluster {
  constructor(
    private readonly namespace: string,
    private readonly clock: Clock,
    private readonly batch: BatchV1Api,
    private readonly core: CoreV1Api,
  ) {}

  async create(job: ClusterJob): Promise<void> {
    const { namespace } = this;
    // A removed job of the same name may still have its secret: the cluster collects it some time later.
    const secretName = `${job.name}-${randomBytes(SUFFIX_BYTES).toString("hex")}`;
    const made = await this.#attempt(
      `make the job ${job.name}`,
      () => this.batch.createNamespacedJob({ namespace, body: manifestOf(job, secretName) }),
    );
    // The pod waits for this secret. It belongs to the job, so the cluster removes it with the job.
    try {
      const body = secretOf(job, secretName, made?.metadata?.uid ?? "");
      await this.#attempt(
        `make the secret ${secretName}`,
        () => this.core.createNamespacedSecret({ namespace, body }),
      );
    } catch (error) {
      await this.remove(job.name);
      throw error;
    }
  }

  async state(name: string): Promise<ClusterState> {
    const { namespace } = this;
    const job = await this.#attempt(
      `look after the job ${name}`,
      () => this.batch.readNamespacedJobStatus({ name, namespace }),
    );
    if (!job) return { phase: "gone", reason: "" };
    // Without its pods, its state is less precise; an error of theirs is one of `logs`, too.
    return clusterStateOf(job, needsPods(job) ? await this.#pods(name).catch(() => []) : []);
  }

  async logs(name: string, sinceSeconds: number): Promise<readonly ClusterLog[]> {
    const { namespace } = this;
    const pods = await this.#pods(name);
    const started = pods.filter(({ status }) => status?.phase && status.phase !== "Pending");
    const logs: ClusterLog[] = [];
    for (const { metadata } of started) {
      const one = {
        name: metadata!.name!,
        namespace,
        sinceSeconds,
        timestamps: true,
        limitBytes: LOG_BYTES_MAX,
      };
      const text = await this.#attempt(
        `read what ${one.name} says`,
        () => this.core.readNamespacedPodLog(one),
      );
      for (const line of (text ?? "").split("\n")) {
        const [, at, output = ""] = /^(\S+) ?(.*)$/.exec(line) ?? [];
        if (at) logs.push({ at: sortableTime(at), line: output });
      }
    }
    return logs;
  }

  async remove(name: string): Promise<void> {
    const { namespace } = this;
    await this.#attempt(
      `remove the job ${name}`,
      () => this.batch.deleteNamespacedJob({ name, namespace, propagationPolicy: "Background" }),
    );
  }

  async #pods(name: string): Promise<readonly V1Pod[]> {
    const { namespace } = this;
    const labelSelector = `job-name=${name}`;
    const pods = await this.#attempt(
      `find the pod of ${name}`,
      () => this.core.listNamespacedPod({ namespace, labelSelector }),
    );
    return pods?.items ?? [];
  }

  /** `undefined` if the cluster does not find it. */
  async #attempt<T>(what: string, run: () => Promise<T>): Promise<T | undefined> {
    const tooLong = () => new Error(`no answer in ${CALL_MS / 1000} seconds`);
    const { signal, done } = deadline(this.clock, CALL_MS, tooLong);
    try {
      return await race(run(), signal);
    } catch (cause) {
      if ((cause as { code?: number }).code === 404) return undefined;
      throw failure(what, cause);
    } finally {
      done();
    }
  }
}

/**
 * A job with a single try, in a container without rights on the cluster, on its node, or to more than its share. It
 * writes to one folder of its own. The cluster's policies govern its network, because it must reach the control plane.
 */
export function manifestOf(job: ClusterJob, secretName: string): V1Job {
  const { name, image, command, env, labels, deadlineSeconds, memoryBytes, diskBytes, cpus } = job;
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, labels: { ...labels } },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: deadlineSeconds,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      template: {
        metadata: { labels: { ...labels } },
        spec: {
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          hostUsers: job.hostUsers ?? false,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: NOBODY,
            runAsGroup: NOBODY,
            fsGroup: NOBODY,
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [{
            name: "training",
            image,
            command: [...command],
            env: Object.entries(env).map(([name, value]) => ({ name, value })),
            resources: {
              limits: { cpu: `${cpus}`, memory: `${memoryBytes}`, "ephemeral-storage": `${diskBytes}` },
              requests: { cpu: CPU_REQUEST },
            },
            securityContext: {
              privileged: false,
              allowPrivilegeEscalation: false,
              readOnlyRootFilesystem: true,
              capabilities: { drop: ["ALL"] },
            },
            volumeMounts: [
              { name: "work", mountPath: WRITABLE_FOLDER },
              { name: "secrets", mountPath: SECRETS_FOLDER, readOnly: true },
            ],
          }],
          volumes: [
            { name: "work", emptyDir: { sizeLimit: `${diskBytes}` } },
            { name: "secrets", secret: { secretName, defaultMode: SECRET_MODE } },
          ],
        },
      },
    },
  };
}

/** The secrets of the job with this id. */
export function secretOf(
  { name, labels, secrets }: ClusterJob,
  secretName: string,
  uid: string,
): V1Secret {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name: secretName,
      labels: { ...labels },
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name, uid }],
    },
    immutable: true,
    stringData: { ...secrets },
  };
}

/**
 * The time of a line in a form that sorts. Some clusters leave zeros at its end out, and write the time of day of the
 * node, which goes back in autumn.
 */
export function sortableTime(at: string): string {
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return at;
  const [, fraction = ""] = /\.(\d+)/.exec(at) ?? [];
  return `${new Date(ms).toISOString().slice(0, 19)}.${fraction.padEnd(9, "0")}Z`;
}

function failure(what: string, cause: unknown): SvcError {
  const { code, body } = cause as { code?: number; body?: string | { message?: string } };
  const output = typeof body === "string" ? messageIn(body) : body?.message;
  let kind: Code = "unavailable";
  if (code === 401 || code === 403) kind = "permission_denied";
  else if (code === 409) kind = "already_exists";
  else if (code !== undefined && code >= 400 && code < 500) kind = "failed_precondition";

  return new SvcError(kind, `Kubernetes: cannot ${what}: ${output ?? messageOf(cause)}`, { cause });
}

/** The message in the cluster's error status. */
function messageIn(body: string): string | undefined {
  try {
    return JSON.parse(body).message;
  } catch {
    return body === "" ? undefined : body.slice(0, 500);
  }
}
