/** A command about a running machine, and what it gets. */

import type { Clock } from "../../../lib/base/clock.ts";
import type { Host } from "../../../lib/base/host.ts";
import type { GivenWords } from "../../command.ts";
import type { Flag, Values } from "../../flags.ts";
import type { MachineClient } from "./reach.ts";

/** A command about a running machine, before it is connected. */
export interface MachineCommand<T extends readonly string[], F extends readonly Flag[]> {
  readonly words: string;
  readonly takes: T;
  readonly summary: string;
  readonly flags: F;
  run(context: MachineContext, words: GivenWords<T>, values: Values<F>): Promise<number | void>;
}

export function machineCommand<const T extends readonly string[], const F extends readonly Flag[]>(
  command: MachineCommand<T, F>,
): MachineCommand<T, F> {
  return command;
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
