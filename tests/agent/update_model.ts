/**
 * Every state that updates can reach, with a power failure between any two durable writes.
 *
 * Explores breadth first the results of `plan` and `bootPlan` under every order of events: releases that are good,
 * crash, hang, turn bad later or are not programs; changing targets; a full disk; dying processes; a power cut after
 * each write; a lost record; a version whose file is lost; a user's rollback; cleaning. There is no event for a jumping
 * clock, because nothing here has a clock.
 *
 * In every state the boot rule alone reaches a working version (for the runtime: with the agent beside it). While
 * nothing is on trial or was given up lately, it starts one at once. Once no more faults happen, the wanted version
 * runs, or is refused and a working version runs. For the runtime this holds after a restart of the agent, because a
 * working runtime is never stopped for a version that nobody asked for, outside a maintenance window.
 *
 *     deno task model:updates
 */

import {
  bootPlan,
  type Count,
  type PassingCount,
  startedInstead,
  STARTS_MAX,
  type VersionLinks,
} from "../../lib/agent/update/boot.ts";
import {
  type Build,
  downloaded,
  goBack,
  type Op,
  plan,
  refused,
  type Seen,
  type Slot,
  verified,
} from "../../lib/agent/update/state.ts";
import { inUse, rebuilt } from "../../lib/agent/update/record.ts";

/** The behaviour of each version. */
const NATURE: Readonly<Record<string, "good" | "crashes" | "hangs" | "turns" | "wrong">> = {
  a: "good",
  b: "good",
  c: "crashes",
  h: "hangs",
  t: "turns",
  w: "wrong",
};

const NAMES = Object.keys(NATURE);

const BUILDS = Object.fromEntries(
  NAMES.map((name) => [name, { key: name, version: name, file: name, sha256: name, sizeBytes: 1 }]),
) as Readonly<Record<string, Build>>;

export type Mode = "agent" | "runtime";

interface State {
  // On the disk.
  readonly slot: Slot;
  readonly links: VersionLinks;
  readonly count?: Count;
  /** Sorted. */
  readonly files: string;
  // In memory.
  readonly passing?: PassingCount;
  readonly running?: string;
  readonly health: Seen["health"];
  // The world.
  readonly target: string;
  readonly full: boolean;
  /** The version that turns has turned. */
  readonly turned: boolean;
  /** A loss of data has happened: one is survived, not any number. */
  readonly lost: boolean;
}

export interface Explored {
  readonly states: number;
  readonly transitions: number;
  /** Those in which the power may fail between two writes of a step. */
  readonly cuts: number;
  readonly violations: readonly string[];
}

const VIOLATIONS_MAX = 5;

/** What may be done to what runs: nothing, restart it, or restart it for any version (in a maintenance window). */
const MAY = [
  { maySwitch: false, mayUpdate: false },
  { maySwitch: true, mayUpdate: false },
  { maySwitch: true, mayUpdate: true },
] as const;
type May = typeof MAY[number];
const [, MAY_SWITCH, MAY_ALL] = MAY;

/** Where the histories begin: the first version is good, or was given up because the computer was too slow for it. */
const BEGINNINGS = {
  good: { slot: { good: BUILDS.a }, links: { current: "a" } },
  late: {
    slot: { unproven: BUILDS.a, refused: { ...BUILDS.a, reason: "it was not healthy in time" } },
    links: { broken: "a" },
  },
} as const satisfies Readonly<Record<string, Pick<State, "slot" | "links">>>;

/** `names`: the versions there are, `a` among them. */
export function explore(
  mode: Mode,
  names: readonly string[],
  first: keyof typeof BEGINNINGS = "good",
): Explored {
  const start: State = {
    ...BEGINNINGS[first],
    files: "a",
    health: "starting",
    target: "a",
    full: false,
    turned: false,
    lost: false,
  };
  const model = new Model(mode, names);
  const from = new Map<string, { parent?: string; event: string }>([[keyOf(start), { event: "start" }]]);
  let edge: State[] = [start];
  const violations: string[] = [];
  while (edge.length > 0 && violations.length < VIOLATIONS_MAX) {
    const next: State[] = [];
    for (const state of edge) {
      const parent = keyOf(state);
      const wrong = model.wrong(state);
      if (wrong && violations.length < VIOLATIONS_MAX) violations.push(`${wrong}\n${history(from, parent)}`);
      for (const [event, after] of model.events(state)) {
        const key = keyOf(after);
        if (from.has(key)) continue;
        from.set(key, { parent, event });
        next.push(after);
      }
    }
    edge = next;
  }
  return { states: from.size, transitions: model.transitions, cuts: model.cuts, violations };
}

