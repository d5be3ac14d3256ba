/** What a check under Wine works with. */

import type { Computer } from "./computer.ts";

export interface World {
  /** It is on; those who switch it off switch it on again. */
  readonly computer: Computer;
  /** The executable of a program, here and in the computer. */
  pathOf(name: string): string;
  /** For files of the check; the computer sees it at the same path. */
  readonly folder: string;
  /** Takes the programs of an earlier run. */
  readonly reuse: boolean;
  /** Has something done when the checks of the group have ended. */
  after(work: () => Promise<void>): void;
}

export interface Check {
  readonly name: string;
  /** Checks of one group share a computer and run in their order. */
  readonly group: string;
  /** Fails by throwing; may give a detail to be printed. */
  run(world: World): Promise<string | void>;
}
