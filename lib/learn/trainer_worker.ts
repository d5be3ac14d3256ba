/**
 * A thread of one training. `trainer.ts` starts it and imports it too, so that an executable embeds it.
 */

import { type Code, SvcError } from "../base/error.ts";
import type { Sample, TrainingTask } from "./example.ts";
import type { TeamSlot } from "./team.ts";
import { type ModelDraft, type Progress, training } from "./training.ts";

/** By this name the module knows that it runs as the thread and is not merely imported. */
export const TRAINER_WORKER = "svc-trainer";

export interface TrainerRequest {
  readonly task: TrainingTask;
  readonly samples: readonly Sample[];
  readonly place: TeamSlot;
}

export type TrainerMessage =
  | { readonly progress: Progress }
  | { readonly draft: ModelDraft }
  | { readonly code: Code; readonly message: string };

/** The parts of a worker's scope that this file uses. */
interface Scope {
  readonly name?: string;
  onmessage: ((event: { data: TrainerRequest }) => void) | null;
  postMessage(message: TrainerMessage): void;
}

function run({ task, samples, place }: TrainerRequest, say: (message: TrainerMessage) => void): void {
  try {
    const steps = training(task, samples, place);
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value && say({ draft: value });
      say({ progress: value });
    }
  } catch (thrown) {
    const { code, message } = SvcError.from(thrown);
    say({ code, message });
  }
}

const scope = globalThis as unknown as Scope;
if (scope.name === TRAINER_WORKER) {
  scope.onmessage = ({ data }) => run(data, (message) => scope.postMessage(message));
}
