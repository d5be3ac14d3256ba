/**
 * Printing of what a command found: for people in lines or a table, for programs as one JSON value in one style.
 *
 * The style: names in camelCase, times in ISO form, lists under their name, and beside each id the name of what has it,
 * `"machineName"` beside `"machineId"`.
 */

import type { Output, Screen } from "../../lib/base/host.ts";
import {
  isoTimes,
  lacksNames,
  type Listing,
  type Names,
  printListing,
  printResult,
  withNames,
} from "../table.ts";

export class ResultPrinter {
  #printing: Promise<void> | undefined;

  constructor(
    private readonly host: Output & Screen,
    private readonly json: boolean,
    /** The names of everything by its id; looked up only if an id needs one. */
    private readonly names: () => Promise<Names>,
  ) {}

  print(value: unknown, lines: readonly string[]): void {
    if (this.json) this.#printJson(isoTimes(value));
    else printResult(this.host, false, undefined, lines);
  }

  printConfig(config: unknown, text: string): void {
    printResult(this.host, this.json, config, [text]);
  }

  list(name: string, values: readonly unknown[], listing: Listing): void {
    if (this.json) this.#printJson({ [name]: isoTimes(values) });
    else printListing(this.host, false, undefined, listing);
  }

  /** Resolves when everything is printed. */
  async done(): Promise<void> {
    await this.#printing;
  }

  #printJson(value: unknown): void {
    const show = (named: unknown) => printResult(this.host, true, named, []);
    if (!this.#printing && !lacksNames(value)) return show(value);
    const before = this.#printing;
    const printing = async () => {
      await before;
      show(withNames(value, await this.names()));
    };
    this.#printing = printing();
    // The command hears of it at its end.
    this.#printing.catch(() => {});
  }
}
