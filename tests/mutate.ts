/**
 * `deno task mutate [ROOM] [--since REV] [--seed N] [--count N] [--minutes M]`: puts small faults into the code, one at a
 * time, and shows those that no test finds.
 *
 * A mutant passes four stages: the type check, the nearest tests that run its line, the other tests of its room that
 * do, and tests of other rooms. What all of them let pass is a survivor. Fates are kept in dist/mutation/: the same
 * command goes on where its last run ended, and tries survivors again once a test has changed.
 *
 * `tests/mutation/judged.json` lists survivors that are no holes: `equivalent` (no caller can see a difference) or
 * `harmless` (nobody minds it, such as another length of a pause), each with its reason. Ends with 1 if a survivor is
 * not judged.
 */

import { SystemClock } from "../lib/base/clock.ts";
import { DenoHost } from "../lib/base/host_deno.ts";
import { messageOf } from "../lib/base/error.ts";
import { begin, EXIT, type Terminal, unexpected } from "../cli/program.ts";
import { checkedFiles, COMPILER_OPTIONS, denoTypes } from "./floating_promises.ts";
import { run } from "./interop/programs.ts";
import { CoverageMap } from "./mutation/coverage_map.ts";
import { type Found, KeptFates } from "./mutation/kept_fates.ts";
import judgedJson from "./mutation/judged.json" with { type: "json" };
import { type Mutant, withFault } from "./mutation/operators.ts";
import { Reach } from "./mutation/reach.ts";
import { changedLines, sampleOf } from "./mutation/sample.ts";
import { TreeCopy } from "./mutation/tree_copy.ts";
import { messagePaths, TypeCheck } from "./mutation/type_check.ts";
import { roomOf } from "./support/rooms.ts";
import { type SourceFile, sourceFiles } from "./support/sources.ts";

const ROOT = new URL("../", import.meta.url).pathname;
const FOLDERS = ["cli/", "drivers/", "lib/", "tests/"];
/** A test that takes so much longer than without a mutant does not end. */
const SLOWER_MAX = 4;
const PATIENCE_MS = 15_000;

const PROGRAM = {
  name: "deno task mutate",
  summary: "Puts faults into the code, one at a time, and shows those that no test finds.",
  style: "gnu",
  usage: "[ROOM] [flags]",
  flags: [
    {
      name: "since",
      type: "string",
      default: "",
      value: "REV",
      help: "Only lines that have changed since this revision.",
    },
    { name: "seed", type: "int", default: 1, value: "N", help: "Chooses the mutants and their order." },
    {
      name: "count",
      type: "int",
      default: 0,
      value: "N",
      help: "How many mutants; 0 takes as many as the time suffices for.",
    },
    {
      name: "minutes",
      type: "int",
      default: 10,
      value: "M",
      help: "Stop after this time; the mutant under way does not count.",
    },
  ],
} as const;

/** How a mutant ended. */
type Fate = NonNullable<Found["stage"]> | "equivalent" | "harmless" | "survived";

interface Judged {
  readonly file: string;
  readonly before: string;
  readonly edit: string;
  readonly verdict: "equivalent" | "harmless";
  readonly reason: string;
}

interface Bench {
  readonly files: readonly SourceFile[];
  readonly types: TypeCheck;
  readonly copy: TreeCopy;
  readonly coverage: CoverageMap;
  readonly reach: Reach;
  readonly kept: KeptFates;
}

/** The first stage that finds the mutant and its test, if the time suffices. */
async function tryOut(
  mutant: Mutant,
  { files, types, copy, coverage, reach, kept }: Bench,
  isOver: () => boolean,
): Promise<Found | undefined> {
  const { file } = mutant;
  const stages = [
    ["nearest", reach.nearest(file)],
    ["room", reach.room(file)],
    ["elsewhere", reach.elsewhere(file)],
  ] as const;
  const tests = stages.flatMap(([_, tests]) => tests);
  const known = await kept.get(mutant, tests);
  if (known) return known;
  const keep = async (found: Found) => {
    await kept.set(mutant, tests, found);
    return found;
  };

  const own = files.find(({ path }) => path === file)!.text;
  const mutated = withFault(own, mutant);
  if (types.refuses(ROOT + file, own, mutated)) return await keep({ stage: "types" });
  for (const [stage, tests] of stages) {
    for (const test of tests) {
      if (isOver()) return undefined;
      const ms = await coverage.msOf(test, mutant);
      if (ms === undefined) continue;
      await copy.write(file, mutated);
      const end = await copy.test(test, SLOWER_MAX * ms + PATIENCE_MS).finally(() => copy.write(file, own));
      if (end !== "passed") return await keep({ stage, test });
    }
  }
  // What comes from packages and the runtime's own modules has no types in the first stage.
  if (mutant.kind !== "removed await") return await keep({});
  await copy.write(file, mutated);
  const isRefused = await copy.check(file).finally(() => copy.write(file, own));
  return await keep(isRefused ? { stage: "types" } : {});
}

