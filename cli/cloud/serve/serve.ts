/**
 * `svc-cloud serve`: serves the control plane on a port until a signal stops it.
 *
 * The room owns the flags of serving, and what they choose: trainers, and the processes that open models and pictures.
 */

import type { CloudCommand, CloudProgramContext } from "../command_context.ts";
import { SERVE_FLAGS } from "./flags.ts";
import type { ServeOptions } from "./serving.ts";

/** Loaded by this command alone: it is a third of the program. */
const SERVING = new URL("./serving.ts", import.meta.url).href;

export const SERVE: CloudCommand = {
  words: "serve",
  takes: [],
  summary: "Serves the control plane until somebody stops it.",
  flags: SERVE_FLAGS,
  run: serve,
};

async function serve(
  context: CloudProgramContext,
  _: readonly string[],
  options: ServeOptions,
): Promise<void> {
  const { serveCloud }: typeof import("./serving.ts") = await import(SERVING);
  await serveCloud(context, options);
}
