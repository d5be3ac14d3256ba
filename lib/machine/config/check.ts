/**
 * The check of a configuration without running it: every problem that svc-server would report about the file, and those
 * that it would find when it builds the machine, as far as the file alone shows them.
 *
 * Pure. It knows the models of this program; models of modules are left to the modules.
 */

import { messageOf } from "../../base/error.ts";
import { escapedBlanks } from "../../base/escape.ts";
import type { Problem } from "../../base/schema/schema.ts";
import { suggest } from "../../base/schema/suggest.ts";
import type { LineColumn } from "../../base/schema/text_places.ts";
import { resolveDependencies } from "../../resource/graph.ts";
import type { Registry } from "../../resource/registry.ts";
import { decodeConfig, type MachineConfig } from "./config.ts";
import { parseConfig, positionsIn } from "./file.ts";
import type { ResourceConfig } from "./resource_config.ts";

export interface CheckedProblem extends Problem, Partial<LineColumn> {}

export interface ConfigCheck {
  /** In the order of the file; problems without a place come first. */
  readonly problems: readonly CheckedProblem[];
  /** What the file describes; absent if it cannot be read as a configuration. */
  readonly config?: MachineConfig;
}

/** `file` is the name in messages. */
export async function checkConfig(
  bytes: Uint8Array,
  file: string,
  registry: Registry,
  env: (name: string) => string | undefined,
): Promise<ConfigCheck> {
  const problems: Problem[] = [];
  let json;
  try {
    json = parseConfig(bytes, { file, env, problems });
  } catch (error) {
    return { problems: [ofGrammar(messageOf(error), file)] };
  }

  const { config, problems: found } = await decodeConfig(json, registry, { env });
  const where = positionsIn(bytes, { file, env });
  const all = [...problems, ...found, ...unmet(config), ...sharedPins(config)];
  const placed = all.map((problem): CheckedProblem => ({
    ...{ ...problem, message: escapedBlanks(problem.message) },
    ...where(problem.path),
  }));
  return { problems: placed.sort((a, b) => lineOf(a) - lineOf(b) || columnOf(a) - columnOf(b)), config };
}

function lineOf({ line = 0 }: CheckedProblem): number {
  return line;
}

function columnOf({ column = 0 }: CheckedProblem): number {
  return column;
}

/** `<file>:<line>:<column>: <path>: <message>`, without the parts that a problem does not have. */
export function problemLine({ severity, path, message, line, column }: CheckedProblem, file: string): string {
  const place = line === undefined ? file : `${file}:${line}:${column}`;
  return [place, ...(path === "" ? [] : [path]), `${severity}: ${message}`].join(": ");
}

/** The parser's error, whose message begins with the file and the place. */
function ofGrammar(message: string, file: string): CheckedProblem {
  const rest = message.startsWith(file) ? message.slice(file.length) : message;
  const [begun, line, column] = /^:(\d+):(\d+): /.exec(rest) ?? /^: /.exec(rest) ?? [""];
  const place = line === undefined ? {} : { line: Number(line), column: Number(column) };
  return { severity: "error", path: "", message: rest.slice(begun.length), ...place };
}

/** Dependencies that no resource of the file meets, and cycles of dependencies. */
function unmet({ resources, remotes, modules }: MachineConfig): Problem[] {
  // A remote brings resources that the file does not name.
  const severity = remotes.length > 0 ? "warning" : "error";
  const problems: Problem[] = [];
  const names = resources.map(({ name }) => name.short);
  const known = (name: string) => resources.some((one) => one.name.short === name || one.name.full === name);
  for (const resource of resources) {
    for (const { name, path } of needsOf(resource)) {
      if (known(name)) continue;
      const near = suggest(name.slice(name.lastIndexOf("/") + 1), names);
      const hint = near ? `; did you mean "${near}"?` : "";
      const message = `no resource of this file is called "${name}"${hint}`;
      problems.push({ severity, path, message });
    }
  }

  const needs = new Map(resources.map((resource) => [resource.name.full, {
    needs: needsOf(resource).filter(({ name }) => known(name)),
  }]));
  const { blocked } = resolveDependencies(needs);
  for (const { name, path } of resources) {
    const reason = blocked.get(name.full);
    if (reason !== undefined) problems.push({ severity: "error", path, message: reason });
  }

  if (modules.length > 0) problems.push(...ofModules(resources));
  return problems;
}

function needsOf({ dependsOn, implicit, path }: ResourceConfig) {
  const explicit = dependsOn.map((name, index) => ({
    name,
    optional: false,
    path: `${path}.depends_on.${index}`,
  }));
  return [...explicit, ...implicit.filter(({ optional }) => !optional)];
}

/** Decoding reports an unknown model only in a file without modules. */
function ofModules(resources: readonly ResourceConfig[]): Problem[] {
  return resources.flatMap(({ path, model, modelProblem }): Problem[] => {
    if (modelProblem === undefined) return [];
    const message = model.startsWith("rdk:builtin:")
      ? modelProblem
      : `${model} is left to the modules of this file, which this check does not start`;
    const severity = model.startsWith("rdk:builtin:") ? "error" : "warning";
    return [{ severity, path: `${path}.model`, message }];
  });
}

/** Two components on one pin of one board are likely a mistake. */
function sharedPins({ resources }: MachineConfig): Problem[] {
  const users = new Map<string, string>();
  const problems: Problem[] = [];
  for (const { name, path, attributes } of resources) {
    const { board, pins } = attributes;
    if (typeof board !== "string" || typeof pins !== "object" || pins === null || Array.isArray(pins)) {
      continue;
    }
    for (const [key, pin] of Object.entries(pins)) {
      if (typeof pin !== "string" || pin === "") continue;
      const used = `${board}\n${pin}`;
      const earlier = users.get(used);
      const own = `${name.short} (${key})`;
      if (earlier !== undefined) {
        const message = `pin "${pin}" of ${board} is also ${earlier}`;
        problems.push({ severity: "warning", path: `${path}.attributes.pins.${key}`, message });
      } else users.set(used, own);
    }
  }

  return problems;
}
