/**
 * The thread that checks and resolves configurations for a control plane. It does not fail itself: every problem is an
 * answer.
 *
 * `thread.ts` starts it; `cli/build/compiler.ts` embeds it in the executable.
 */

import { type ConfigScope, serveConfigJobs } from "../../../lib/cloud/config/config_jobs.ts";
import { CONFIG_WORKER } from "./worker_name.ts";
import { machinesSchema, validator } from "./validator.ts";

const scope = globalThis as unknown as ConfigScope & { readonly name?: string };
if (scope.name === CONFIG_WORKER) serveConfigJobs(scope, validator(), machinesSchema);
