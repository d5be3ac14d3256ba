/** The name of the thread that checks configurations. */

/** By this name `worker.ts` knows that it runs as the thread and is not merely imported. */
export const CONFIG_WORKER = "svc-config";
