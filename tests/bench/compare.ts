/**
 * `deno task compare [SECTION…] --peer PROGRAM`: this project beside other programs that take the same configuration,
 * on the same work in the same run, in turns. A peer is an executable of a server, or its `main.ts` in another
 * checkout; what lies beside it (`svc-agent`, `svc-cloud`) is measured, too. `--cartographer FOLDER` names a folder with
 * a program `map_recording` (see `compare/mapping_section.ts`).
 *
 * Prints a table in Markdown: the median of the rounds with the least and the most, and for each peer the ratio by which
 * this one is better. The client is the same for all, in this process: where calls are fast, its own time is a part of
 * what is measured, so rates say less than the time of the processor that the server takes.
 */

import { begin, EXIT, type Terminal } from "../../cli/program.ts";
import { messageOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import {
  commandOf,
  type Contestant,
  contestantOf,
  MAPPER,
  ROOT,
  type Section,
} from "./compare/contestant.ts";
import { agent, cloud } from "./compare/fleet_sections.ts";
import { mapping } from "./compare/mapping_section.ts";
import * as server from "./compare/server_sections.ts";
import { headOf, lineOf, type Measurements, withTable } from "./compare/table.ts";
import * as work from "./compare/work_sections.ts";
import { executables } from "./start_bench.ts";

const PROGRAM = {
  name: "deno task compare",
  summary: "Measures the project's programs beside others on the same work, in turns.",
  style: "gnu",
  usage: "[SECTION…] [flags]",
  flags: [
    {
      name: "peer",
      type: "list",
      default: [] as readonly string[],
      value: "PROGRAM",
      help: "The executable of a server, or the main.ts of one in another checkout; again for several.",
    },
    {
      name: "cartographer",
      type: "string",
      default: "",
      value: "FOLDER",
      help: "A folder with a program map_recording that maps with Cartographer.",
    },
    { name: "rounds", type: "int", default: 5, help: "Measurements of each figure." },
    {
      name: "source",
      type: "bool",
      default: false,
      help: "Measure from source even if dist/ has executables.",
    },
    { name: "readme", type: "bool", default: false, help: "Put the table into README.md, too." },
  ],
} as const;

const README = `${ROOT}README.md`;

const SECTIONS: { readonly [name: string]: Section } = {
  start: { of: "server", measure: server.start },
  memory: { of: "server", measure: server.memory },
  calls: { of: "server", measure: server.calls },
  web: { of: "server", measure: server.web },
  webrtc: { of: "server", measure: server.webrtc },
  resources: { of: "server", measure: server.resources },
  configuration: { of: "server", measure: server.configuration },
  modules: { of: "server", measure: work.modules },
  cameras: { of: "server", measure: work.cameras },
  clouds: { of: "server", measure: work.clouds },
  obstacles: { of: "server", measure: work.obstacles },
  mapping: { of: "mapper", measure: mapping },
  agent: { of: "agent", measure: agent },
  cloud: { of: "cloud", measure: cloud },
};

/** Measures in turns. A contestant without the program, or with one that fails, has no figures. */
async function measured(
  { of, measure }: Section,
  contestants: readonly Contestant[],
  rounds: number,
  complain: (problem: string) => void,
): Promise<Measurements> {
  const all = new Map<string, number[][]>();
  const failed = new Set<Contestant>();
  for (let round = 0; round < rounds; round++) {
    for (const [at, one] of contestants.entries()) {
      const command = one.programs[of];
      if (command === undefined || failed.has(one)) continue;
      try {
        for (const [name, value] of Object.entries(await measure(command))) {
          const columns = all.get(name) ?? contestants.map(() => []);
          columns[at]!.push(value);
          all.set(name, columns);
        }
      } catch (error) {
        failed.add(one);
        complain(`${one.name}: ${messageOf(error)}`);
      }
    }
  }
  return all;
}

/** Ours, the peers, and Cartographer as a mapper. */
async function allContestants(
  peers: readonly string[],
  cartographer: string,
  fromSource: boolean,
): Promise<Contestant[]> {
  const folder = fromSource ? undefined : await executables();
  const own = folder === undefined ? `${ROOT}cli/server/main.ts` : `${folder}/svc-server`;
  const { name, programs } = contestantOf(`ours (${own.slice(ROOT.length)})`, own);
  const ours = { name, programs: { ...programs, mapper: commandOf(`${ROOT}${MAPPER}`) } };
  const others = peers.map((program) => contestantOf(program, program));
  if (cartographer === "") return [ours, ...others];
  const mapper = commandOf(`${cartographer}/map_recording`);
  return [ours, ...others, { name: "Cartographer", programs: { mapper } }];
}

async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { values: { peer: peers, cartographer, rounds, source, readme }, rest } = begun;
  const names = rest.length > 0 ? rest : Object.keys(SECTIONS);
  const unknown = names.find((name) => !Object.hasOwn(SECTIONS, name));
  if (unknown !== undefined || rounds < 1) {
    const problem = unknown === undefined
      ? `--rounds ${rounds}, wanted at least 1`
      : `unknown section ${unknown}, wanted some of ${Object.keys(SECTIONS).join(", ")}`;
    terminal.writeError(`compare: ${problem}\n`);
    return EXIT.usage;
  }

  const contestants = await allContestants(peers, cartographer, source);
  const lines: string[] = [];
  const show = (text: string) => {
    lines.push(text);
    terminal.write(text);
  };
  let code: number = EXIT.ok;
  show(headOf(contestants.map(({ name }) => name)));
  for (const name of names) {
    const figures = await measured(SECTIONS[name]!, contestants, rounds, (problem) => {
      terminal.writeError(`compare ${name}: ${problem}\n`);
      code = EXIT.failed;
    });
    for (const [figure, columns] of figures) show(lineOf(figure, columns));
  }
  if (readme) await writeReadme(lines.join(""));
  return code;
}

/** Puts a table into README.md, in the format of the tree. */
async function writeReadme(table: string): Promise<void> {
  await Deno.writeTextFile(README, withTable(await Deno.readTextFile(README), table));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", README] }).output();
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
