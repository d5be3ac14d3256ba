/**
 * The seeded simulation: random histories of configurations of a machine whose parts fail in every way, beside
 * another machine behind a link that breaks. Whatever happened on the way, the end is that of a fresh start.
 *
 * Every seed is a step with a history of its own, the same in every run. `SVC_SIM_SEEDS=2000` runs more of them,
 * `SVC_SIM_SEED=17` one, with its history.
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { settle } from "../../lib/base/clock.ts";
import type { MachineConfig, RemoteConfig, ResourceConfig } from "../../lib/machine/config/config.ts";
import type { Machine } from "../../lib/machine/graph/machine.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import type { Resource } from "../../lib/resource/resource.ts";
import { APIS, Dice, Part, World } from "./world.ts";
import { EMPTY_CONFIG } from "../support/configs.ts";

const SEEDS = Number(Deno.env.get("SVC_SIM_SEEDS") ?? 200);
const ONE = Deno.env.get("SVC_SIM_SEED");
const STEPS = 40;
/** All of them are sometimes ambiguous, sometimes a remote's too. */
const NAMES = ["a", "b", "c", "d", "e", "f", "g"];
const FAR = "far";

Deno.test("a random history of configurations ends in the same machine as a fresh start", async (t) => {
  const seeds = ONE === undefined ? Array.from({ length: SEEDS }, (_, seed) => seed) : [Number(ONE)];
  for (const seed of seeds) await t.step(`seed ${seed}`, () => play(seed));
});

async function play(seed: number): Promise<void> {
  const history: string[] = [];
  try {
    await new Run(seed, history).run();
  } catch (error) {
    const logged = history.slice(-12).join("\n");
    throw new Error(`seed ${seed} fails; again with SVC_SIM_SEED=${seed}. Its last steps:\n${logged}`, {
      cause: error,
    });
  }
  if (ONE !== undefined) console.log(history.join("\n"));
}

/** A resource as the generator writes it. */
interface Draft {
  readonly api: string;
  readonly version: number;
  readonly needs: readonly string[];
  readonly optional: readonly string[];
  readonly watches: boolean;
  readonly invalid: boolean;
}

type Drafts = ReadonlyMap<string, Draft>;

class Run {
  readonly #dice: Dice;
  readonly #world: World;
  #drafts: Drafts = new Map();
  #farDrafts: Drafts = new Map();
  #remote = true;
  #revision = 0;

  constructor(seed: number, private readonly history: string[]) {
    this.#dice = new Dice(seed);
    this.#world = new World(this.#dice);
  }

