/** The surroundings of a check under Wine. */

import type { Computer } from "./computer.ts";

export interface World {
  /** Is on before and after each check. */
  readonly computer: Computer;
  /** The path of a program's executable, the same here and in the computer. */
  pathOf(name: string): string;
  /** A folder for the check's files, at the same path here and in the computer. */
  readonly folder: string;
  /** Whether to reuse the programs of an earlier run. */
  readonly reuse: boolean;
  /** Registers work for the end of the group. */
  after(work: () => Promise<void>): void;
}

export interface Check {
  readonly name: string;
  /** Checks of one group share a computer and run in their order. */
  readonly group: string;
  /** Throws if the check fails; may return a detail to print. */
  run(world: World): Promise<string | void>;
}
