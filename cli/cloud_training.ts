/**
 * Who trains models for `svc-cloud serve`: what the command line says of it.
 */

import type { Clock } from "../lib/base/clock.ts";
import { SvcError } from "../lib/base/error.ts";
import { DenoHost } from "../lib/base/host_deno.ts";
import { EmbeddedExecutor } from "../lib/cloud/executor_embedded.ts";
import type { Executors } from "../lib/cloud/executor.ts";
import { ScriptExecutor } from "../lib/cloud/executor_script.ts";
import type { TrainingOptions } from "../lib/cloud/training_runner.ts";
import type { Flag, Values } from "./flags.ts";

const TRAINERS = ["embedded", "scripts", "none"];

export const TRAINING_FLAGS = [
  {
    name: "training",
    type: "string",
    default: "embedded,scripts",
    value: "LIST",
    env: "SVC_CLOUD_TRAINING",
    help:
      "Who trains, separated by commas: embedded (the trainer in this program), scripts (people's training " +
      "scripts, which can do here whatever this user can), or none.",
  },
] as const satisfies readonly Flag[];

/** Opens those who train. Throws `invalid_argument` for flags that cannot be. */
export async function openTraining(
  { training }: Values<typeof TRAINING_FLAGS>,
  data: string,
  clock: Clock,
): Promise<TrainingOptions> {
  const wanted = training.split(",").map((word) => word.trim()).filter((word) => word !== "");
  const unknown = wanted.find((word) => !TRAINERS.includes(word));
  if (unknown !== undefined || wanted.includes("none") && wanted.length > 1) {
    throw new SvcError(
      "invalid_argument",
      `--training: found "${training}", wanted some of ${TRAINERS.join(", ")}`,
    );
  }
  const executors: Executors = {
    managed: wanted.includes("embedded") ? new EmbeddedExecutor() : undefined,
    custom: wanted.includes("scripts") ? await ScriptExecutor.open(new DenoHost(), clock) : undefined,
  };
  return { executors, folder: `${data}/training` };
}
