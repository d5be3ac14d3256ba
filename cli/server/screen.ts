/**
 * The screen at the start of a machine: what a person at the terminal needs, in 80 columns.
 *
 * Without a terminal, as in a service, only the log tells.
 */

import { escapedLine } from "../../lib/base/escape.ts";
import { wrap } from "../flags.ts";

const COLUMNS_MIN = 40;
/** Longer lines are hard to read, however wide the terminal is. */
const COLUMNS_MAX = 100;
const UNHEALTHY_SHOWN = 8;

interface ShownState {
  readonly name: string;
  readonly state: string;
  readonly error?: string;
}

export interface StartFacts {
  readonly version: string;
  readonly url: string;
  /** Whether the address has a page for browsers. */
  readonly hasPage: boolean;
  readonly resources: readonly ShownState[];
  readonly modules: readonly ShownState[];
  /** The file of the configuration. */
  readonly file: string;
  /** The control plane that has the configuration, if one has it. */
  readonly managedBy?: string;
}

/** The lines of the screen. */
export function startScreen(facts: StartFacts, columns: number): string[] {
  const width = Math.min(Math.max(columns, COLUMNS_MIN), COLUMNS_MAX);
  const { resources, modules, hasPage, url } = facts;
  const named = modules.map((module) => ({ ...module, name: `module ${module.name}` }));
  const bad = [...named, ...resources].filter(({ state }) => state === "unhealthy");
  const address = hasPage ? `${url} (open it in a browser: the machine's page)` : url;
  const rows: (readonly [string, string])[] = [
    ["address", address],
    ["resources", countsOf(resources)],
    ...bad.slice(0, UNHEALTHY_SHOWN).map(({ name, error = "it gives no reason" }, at) => {
      return [at === 0 ? "unhealthy" : "", `${name}: ${error}`] as const;
    }),
  ];
  if (bad.length > UNHEALTHY_SHOWN) rows.push(["", `and ${bad.length - UNHEALTHY_SHOWN} more`]);
  rows.push(...nextSteps(facts, bad.length > 0).map((step, at) => [at === 0 ? "next" : "", step] as const));
  const indent = 11;
  const lines = rows.flatMap(([name, text]) =>
    wrap(escapedLine(text), width - indent - 2).map((line, at) =>
      `  ${(at === 0 ? name : "").padEnd(indent)}${line}`
    )
  );
  return ["", `svc-server ${facts.version} is running`, "", ...lines, ""];
}

/** `5 ready, 1 unhealthy: arm1, motor1, …` */
function countsOf(resources: StartFacts["resources"]): string {
  if (resources.length === 0) return "none yet";
  const count = (wanted: string) => resources.filter(({ state }) => state === wanted).length;
  const states = [...new Set(resources.map(({ state }) => state))].sort();
  const counts = states.map((state) => `${count(state)} ${state}`).join(", ");
  return `${counts}: ${resources.map(({ name }) => name).sort().join(", ")}`;
}

function nextSteps({ resources, file, managedBy, url }: StartFacts, isBad: boolean): string[] {
  const where = /:8080$/.test(url) ? "" : ` --machine ${url}`;
  const change = managedBy === undefined
    ? `change ${file}: it applies when you save it`
    : `change the configuration at ${managedBy}: it applies here by itself`;
  let look = `svc-server call RESOURCE${where}, in another terminal: its methods`;
  if (isBad) look = `svc-server status${where}, once you have mended it`;
  else if (resources.length === 0) look = "svc-server init writes a first configuration";
  return [look, change, "Ctrl-C ends the machine"];
}
