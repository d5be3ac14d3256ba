/**
 * Plans for people to read: each file of plans/ is a history of configurations, with the machine's steps under each of
 * them. `deno task golden` rewrites the steps; read the difference before committing it.
 *
 * Lines without indentation are written by hand: `# why`, then a line per resource, `<type> <name> = <version>`, with
 * `: <need>, <optional need>?` and `! <its problem>`. `fails: <type>/<name> …` names resources that fail to build.
 * `retry` stands for another attempt at the previous configuration, `nothing` for a configuration without resources. An
 * empty line ends a configuration.
 */

import { assertEquals } from "@std/assert";
import { resolveDependencies } from "../../lib/resource/graph.ts";
import {
  obstacle,
  type Plan,
  planOf,
  retryScope,
  type Standing,
  unsettled,
  type WantedResource,
} from "../../lib/machine/graph/pass/plan.ts";

const UPDATE = Deno.args.includes("--update");
const FOLDER = new URL("plans/", import.meta.url);

for (const { name } of [...Deno.readDirSync(FOLDER)].sort((a, b) => a.name < b.name ? -1 : 1)) {
  Deno.test(`plans/${name} shows the steps that the machine plans`, async () => {
    const url = new URL(name, FOLDER);
    const text = await Deno.readTextFile(url);
    const logged = tell(text);
    if (UPDATE) await Deno.writeTextFile(url, logged);
    else assertEquals(text, logged, `${name} differs; if that is right, run: deno task golden`);
  });
}

interface Block {
  readonly written: string[];
  readonly wanted: Map<string, WantedResource>;
  readonly fails: ReadonlySet<string>;
  readonly retry: boolean;
}

/** The text with the machine's steps rewritten. */
function tell(text: string): string {
  const history = new History();
  const blocks = text.split(/\n\s*\n/).map(parse).filter(({ written }) => written.length > 0);
  const logged = blocks.map((block) => {
    const comment = block.written.every((line) => line.startsWith("#"));
    return [...block.written, ...comment ? [] : history.take(block).map((line) => `  ${line}`)].join("\n");
  });
  return `${logged.join("\n\n")}\n`;
}

function parse(text: string): Block {
  const written = text.split("\n").filter((line) => /^\S/.test(line));
  const wanted = new Map<string, WantedResource>();
  let fails = new Set<string>();
  for (const line of written) {
    if (line.startsWith("#") || line === "retry" || line === "nothing") continue;
    if (line.startsWith("fails: ")) {
      fails = new Set(line.split(" ").slice(1).map(fullOf));
      continue;
    }
    const match = /^(\w+) (\S+) = ([^:! ]+)(?:: ([^!]+))?(?: ?! (.+))?$/.exec(line);
    if (!match) throw new Error(`cannot be read: ${line}`);
    const [, type, name, fingerprint, needs = "", problem] = match;
    wanted.set(fullOf(`${type}/${name}`), {
      fingerprint,
      problem,
      needs: needs.split(",").map((need) => need.trim()).filter((need) => need !== "").map((need) => ({
        name: need.includes("/") ? fullOf(need.replace("?", "")) : need.replace("?", ""),
        optional: need.endsWith("?"),
      })),
    });
  }
  return { written, wanted, fails, retry: written.includes("retry") };
}

const SERVICES = ["vision", "motion", "slam"];

function fullOf(short: string): string {
  return `rdk:${SERVICES.includes(short.split("/")[0]) ? "service" : "component"}:${short}`;
}

function shown(text: string): string {
  return text.replace(/rdk:(component|service):/g, "");
}

/** Stands for the machine: does what plans say, with builds that work or fail at once. */
class History {
  #standing = new Map<string, Standing>();
  #wanted = new Map<string, WantedResource>();
  #failed = new Set<string>();
  #lines: string[] = [];

  take({ wanted, fails, retry }: Block): string[] {
    if (!retry) this.#wanted = wanted;
    this.#lines = [];
    const wiring = resolveDependencies(this.#wanted);
    const scope = retry ? retryScope(this.#failed, this.#standing, wiring) : undefined;
    let plan = planOf(this.#standing, this.#wanted, wiring, scope);
    if (!retry) this.#failed.clear();
    for (;;) {
      this.#close(plan);
      this.#build(plan, fails);
      const left = unsettled(plan.build.flat(), this.#standing, wiring);
      if (left.size === 0) break;
      plan = planOf(this.#standing, this.#wanted, wiring, left);
    }
    if (this.#lines.length === 0) this.#lines.push("nothing to do");
    for (const full of retry ? [] : this.#wanted.keys()) {
      const reason = obstacle(full, this.#wanted, wiring);
      if (reason !== undefined) this.#say(`blocked ${full}: ${reason}`);
      else if (wiring.refused.has(full)) this.#say(`without ${full}: ${wiring.refused.get(full)}`);
    }
    return this.#lines;
  }

  #say(line: string): void {
    this.#lines.push(shown(line));
  }

  #close({ close }: Plan): void {
    for (const group of close) {
      this.#say(`close ${group.join(" + ")}`);
      for (const full of group) this.#standing.delete(full);
    }
  }

  #build({ build }: Plan, fails: ReadonlySet<string>): void {
    const { uses, optional } = resolveDependencies(this.#wanted);
    for (const group of build) {
      const parts = group.map((full) => {
        const used = [...uses.get(full)!];
        const isReady = (one: string) => this.#standing.get(one)?.condition === "ready";
        const because = used.find((one) => !isReady(one) && !optional.get(full)?.has(one));
        const { fingerprint } = this.#wanted.get(full)!;
        const holds = new Set(used.filter(isReady));
        const works = because === undefined && !fails.has(full);
        this.#standing.set(full, { fingerprint, holds, condition: works ? "ready" : "down" });
        if (because === undefined && !works) this.#failed.add(full);
        else this.#failed.delete(full);
        const left = used.filter((one) => !holds.has(one)).join(", ");
        if (because !== undefined) return `(${full} waits for ${because})`;
        return works ? `${full}${left === "" ? "" : ` without ${left}`}` : `(${full} fails)`;
      });
      this.#say(`build ${parts.join(" + ")}`);
    }
  }
}
