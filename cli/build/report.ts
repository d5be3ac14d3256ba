/**
 * Prints a list of checks: a line each, `ok …` or `FAILED …`, and their count.
 */

import { chainOf } from "../../lib/base/error.ts";
import type { Terminal } from "../program.ts";

export class Report {
  #passed = 0;
  #failed = 0;
  readonly #terminal: Terminal;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Runs one check, which fails by throwing and may return a detail to print. Returns whether it passed. */
  async check(name: string, run: () => Promise<string | void>): Promise<boolean> {
    try {
      const detail = await run();
      this.#passed++;
      this.#terminal.write(detail === undefined ? `ok ${name}\n` : `ok ${name}: ${detail}\n`);
      return true;
    } catch (thrown) {
      this.#failed++;
      this.#terminal.write(`FAILED ${name}: ${chainOf(thrown).replaceAll("\n", "\n  ")}\n`);
      return false;
    }
  }

  /** Adds the checks that another process printed. */
  include(printed: string): void {
    this.#passed += printed.match(/^ok /gm)?.length ?? 0;
    this.#failed += printed.match(/^FAILED /gm)?.length ?? 0;
  }

  /** Prints the count and returns the exit code; a run without checks fails too. */
  finish(): number {
    this.#terminal.write(`${this.#passed} passed, ${this.#failed} failed\n`);
    return this.#failed === 0 && this.#passed > 0 ? 0 : 1;
  }
}
