/**
 * Who trains models for `svc-cloud serve`: what the command line says of it.
 */

import type { Clock } from "../lib/base/clock.ts";
import { SvcError } from "../lib/base/error.ts";
import { DenoHost } from "../lib/base/host_deno.ts";
import type { ContentOptions } from "../lib/cloud/content_process.ts";
import { EmbeddedExecutor } from "../lib/cloud/executor_embedded.ts";
import type { Executors } from "../lib/cloud/executor.ts";
import { KubernetesExecutor } from "../lib/cloud/executor_kubernetes.ts";
import { ScriptExecutor } from "../lib/cloud/executor_script.ts";
import { openCluster } from "../lib/cloud/kubernetes.ts";
import type { TrainingOptions } from "../lib/cloud/training_runner.ts";
import type { Route } from "../lib/wire/grpc_web.ts";
import type { Flag, Values } from "./flags.ts";

const TRAINERS = ["embedded", "scripts", "kubernetes", "none"];

export const TRAINING_FLAGS = [
  {
    name: "training",
    type: "string",
    default: "embedded,scripts",
    value: "LIST",
    env: "SVC_CLOUD_TRAINING",
    help:
      "Who trains, separated by commas: embedded (the trainer in this program), scripts (people's training " +
      "scripts, which can do here whatever this user can), kubernetes (the same scripts on a cluster), or none.",
  },
  {
    name: "kubernetes-namespace",
    type: "string",
    default: "default",
    value: "NAME",
    help: "Where on the cluster training jobs are made.",
  },
  {
    name: "kubeconfig",
    type: "string",
    default: "",
    value: "FILE",
    help: "How to reach the cluster; left out, as kubectl does, or as a pod of it.",
  },
  {
    name: "kubernetes-url",
    type: "string",
    default: "",
    value: "URL",
    help: "Where pods of the cluster reach this program; left out, the public URL.",
  },
  {
    name: "kubernetes-images",
    type: "string",
    default: "python:3.12=docker.io/library/python:3.12-slim",
    value: "LIST",
    help:
      "The containers that scripts may ask for, each with its image (KEY=IMAGE), separated by commas; they have " +
      "python3 and pip.",
  },
  {
    name: "kubernetes-capacity",
    type: "int",
    default: 4,
    value: "N",
    help: "How many jobs the cluster works on at once.",
  },
] as const satisfies readonly Flag[];

type TrainingValues = Values<typeof TRAINING_FLAGS>;

interface Opened {
  readonly training: TrainingOptions;
  /** Pages that those who train need. */
  readonly routes: ReadonlyMap<string, Route>;
}

/** Opens those who train. Throws `invalid_argument` for flags that cannot be. */
export async function openTraining(
  values: TrainingValues & { readonly data: string; readonly publicUrl: string },
  clock: Clock,
  content: ContentOptions,
): Promise<Opened> {
  const { training, data } = values;
  const wanted = training.split(",").map((word) => word.trim()).filter((word) => word !== "");
  const unknown = wanted.find((word) => !TRAINERS.includes(word));
  const both = wanted.includes("scripts") && wanted.includes("kubernetes");
  if (unknown !== undefined || both || wanted.includes("none") && wanted.length > 1) {
    const found = `--training: found "${training}"`;
    throw new SvcError(
      "invalid_argument",
      `${found}, wanted none, or embedded and one of scripts and kubernetes`,
    );
  }
  const kubernetes = wanted.includes("kubernetes") ? await openKubernetes(values, clock) : undefined;
  const scripts = wanted.includes("scripts") ? await ScriptExecutor.open(new DenoHost(), clock) : undefined;
  const managed = wanted.includes("embedded") ? new EmbeddedExecutor(content) : undefined;
  const executors: Executors = { managed, custom: kubernetes ?? scripts };
  return { training: { executors, folder: `${data}/training` }, routes: kubernetes?.routes ?? new Map() };
}

async function openKubernetes(
  values: TrainingValues & { readonly publicUrl: string },
  clock: Clock,
): Promise<KubernetesExecutor> {
  const url = (values.kubernetesUrl || values.publicUrl).replace(/\/+$/, "");
  if (!/^https?:\/\//.test(url)) {
    throw new SvcError(
      "invalid_argument",
      `--kubernetes-url: found "${url}", wanted where pods reach this program`,
    );
  }
  const environments = values.kubernetesImages.split(",").map((pair) => {
    const [, key, uri] = /^([^=]+)=(.+)$/.exec(pair.trim()) ?? [];
    if (key) return { key, uri, framework: "python", description: `${uri}, on a Kubernetes cluster` };
    throw new SvcError("invalid_argument", `--kubernetes-images: found "${pair}", wanted KEY=IMAGE`);
  });
  const cluster = await openCluster(values.kubernetesNamespace, clock, values.kubeconfig || undefined);
  return new KubernetesExecutor({ cluster, url, environments, capacity: values.kubernetesCapacity, clock });
}
