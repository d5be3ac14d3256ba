/**
 * Which tests may run a file: those that import it or name its path, themselves or through others. A program or a
 * thread is started by its path, so a path in a text counts as an import.
 */

import { roomOf } from "../support/rooms.ts";
import type { SourceFile } from "../support/sources.ts";

/** Tests of other rooms that a mutant meets: far ones run much and notice little. */
const ELSEWHERE_MAX = 6;
/** How many steps further than the closest one they are at most. */
const FURTHER_MAX = 2;
const TYPES = /^(?:import|export) type [^;]*;/gm;
const PATHS = /["'`]([^"'`\s]+\.ts)["'`]/g;

export class Reach {
  readonly #importers = new Map<string, string[]>();
  readonly #known = new Map<string, ReadonlyMap<string, number>>();

  constructor(files: readonly SourceFile[]) {
    const there = new Set(files.map(({ path }) => path));
    for (const { path, text } of files) {
      for (const [, named] of text.replaceAll(TYPES, "").matchAll(PATHS)) {
        const own = new URL(named, `file:///${path}`).pathname.slice(1);
        const target = [own, named].find((one) => there.has(one));
        if (target === undefined) continue;
        const importers = this.#importers.get(target) ?? [];
        this.#importers.set(target, [...importers, path]);
      }
    }
  }

  /** The test beside the file and those of its folder. */
  nearest(file: string): string[] {
    const own = file.replace(/\.ts$/, "_test.ts");
    return this.#tests(file).filter((test) => folderOf(test) === folderOf(file))
      .sort((a, b) => Number(b === own) - Number(a === own));
  }

  /** The other tests of its room. */
  room(file: string): string[] {
    return this.#tests(file).filter((test) =>
      roomOf(test) === roomOf(file) && folderOf(test) !== folderOf(file)
    );
  }

  /** Tests of other rooms, as far as they are likely to notice the file. */
  elsewhere(file: string): string[] {
    const tests = this.#tests(file).filter((test) => roomOf(test) !== roomOf(file));
    const isClose = (test: string) => this.#way(file, test) - this.#way(file, tests[0]) <= FURTHER_MAX;
    return tests.filter(isClose).slice(0, ELSEWHERE_MAX);
  }

  /** The nearest first; those of the build look at all files and run few. */
  #tests(file: string): string[] {
    const way = (test: string) => this.#way(file, test);
    return [...this.#steps(file).keys()].filter((path) => /^(?!cli\/build\/).*_test\.ts$/.test(path))
      .sort((a, b) => way(a) - way(b) || (a < b ? -1 : 1));
  }

  /** How many imports lie between; each word that the paths share makes up for one. */
  #way(file: string, test: string): number {
    return this.#steps(file).get(test)! - wordsOf(test).intersection(wordsOf(file)).size;
  }

  /** How many imports lie between the file and each one that reaches it. */
  #steps(file: string): ReadonlyMap<string, number> {
    const known = this.#known.get(file);
    if (known) return known;
    const steps = new Map([[file, 0]]);
    for (const [path, count] of steps) {
      for (const importer of this.#importers.get(path) ?? []) {
        if (!steps.has(importer)) steps.set(importer, count + 1);
      }
    }
    this.#known.set(file, steps);
    return steps;
  }
}

function folderOf(path: string): string {
  return path.replace(/[^/]*$/, "");
}

function wordsOf(path: string): Set<string> {
  return new Set(
    path.replace(/(_test)?\.ts$/, "").split(/s?[/_]|s$/).filter((word) => word !== "lib" && word !== "test"),
  );
}
