/**
 * `check`: validates a configuration file without running it.
 */

import { chainOf, SvcError } from "../../../lib/base/error.ts";
import { escapedLine } from "../../../lib/base/escape.ts";
import { checkConfig, type CheckedProblem, problemLine } from "../../../lib/machine/config/check.ts";
import { readConfigBytes } from "../../../lib/machine/config/file.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../program.ts";
import { printResult } from "../../table.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import type { FirstContext } from "./first_context.ts";

/** Of a broken file; the rest is counted. */
const PROBLEMS_SHOWN = 500;

export const CHECK: Command<FirstContext> = {
  words: "check",
  takes: ["FILE..."],
  summary: "Checks configuration files without running them, and prints every problem with its line and " +
    "column; the exit code is 1 if there is an error. /dev/stdin reads standard input.",
  flags: [],
  run: async (context, files, { json }: { readonly json: boolean }) => {
    const reports = [];
    for (const file of files) reports.push(await checkFile(file, context));
    const isGood = reports.every(({ errors }) => errors === 0);
    printResult(context.host, json, { files: reports }, reports.flatMap(linesOf));
    return isGood ? EXIT.ok : EXIT.failed;
  },
};

interface Report {
  readonly file: string;
  readonly errors: number;
  readonly warnings: number;
  readonly managedBy?: string;
  readonly problems: readonly CheckedProblem[];
}

async function checkFile(file: string, { host, registry }: FirstContext): Promise<Report> {
  const { problems, config } = await checked(file, { host, registry });
  const errors = problems.filter(({ severity }) => severity === "error").length;
  const managedBy = config?.cloud?.appAddress;
  return { file, errors, warnings: problems.length - errors, managedBy, problems };
}

async function checked(file: string, { host, registry }: Pick<FirstContext, "host" | "registry">) {
  try {
    const bytes = await readConfigBytes(host, file);
    return await checkConfig(bytes, file, registry, (name) => host.env(name));
  } catch (error) {
    const message = chainOf(SvcError.from(error));
    return { problems: [{ severity: "error", path: "", message }] as const, config: undefined };
  }
}

function linesOf({ file, errors, warnings, managedBy, problems }: Report): string[] {
  const lines = problems.slice(0, PROBLEMS_SHOWN).map((one) => escapedLine(problemLine(one, file)));
  if (problems.length > PROBLEMS_SHOWN) lines.push(`${file}: and ${problems.length - PROBLEMS_SHOWN} more`);
  const found = [counted(errors, "error"), counted(warnings, "warning")].join(", ");
  lines.push(`${file}: ${errors + warnings === 0 ? "no problems" : found}`);
  if (managedBy !== undefined) {
    lines.push(`${file}: the machine gets its resources from ${managedBy}, which this check does not ask`);
  }
  return lines;
}
