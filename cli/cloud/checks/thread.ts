/**
 * Starts the threads that check and resolve configurations.
 *
 * The room owns how a control plane checks configurations: by the rules of the machine, in a thread of its own.
 */

import { type Right, threadWith } from "../../../lib/base/native/permissions.ts";
import { type ConfigThread, workerThread } from "../../../lib/cloud/config/config_threads.ts";
import { CONFIG_WORKER } from "./worker_name.ts";

/** It computes, and asks for the texts that it needs. */
export const CONFIG_RIGHTS: readonly Right[] = [];

export function createConfigThread(): ConfigThread {
  return workerThread(
    new Worker(new URL("./worker.ts", import.meta.url), {
      ...threadWith(CONFIG_RIGHTS),
      name: CONFIG_WORKER,
    }),
  );
}
