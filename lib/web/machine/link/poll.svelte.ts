/** Asks the machine for something again and again while somebody sees the answer. */

import type { RobotClient } from "@viamrobotics/sdk";
import { type Poll, pollBy, type PollOptions } from "../../shared/poll.svelte.ts";
import { batchedClient } from "./call_batch.ts";
import { linkProblem, useLink } from "./page_link.svelte.ts";

export type { Poll, PollOptions };

/** For measuring: `?every=100` asks for everything every 100 ms. */
const FORCED_MS = Number(new URLSearchParams(location.search).get("every")) || undefined;

/** For the beginning of a component. `everyMs` and `enabled` are followed; `ask` reads its arguments at each question. */
export function poll<T>(
  ask: (client: RobotClient) => Promise<T>,
  everyMs: number | (() => number),
  options: PollOptions<T> = {},
): Poll<T> {
  const link = useLink();
  const source = { client: () => link.client && batchedClient(link.client), problemOf: linkProblem };
  return pollBy(source, ask, FORCED_MS ?? everyMs, options);
}
