/**
 * The trainers of `svc-cloud serve`, by its command line.
 */

import type { Host } from "../../../lib/base/host.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { type Logger, silentLogs } from "../../../lib/base/log/log.ts";
import { defaultLimits, type Limits } from "../../../lib/cloud/access/limits.ts";
import { DiskSpace } from "../../../lib/cloud/store/disk_space.ts";
import type { ContentOptions } from "../../../lib/cloud/sandbox/content/process.ts";
import { EmbeddedExecutor } from "../../../lib/cloud/executors/embedded.ts";
import type { Executors } from "../../../lib/cloud/executors/executor.ts";
import { KubernetesExecutor } from "../../../lib/cloud/executors/kubernetes/executor.ts";
import { SCRIPT_LIMITS, ScriptExecutor } from "../../../lib/cloud/executors/script.ts";
import { openCluster } from "../../../lib/cloud/executors/kubernetes/cluster.ts";
import { NO_SANDBOX, type Sandbox } from "../../../lib/cloud/sandbox/sandbox.ts";
import type { UsageLimits } from "../../../lib/cloud/sandbox/sandbox_usage.ts";
import type { TrainingOptions } from "../../../lib/cloud/training/runner.ts";
import { atLeastOne, UsageError, type Values } from "../../flags.ts";
import type { TRAINING_FLAGS } from "./flags.ts";
import type { Route } from "../../../lib/wire/port/route.ts";
import { withoutEnd } from "../../../lib/base/escape.ts";

const MIB = 1024 ** 2;
const TRAINERS = ["embedded", "scripts", "kubernetes", "none"];

type TrainingValues = Values<typeof TRAINING_FLAGS>;

interface Opened {
  readonly training: TrainingOptions;
  /** The pages that trainers need. */
  readonly routes: ReadonlyMap<string, Route>;
}

interface Surroundings {
  readonly host: Host;
  readonly clock: Clock;
  readonly logger: Logger;
  /** This computer's sandbox, or the reason why there is none. */
  readonly sandbox: Sandbox | string;
  readonly limits?: Pick<Limits, "diskReserveBytes">;
}

/** Opens the trainers. Throws `invalid_argument` for contradictory flags. */
export async function openTraining(
  values: TrainingValues & { readonly data: string; readonly publicUrl: string },
  around: Surroundings,
  content: ContentOptions,
): Promise<Opened> {
  const { training: list, data } = values;
  const wanted = list.split(",").map((word) => word.trim()).filter((word) => word !== "");
  const unknown = wanted.find((word) => !TRAINERS.includes(word));
  const both = wanted.includes("scripts") && wanted.includes("kubernetes");
  if (unknown !== undefined || both || wanted.includes("none") && wanted.length > 1) {
    const found = `--training: found "${list}"`;
    throw new UsageError(`${found}, wanted none, or embedded and one of scripts and kubernetes`);
  }
  const managed = wanted.includes("embedded") ? new EmbeddedExecutor(content) : undefined;
  const kubernetes = wanted.includes("kubernetes") ? await openKubernetes(values, around) : undefined;
  const scripts = wanted.includes("scripts") ? await openScripts(values, around) : NOT_WANTED;
  const executors: Executors = typeof scripts === "string"
    ? { managed, custom: kubernetes, noScripts: `this control plane runs no training scripts: ${scripts}` }
    : { managed, custom: scripts };
  const waitingMax = atLeastOne(values.trainingWaitingMax, "--training-waiting-max");
  const runningMax = values.trainingRunningMax || undefined;
  if (runningMax !== undefined) atLeastOne(runningMax, "--training-running-max");
  const training = { executors, host: around.host, folder: `${data}/training`, waitingMax, runningMax };
  return { training, routes: kubernetes?.routes ?? new Map() };
}

const NOT_WANTED =
  "its operator has not allowed them (svc-cloud serve --training embedded,scripts runs them in a sandbox)";

