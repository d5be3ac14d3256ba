/**
 * Starts the threads that check and resolve configurations.
 *
 * The room owns how a control plane checks configurations: by the rules of the machine, in a thread of its own.
 */

import { type ConfigThread, workerThread } from "../../../lib/cloud/config/config_threads.ts";
import { CONFIG_WORKER } from "./worker.ts";

export function createConfigThread(): ConfigThread {
  return workerThread(
    new Worker(new URL("./worker.ts", import.meta.url), { type: "module", name: CONFIG_WORKER }),
  );
}