function keyOf(state: State): string {
  const { slot, links, count, passing, files, running, health, target, full, turned, lost } = state;
  const disk = `${slotKey(slot)} ${links.current},${links.previous},${links.broken}`;
  const counted = count ? count.file + count.starts : "";
  const passed = passing ? passing.file + passing.starts + passing.over : "";
  const world = `${target}${full ? "F" : ""}${turned ? "T" : ""}${lost ? "L" : ""}`;
  return `${disk} ${counted} ${passed} ${files} ${running ?? "-"}${health} ${world}`;
}

function slotKey({ good, previous, trial, unproven, refused }: Slot): string {
  return `(${good?.key},${previous?.key},${
    trial ? trial.build.key + trial.stage + (trial.asked ? "!" : "") : ""
  },${unproven?.key},${refused?.key})`;
}

function history(from: ReadonlyMap<string, { parent?: string; event: string }>, key: string): string {
  const lines: string[] = [];
  for (let at: string | undefined = key; at !== undefined; at = from.get(at)?.parent) {
    lines.unshift(`  ${from.get(at)!.event}  ->  ${at}`);
  }
  return lines.join("\n");
}

class Model {
  transitions = 0;
  cuts = 0;
  readonly #ends = new Map<string, string | undefined>();

  constructor(private readonly mode: Mode, private readonly names: readonly string[]) {}

  *events(state: State): Generator<[string, State]> {
    for (const event of this.#all(state)) {
      this.transitions++;
      yield [event[0], cleaned(event[1])];
    }
  }

  *#all(state: State): Generator<[string, State]> {
    const { running, links, slot, lost } = state;
    yield ["power cut", cut(state)];
    if (!lost) {
      const slot = rebuilt(links, (file) => has(state, file) ? BUILDS[file] : undefined);
      yield ["power cut, the record lost", { ...cut(state), slot, lost: true }];
    }
    yield [state.full ? "there is space" : "the disk is full", { ...state, full: !state.full }];
    for (const target of this.names) {
      if (target !== state.target) yield [`wanted: ${target}`, { ...state, target }];
    }
    if (running === undefined) yield* this.#boot(state);
    else {
      yield ["it dies", { ...state, running: undefined, health: "starting" }];
      yield* this.#lives(state, running);
    }
    if (running === undefined && this.mode === "agent") return;
    for (const may of this.mode === "agent" ? [MAY_ALL] : MAY) yield* this.#step(state, may);
    const back = goBack(slot, this.#seen(state, MAY_ALL), "asked for");
    if (back) yield* this.#write("rollback", state, back);
  }

