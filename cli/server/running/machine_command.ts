/** A command about a running machine, and what it gets. */

import type { Clock } from "../../../lib/base/clock.ts";
import type { Host } from "../../../lib/base/host.ts";
import type { Flag, Values } from "../../flags.ts";
import type { MachineClient } from "./reach.ts";

/** A command about a running machine, before it is connected. */
export interface MachineCommand<F extends readonly Flag[]> {
  readonly words: string;
  readonly takes: readonly string[];
  readonly summary: string;
  readonly flags: F;
  run(context: MachineContext, words: readonly string[], values: Values<F>): Promise<number | void>;
}

/** The context of a command: its machine, the outside, and the signal that ends it early. */
export interface MachineContext {
  readonly host: Host;
  readonly clock: Clock;
  readonly json: boolean;
  readonly signal: AbortSignal;
  /** Connects at the first use. */
  machine(): Promise<MachineClient>;
}