function fateOf(mutant: Mutant, { stage }: Found): Fate {
  if (stage !== undefined) return stage;
  const isSame = ({ file, before, edit }: Judged) =>
    file === mutant.file && before === mutant.before && edit === mutant.edit;
  return (judgedJson as readonly Judged[]).find(isSame)?.verdict ?? "survived";
}

/** Judges whose line or fault is no longer there. */
function stale(files: readonly SourceFile[]): Judged[] {
  const all = sampleOf(files, { room: "", seed: 1 });
  const known = new Set(all.map(({ file, before, edit }) => JSON.stringify([file, before, edit])));
  return (judgedJson as readonly Judged[]).filter(({ file, before, edit }) =>
    !known.has(JSON.stringify([file, before, edit]))
  );
}

async function play(
  mutants: readonly Mutant[],
  bench: Bench,
  minutes: number,
  terminal: Terminal,
): Promise<Map<string, Fate[]>> {
  const clock = new SystemClock();
  const endMs = clock.monotonicMs() + minutes * 60_000;
  const isOver = () => clock.monotonicMs() >= endMs;
  const rooms = new Map<string, Fate[]>();
  for (const mutant of mutants) {
    const found = await tryOut(mutant, bench, isOver);
    if (!found) break;
    const fate = fateOf(mutant, found);
    const room = roomOf(mutant.file);
    rooms.set(room, [...rooms.get(room) ?? [], fate]);
    const { file, line, kind, before, edit } = mutant;
    if (fate === "survived") terminal.write(`${file}:${line}: ${kind}: ${edit}\n    ${before}\n`);
  }
  return rooms;
}

function rowOf(room: string, fates: readonly Fate[]): string {
  const count = (...wanted: Fate[]) => fates.filter((fate) => wanted.includes(fate)).length;
  const [killed, holes] = [count("types", "nearest", "room", "elsewhere"), count("survived")];
  const share = killed + holes === 0 ? "" : `${(100 * killed / (killed + holes)).toFixed(0)} %`;
  const counts = [
    fates.length,
    count("types"),
    count("nearest"),
    count("room"),
    count("elsewhere"),
    count("equivalent"),
    count("harmless"),
    holes,
  ];
  return `${room.padEnd(18)}${[...counts, share].map((one) => String(one).padStart(11)).join("")}\n`;
}

async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const [room = "", ...more] = begun.rest.map((one) => one.replace(/\/$/, ""));
  const { since, seed, count, minutes } = begun.values;
  if (more.length > 0) {
    terminal.writeError(`${PROGRAM.name}: ${unexpected(more[0])}; see --help\n`);
    return EXIT.usage;
  }

  const files = await sourceFiles(FOLDERS);
  const diff = since === "" ? undefined : await run(["git", "-C", ROOT, "diff", "-U0", since]);
  if (diff && diff.code !== 0) {
    terminal.writeError(`${PROGRAM.name}: --since: ${diff.stderr.trim()}\n`);
    return EXIT.usage;
  }
  const all = sampleOf(files, { room, changed: diff && changedLines(diff.stdout), seed });
  const sample = count > 0 ? all.slice(0, count) : all;
  if (sample.length === 0) {
    terminal.writeError(
      `${PROGRAM.name}: found nothing to change in "${room || since}", wanted a folder such as lib/wire\n`,
    );
    return EXIT.usage;
  }
  for (const { file, edit } of stale(files)) {
    terminal.writeError(`judged.json: ${file}: "${edit}" is no mutant any more: remove it\n`);
  }
  return await withBench(files, async (bench) => {
    const rooms = await play(sample, bench, minutes, terminal);
    const stages = ["types", "nearest", "room", "elsewhere"];
    const heads = ["tried", ...stages, "equivalent", "harmless", "holes", "found"];
    terminal.write(`\n${"room".padEnd(18)}${heads.map((one) => one.padStart(11)).join("")}\n`);
    for (const [room, fates] of [...rooms].sort()) terminal.write(rowOf(room, fates));
    const all = [...rooms.values()].flat();
    terminal.write(rowOf("all", all));
    terminal.write(`seed ${seed}: ${all.length} of ${sample.length} mutants\n`);
    return all.includes("survived") ? 1 : 0;
  }).catch((error) => {
    terminal.writeError(`${PROGRAM.name}: ${messageOf(error)}\n`);
    return 1;
  });
}

async function withBench<R>(files: readonly SourceFile[], use: (bench: Bench) => Promise<R>): Promise<R> {
  const copy = await TreeCopy.create();
  const types = await denoTypes();
  try {
    const options = { ...COMPILER_OPTIONS, paths: await messagePaths() };
    const check = new TypeCheck(await checkedFiles(), options, types);
    const [reach, kept] = [new Reach(files), await KeptFates.read(files)];
    return await use({ files, types: check, copy, coverage: new CoverageMap(copy), reach, kept });
  } finally {
    await Deno.remove(types);
    await copy.remove();
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
