/**
 * The thread that checks and resolves configurations for a control plane. It does not fail itself: every problem is an
 * answer.
 *
 * `thread.ts` starts it, and imports it so that an executable embeds it.
 */

import { type ConfigScope, serveConfigJobs } from "../../../lib/cloud/config/config_jobs.ts";
import { schemaOfMachines, validator } from "./validator.ts";

/** By this name the module knows that it runs as the thread and is not merely imported. */
export const CONFIG_WORKER = "svc-config";

const scope = globalThis as unknown as ConfigScope & { readonly name?: string };
if (scope.name === CONFIG_WORKER) serveConfigJobs(scope, validator(), schemaOfMachines);