  async run(): Promise<void> {
    const world = this.#world;
    const far = world.subject();
    const { machine } = world.subject(far.machine);
    world.disturb = () => void machine.refresh();
    for (let step = 0; step < STEPS; step++) {
      await this.#step(machine, far.machine);
      this.#check(machine);
    }
    this.#say("faults stop");
    world.faulty = false;
    world.link = "up";
    for (let turn = 0; turn < 30; turn++) {
      await world.clock.advance(5_000);
      this.#check(machine);
    }
    const fresh = world.subject(far.machine).machine;
    void fresh.apply(this.#config(this.#drafts));
    for (let turn = 0; turn < 4; turn++) await world.clock.advance(5_000);
    assertEquals(graphOf(machine), graphOf(fresh), "the end is not that of a fresh start");
    this.#checkLogged(machine);
    await this.#end([fresh, machine, far.machine]);
  }

  async #step(machine: Machine, far: Machine): Promise<void> {
    const dice = this.#dice;
    const { clock } = this.#world;
    const roll = dice.below(100);
    if (roll < 40) return await this.#change(machine, dice.chance(0.5));
    if (roll < 50) {
      this.#farDrafts = mutated(this.#farDrafts, dice, NAMES.slice(2));
      this.#say(`far: ${textOf(this.#farDrafts)}`);
      return void far.apply(this.#config(this.#farDrafts, false));
    }
    if (roll < 60) {
      this.#world.link = dice.pick(["up", "up", "down", "mute"]);
      return this.#say(`link ${this.#world.link}`);
    }
    const long = roll < 95 ? 20_000 : 120_000;
    const ms = dice.below(roll < 80 ? 2_000 : long);
    this.#say(`${ms} ms pass`);
    await clock.advance(ms);
  }

  /** Applies another configuration; in peace, when all has been applied, what did not change must be untouched. */
  async #change(machine: Machine, inPeace: boolean): Promise<void> {
    const dice = this.#dice;
    const { clock } = this.#world;
    const [before, remoteBefore] = [this.#drafts, this.#remote];
    this.#drafts = dice.chance(0.1) ? before : mutated(before, dice, NAMES);
    if (dice.chance(0.1)) this.#remote = !this.#remote;
    this.#say(`config: ${textOf(this.#drafts)}${this.#remote ? " +remote" : ""}`);
    if (!inPeace) {
      void machine.apply(this.#config(this.#drafts));
      return await settle();
    }
    for (let turn = 0; turn < 60 && machine.busy; turn++) await clock.advance(5_000);
    const standing = instances(machine);
    const applied = machine.apply(this.#config(this.#drafts));
    const same = remoteBefore === this.#remote
      ? untouched(before, this.#drafts, standing)
      : new Set<string>();
    await settle();
    const now = instances(machine);
    for (const full of same) {
      if (now.get(full) !== standing.get(full)) {
        this.#world.wrong.push(`${full} did not change and was not left alone`);
      }
    }
    await this.#ended(applied, "the pass");
  }

  /** Lets time pass until `work` has ended. */
  async #ended(work: Promise<unknown>, what: string): Promise<void> {
    let over = false;
    void work.then(() => over = true);
    for (let turn = 0; turn < 60 && !over; turn++) await this.#world.clock.advance(5_000);
    if (!over) throw new Error(`${what} does not end`);
  }

  /** What must be true at any moment. */
  #check(machine: Machine): void {
    const { wrong, records } = this.#world;
    for (const { message } of records) if (message.startsWith("Bug:")) wrong.push(message);
    records.length = 0;
    const nodes = new Map([...machine.nodes].map((node) => [node.name.full, node]));
    for (const [full, { instance, holds, state, error }] of nodes) {
      if ((state === "ready") !== (instance !== undefined)) wrong.push(`${full} is ${state}, ${instance}`);
      if ((state === "unhealthy") !== (error !== undefined)) wrong.push(`${full} is ${state}: ${error}`);
      if (!(instance instanceof Part)) continue;
      instance.use("it stands");
      const held = [...holds].map((used) => nodes.get(used)?.instance);
      if (held.length !== instance.held.length || !instance.held.every((one) => held.includes(one))) {
        wrong.push(`${full} does not hold what the machine says`);
      }
    }
    for (const resource of machine.resources) {
      if (machine.find(resource.name.api, resource.name.short) !== resource) {
        wrong.push(`${resource.name} is lost`);
      }
    }
    assertEquals(wrong, []);
  }

  /** Resources that see others know the final state. */
  #checkLogged(machine: Machine): void {
    for (const instance of machine.resources) {
      if (!(instance instanceof Part) || !instance.weakDependenciesChanged) continue;
      assertEquals(new Set(instance.logged), new Set(instance.seen), `${instance.name} was told of others`);
    }
  }

  async #end(machines: readonly Machine[]): Promise<void> {
    const { clock, live, wrong } = this.#world;
    await this.#ended(Promise.all(machines.map((machine) => machine.close())), "the end");
    // An abandoned build is closed on arrival.
    await clock.advance(60_000);
    assertEquals([...live].map(({ name }) => name.full), [], "these were never closed");
    assertEquals(clock.pending, 0, "timers are left");
    assertEquals(wrong, []);
  }

  #config(drafts: Drafts, remote = this.#remote): MachineConfig {
    const intervals = { connectionCheckInterval: 3_000, reconnectInterval: 1_000 };
    const far = { name: FAR, address: "far:1", insecure: true, prefix: "", ...intervals } as RemoteConfig;
    const remotes = remote ? [far] : [];
    const revision = String(this.#revision++);
    return { ...EMPTY_CONFIG, resources: [...drafts].map(configOf), remotes, revision };
  }

  #say(text: string): void {
    this.history.push(`${this.#world.clock.nowMs() % 1e9} ${text}`);
  }
}

