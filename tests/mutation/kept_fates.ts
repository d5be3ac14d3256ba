/**
 * What became of mutants, in dist/mutation/, so that a run goes on where the last one ended. A fate holds as long as
 * the mutant's file has not changed, nor the test that found it or, if none did, any test that could.
 */

import { bytesSum } from "../../cli/build/sums.ts";
import type { SourceFile } from "../support/sources.ts";
import type { Mutant } from "./operators.ts";

const PATH = new URL("../../dist/mutation/fates.json", import.meta.url).pathname;

/** Which stage found the mutant, and with which test; nothing if none did. */
export interface Found {
  readonly stage?: "types" | "nearest" | "room" | "elsewhere";
  readonly test?: string;
}

interface Kept extends Found {
  readonly sum: string;
}

export class KeptFates {
  readonly #texts: ReadonlyMap<string, string>;

  private constructor(files: readonly SourceFile[], private readonly kept: Readonly<Record<string, Kept>>) {
    this.#texts = new Map(files.map(({ path, text }) => [path, text]));
  }

  static async read(files: readonly SourceFile[]): Promise<KeptFates> {
    return new KeptFates(files, await readKept());
  }

  /** @param tests those that could find it */
  async get(mutant: Mutant, tests: readonly string[]): Promise<Found | undefined> {
    const kept = this.kept[keyOf(mutant)];
    if (!kept) return undefined;
    const { sum, ...found } = kept;
    return sum === await this.#sum(mutant, found, tests) ? found : undefined;
  }

  async set(mutant: Mutant, tests: readonly string[], found: Found): Promise<void> {
    const own = { [keyOf(mutant)]: { ...found, sum: await this.#sum(mutant, found, tests) } };
    await Deno.mkdir(PATH.replace(/[^/]*$/, ""), { recursive: true });
    // Runs of other rooms may go on at the same time.
    await Deno.writeTextFile(PATH, JSON.stringify({ ...await readKept(), ...own }));
  }

  async #sum({ file }: Mutant, { stage, test }: Found, tests: readonly string[]): Promise<string> {
    const matter = stage === undefined ? tests : [test ?? ""];
    const texts = [file, ...matter].map((path) => [path, this.#texts.get(path) ?? ""]);
    return await bytesSum(new TextEncoder().encode(JSON.stringify(texts)));
  }
}

async function readKept(): Promise<Record<string, Kept>> {
  return await Deno.readTextFile(PATH).then(JSON.parse, () => ({}));
}

function keyOf({ file, start, edit }: Mutant): string {
  return `${file} ${start} ${edit}`;
}