/** If scripts cannot run, the reason for people. */
async function openScripts(
  values: TrainingValues,
  { host, clock, logger, sandbox: found }: Surroundings,
): Promise<ScriptExecutor | string> {
  const limits = limitsOf(values);
  const sandbox = values.scriptsWithoutSandbox ? NO_SANDBOX : found;
  if (typeof sandbox === "string") {
    logger.error(
      `training scripts are refused without a sandbox: ${sandbox}. --scripts-without-sandbox would run them as ` +
        "this user, free to read and change everything that this program stores",
    );
    return `it has no sandbox for them (${sandbox})`;
  }
  const executor = await ScriptExecutor.open(host, clock, {
    sandbox,
    limits,
    network: values.scriptsNetwork,
  });
  if (!executor) {
    logger.error("training scripts are refused: found no python3 with the module venv");
    return "it has found no Python";
  }
  const pythons = executor.environments.map(({ key }) => key).join(", ");
  if (sandbox.confines) {
    const network = values.scriptsNetwork ? "with the network" : "without a network";
    logger.info(`training scripts run in ${sandbox.description}, ${network}: ${pythons}`);
  } else {
    logger.warn(
      `training scripts run WITHOUT A SANDBOX (${pythons}): everybody who can submit one can read and change everything that this ` +
        "program stores, and leave programs running here",
    );
  }
  return executor;
}

function limitsOf({ scriptsMemoryMib, scriptsDiskMib, scriptsCpuHours }: TrainingValues): UsageLimits {
  return {
    ...SCRIPT_LIMITS,
    memoryBytes: atLeastOne(scriptsMemoryMib, "--scripts-memory-mib") * MIB,
    folderBytes: atLeastOne(scriptsDiskMib, "--scripts-disk-mib") * MIB,
    cpuSeconds: atLeastOne(scriptsCpuHours, "--scripts-cpu-hours") * 3600,
  };
}

async function openKubernetes(
  values: TrainingValues & { readonly data: string; readonly publicUrl: string },
  { host, clock, limits = defaultLimits() }: Surroundings,
): Promise<KubernetesExecutor> {
  const url = withoutEnd(values.kubernetesUrl || values.publicUrl, "/");
  if (!/^https?:\/\//.test(url)) {
    throw new UsageError(
      `--kubernetes-url: found "${url}", wanted where pods reach this program`,
    );
  }
  const environments = values.kubernetesImages.split(",").map((pair) => {
    const [, key, uri] = /^([^=]+)=(.+)$/.exec(pair.trim()) ?? [];
    if (key && uri) return { key, uri, framework: "python", description: `${uri}, on a Kubernetes cluster` };
    throw new UsageError(`--kubernetes-images: found "${pair}", wanted KEY=IMAGE`);
  });
  const images = values.kubernetesRegistries.split(",").map((one) => one.trim()).filter((one) => one !== "");
  for (const one of images) {
    if (/^[a-z0-9][a-z0-9.-]*(:\d+)?\/([a-z0-9._-]+\/)*$/.test(one)) continue;
    const wanted = "wanted the beginning of names of images up to a /, such as registry.example.com/team/";
    throw new UsageError(`--kubernetes-registries: found "${one}", ${wanted}`);
  }
  const cluster = await openCluster(values.kubernetesNamespace, clock, values.kubeconfig || undefined);
  const disk = { disk: host, folder: values.data, reserveBytes: limits.diskReserveBytes };
  return new KubernetesExecutor({
    host,
    // The store of files on the same disk warns of a full one.
    space: new DiskSpace({ ...disk, clock, logger: silentLogs(clock).logger("files") }),
    cluster,
    url,
    environments,
    images,
    capacity: values.kubernetesCapacity,
    limits: limitsOf(values),
    cpus: atLeastOne(values.kubernetesCpus, "--kubernetes-cpus"),
    hostUsers: values.kubernetesHostUsers,
    clock,
  });
}