/** Another configuration, a few changes away. */
function mutated(drafts: Drafts, dice: Dice, names: readonly string[]): Drafts {
  let list = [...drafts];
  for (let change = dice.below(4); change >= 0; change--) {
    const at = dice.below(list.length + 1);
    const roll = dice.below(100);
    if (roll < 35 || list.length === 0) {
      const [short, draft] = [dice.pick(names), draftOf(dice, names)];
      list.splice(at, 0, [`${draft.api}/${short}`, draft]);
    } else if (roll < 55) list.splice(at, 1);
    else if (roll < 62) list = list.reverse();
    else if (roll < 64) list = [];
    else {
      const index = Math.min(at, list.length - 1);
      const [full, draft] = list[index];
      const other = draftOf(dice, names);
      const changed = roll < 85 ? { ...draft, version: draft.version + 1 } : { ...other, api: draft.api };
      list[index] = [full, changed];
    }
  }
  return new Map(list);
}

function draftOf(dice: Dice, names: readonly string[]): Draft {
  const some = (most: number) => Array.from({ length: dice.below(most) }, () => nameOf(dice, names));
  const api = dice.pick(APIS).name;
  return {
    api,
    version: 0,
    needs: dice.chance(0.4) ? [] : some(3),
    optional: dice.chance(0.6) ? [] : some(3),
    watches: dice.chance(0.3),
    invalid: dice.chance(0.05),
  };
}

/** A name as users write it, mostly a good one. */
function nameOf(dice: Dice, names: readonly string[]): string {
  const short = dice.pick(names);
  const roll = dice.below(10);
  if (roll < 5) return short;
  if (roll < 8) return `${dice.pick(APIS).name}/${short}`;
  return roll < 9 ? `${FAR}:${short}` : `${dice.pick(APIS).name}/${FAR}:${short}`;
}

function configOf([full, draft]: [string, Draft]): ResourceConfig {
  const name = ResourceName.parse(full);
  const attributes: JsonObject = { version: draft.version, watches: draft.watches };
  return {
    name,
    path: full,
    kind: "component",
    api: draft.api,
    model: "rdk:builtin:part",
    attributes,
    decoded: attributes,
    dependsOn: draft.needs,
    implicit: draft.optional.map((name) => ({ name, optional: true, path: "" })),
    serviceConfigs: [],
    problems: draft.invalid ? [{ severity: "error", path: "", message: "it is wrong" }] : [],
  };
}

function textOf(drafts: Drafts): string {
  const text = (all: readonly string[]) =>
    all.map((name) => name.replace(/rdk:(component|service):/, "")).join(",");
  return [...drafts].map(([full, { version, needs, optional, invalid }]) =>
    `${text([full])}=${version}${invalid ? "!" : ""}(${text(needs)};${text(optional)})`
  ).join(" ");
}

function instances(machine: Machine): Map<string, Resource> {
  return new Map([...machine.nodes].flatMap(({ name, instance }) => instance ? [[name.full, instance]] : []));
}

/**
 * The resources that must stay untouched between two configurations, computed without a plan: those that are equal,
 * name only what means one local resource in both, and hold only untouched ones.
 */
function untouched(before: Drafts, after: Drafts, standing: ReadonlyMap<string, Resource>): Set<string> {
  const meant = (drafts: Drafts, name: string) => {
    const found = drafts.has(name) ? [name] : [...drafts.keys()].filter((full) => full.endsWith(`/${name}`));
    return found.length === 1 ? found[0] : undefined;
  };
  const equal = (full: string) => JSON.stringify(before.get(full)) === JSON.stringify(after.get(full));
  const stays = (full: string, above: readonly string[]): boolean => {
    const draft = after.get(full);
    const instance = standing.get(full);
    if (!draft || !instance || !equal(full) || draft.invalid || above.includes(full)) return false;
    const held = new Set((instance as Part).held.map(({ name }) => name.full));
    const named = [...draft.needs, ...draft.optional].map((name) => {
      const [old, next] = [meant(before, name), meant(after, name)];
      return old === next && old !== undefined && held.has(old) ? old : undefined;
    });
    return named.every((used) => used !== undefined && stays(used, [...above, full]));
  };
  return new Set([...after.keys()].filter((full) => stays(full, [])));
}

/** What must be equal between a machine with a history and one without. */
function graphOf(machine: Machine): unknown {
  return [...machine.nodes].map((
    { name, state, error, holds },
  ) => [name.full, state, error, [...holds].sort()]);
}