  /** The behaviour of a running version, and failures of the good ones: each once, while the other one works. */
  *#lives(state: State, running: string): Generator<[string, State]> {
    const { health, turned, links, slot, lost } = state;
    if (health === "starting" && works(state, running)) yield ["it is well", { ...state, health: "healthy" }];
    if (health === "starting" && NATURE[running] === "hangs") {
      yield ["time is up", { ...state, health: "failed" }];
    }
    const settled = !["prepared", "switched", "probation"].includes(slot.trial?.stage ?? "");
    const wayBack = links.previous !== undefined && links.previous !== links.current &&
      NATURE[links.previous] === "good" && has(state, links.previous);
    if (!settled || !wayBack || lost) return;
    if (!turned) yield ["t turns bad", { ...state, turned: true, lost: true, health: "starting" }];
    const files = [...state.files].filter((file) => file !== links.current).join("");
    yield ["the file of what runs is lost", { ...state, files, lost: true }];
  }

  *#boot(state: State): Generator<[string, State]> {
    const { file, ops } = bootOf(state);
    let at = state;
    for (const one of ops) {
      if (one.op === "count") {
        if (!at.full) {
          at = { ...at, count: one.count };
          this.cuts++;
          yield ["boot, power cut", cut(at)];
        }
        at = { ...at, passing: { ...one.count, over: at.links.current } };
      } else if (!at.full) {
        at = { ...at, links: { ...at.links, [one.link]: one.file } };
        this.cuts++;
        yield ["boot, power cut", cut(at)];
      }
    }
    if (file !== undefined) yield [`boot ${file}`, { ...at, running: file, health: "starting" }];
  }

  *#step(state: State, may: May): Generator<[string, State]> {
    const step = plan(state.slot, this.#seen(state, may));
    switch (step.do) {
      case "write":
        return yield* this.#write(step.why, state, step.ops);
      case "restart":
        return yield [step.why, { ...state, running: undefined, health: "starting" }];
      case "fetch": {
        if (state.full) return;
        const files = [...new Set([...state.files, state.target])].sort().join("");
        const slot = downloaded(state.slot, BUILDS[state.target]);
        return yield* this.#write("fetched", { ...state, files }, [{ op: "save", slot }]);
      }
      case "check": {
        const bad = NATURE[step.build.key] === "wrong";
        const slot = bad ? refused(state.slot, step.build, "no program") : verified(state.slot);
        return yield* this.#write("checked", state, [{ op: "save", slot }]);
      }
    }
  }

  /** All the ways a list of writes can end: the power fails, or the disk is full, before or after each of them. */
  *#write(why: string, state: State, ops: readonly Op[]): Generator<[string, State]> {
    let at = state;
    for (const op of ops) {
      this.cuts++;
      yield [`${why}, power cut`, cut(at)];
      const grows = op.op === "save" || op.op === "link";
      if (grows) yield [`${why}, disk full`, { ...at, full: true }];
      if (grows && at.full) return;
      at = done(at, op);
    }
    yield [why, at];
  }

  #seen(state: State, may: May): Seen {
    const { links, target, running, health, files } = state;
    return {
      target: BUILDS[target],
      links,
      files: new Set(files),
      counted: state.count !== undefined || state.passing !== undefined,
      gaveUp: startedInstead(state) !== undefined,
      running,
      health,
      ...may,
      mayFetch: true,
    };
  }

  /** What must hold in a state and does not. */
  wrong(state: State): string | undefined {
    const { slot, links, lost, count, passing } = state;
    if (this.mode === "agent") {
      const wrong = bootsWrong(state);
      if (wrong) return wrong;
    }
    const tired = [count, passing].some((one) => one && one.starts >= STARTS_MAX);
    const first = bootOf(state).file;
    // Three failed starts, even by power cuts, and the given-up version gets a turn.
    const calm = !lost && !tired && links.broken === undefined && startedInstead(state) === undefined &&
      links.current !== undefined && links.current === slot.good?.file;
    if (calm && (first === undefined || !works(state, first))) {
      return `${first} would be started, though nothing is on trial`;
    }
    return this.#stopped(state) ?? this.#end({ ...state, full: false });
  }

  /** A version that works and is to stay until the next start is replaced. */
  #stopped(state: State): string | undefined {
    const { slot: { good, trial }, running, health, links } = state;
    const isReady = trial && ["downloaded", "verified"].includes(trial.stage) && !trial.asked;
    const calm = running !== undefined && running === good?.key && running === links.current;
    if (!isReady || !calm || health !== "healthy" || startedInstead(state) !== undefined) return undefined;
    const step = plan(state.slot, this.#seen(state, MAY_SWITCH));
    const replaces = step.do === "restart" || (step.do === "write" && step.ops.some((op) => {
      return op.op === "save" && op.slot.trial?.stage === "prepared";
    }));
    return replaces ? `${running} works and is replaced: ${step.why}` : undefined;
  }

  /** The end state without further faults: the wanted version runs, or it is refused and a good version runs. */
  #end(start: State): string | undefined {
    const passed: string[] = [];
    let state = start;
    let end: string | undefined;
    for (let steps = 0;; steps++) {
      const key = keyOf(state);
      if (this.#ends.has(key)) {
        end = this.#ends.get(key);
        break;
      }
      passed.push(key);
      const after = this.#fair(state);
      if (after === undefined) {
        end = endOf(state);
        break;
      }
      if (steps > 200) {
        end = `it does not come to rest:\n  ${passed.slice(-20).join("\n  ")}`;
        break;
      }
      state = after;
    }
    for (const key of passed) this.#ends.set(key, end);
    return end;
  }

  /** The next event if everything behaves by its nature; `undefined` at rest. */
  #fair(state: State): State | undefined {
    const { running, health } = state;
    if (running === undefined) {
      const step = this.mode === "runtime" ? [...this.#step(state, MAY_ALL)].at(-1)?.[1] : undefined;
      if (step && keyOf(step) !== keyOf(state)) return step;
      const booted = [...this.#boot(state)].at(-1)?.[1];
      return booted?.running === undefined ? undefined : booted;
    }
    // Hanging is found out by the time it takes, by the watchdog at the latest.
    if (!works(state, running)) {
      if (NATURE[running] === "hangs" && health === "starting") return { ...state, health: "failed" };
      const last = NATURE[running] === "hangs" ? [...this.#step(state, MAY_SWITCH)].at(-1) : undefined;
      return last && keyOf(last[1]) !== keyOf(state)
        ? last[1]
        : { ...state, running: undefined, health: "starting" };
    }
    const last = [...this.#step(state, this.mode === "agent" ? MAY_ALL : MAY_SWITCH)].at(-1)?.[1];
    if (last) return last;
    if (health === "starting") return { ...state, health: "healthy" };
    // A ready version waits for a start of the agent, which starts the runtime.
    return state.slot.trial ? { ...state, running: undefined, health: "starting" } : undefined;
  }
}

function endOf(state: State): string | undefined {
  const { running, health, slot, target, links } = state;
  if (running === undefined || !works(state, running)) return `at rest ${running ?? "nothing"} runs`;
  if (health !== "healthy") return "at rest it is not well";
  if (slot.good?.key !== running || links.current !== running) return "record and disk differ at rest";
  if (running !== target && slot.refused?.key !== target) return `at rest ${running} runs, not ${target}`;
}

/** Starts after each other, each of which fails if it can: one that works has to be among the first few. */
function bootsWrong(start: State): string | undefined {
  let state: State = { ...start, running: undefined };
  for (let boots = 0; boots <= 3 * STARTS_MAX; boots++) {
    const { file, ops } = bootOf(state);
    if (file === undefined) return "nothing can be started";
    if (works(state, file)) return undefined;
    for (const one of ops) {
      if (one.op === "count") {
        const passing = { ...one.count, over: state.links.current };
        state = { ...state, passing, count: state.full ? state.count : one.count };
      } else if (!state.full) state = { ...state, links: { ...state.links, [one.link]: one.file } };
    }
  }
  return `nothing that works is started in ${3 * STARTS_MAX} times`;
}

function bootOf(state: State) {
  const { links, count, passing } = state;
  return bootPlan({ links, count, passing, runnable: (file) => has(state, file) });
}

function works({ turned }: State, file: string): boolean {
  return NATURE[file] === "good" || (NATURE[file] === "turns" && !turned);
}

function has({ files }: State, file: string): boolean {
  return files.includes(file);
}

/**
 * Cleaning happens after every step: what it may remove never matters. Unused files make no difference, so a state
 * without them stands for all states with them.
 */
function cleaned(state: State): State {
  const used = inUse(state.slot, state.links, state.running);
  const files = [...state.files].filter((file) => used.has(file)).join("");
  return files === state.files ? state : { ...state, files };
}

function cut(state: State): State {
  return { ...state, running: undefined, health: "starting", passing: undefined };
}

function done(state: State, op: Op): State {
  switch (op.op) {
    case "save":
      return { ...state, slot: op.slot };
    case "link":
      return { ...state, links: { ...state.links, [op.link]: op.file } };
    case "unlink":
      return { ...state, links: { ...state.links, [op.link]: undefined } };
    case "forget_count":
      return { ...state, count: undefined, passing: undefined };
  }
}

/** Reports the exploration; `false` if a property does not hold. */
export function report(
  { states, transitions, cuts, violations }: Explored,
  mode: Mode,
  names: readonly string[] | string,
): boolean {
  const power = `${cuts} of them a power cut between two writes`;
  const kinds = [...names].map((name) => NATURE[name]).join(", ");
  console.log(`updates of the ${mode} (${kinds}): ${states} states, ${transitions} transitions, ${power}`);
  for (const violation of violations) console.log(`violated: ${violation}`);
  return violations.length === 0;
}

/** Two good ones, and every kind of version that goes wrong beside one that crashes. */
const UNIVERSES = ["ab", "acw", "ach", "act"];

if (import.meta.main) {
  let held = true;
  for (const names of UNIVERSES) {
    for (const mode of ["agent", "runtime"] as const) {
      held = report(explore(mode, [...names]), mode, names) && held;
    }
  }
  console.log(held ? "every one of them comes back to a version that works" : "it does not hold");
  Deno.exit(held ? 0 : 1);
}
