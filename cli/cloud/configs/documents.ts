/** Files with a JSON object, which commands read: comments are allowed, and remarks on the text go to standard error. */

import { SvcError } from "../../../lib/base/error.ts";
import { parseJsonc } from "../../../lib/base/schema/jsonc.ts";
import { isObject, type JsonObject, type Problem, show } from "../../../lib/base/schema/schema.ts";
import type { CloudCommandContext } from "../command_context.ts";

const CONFIGURATION = 'an object such as {"components": []}';

/** The object in a file. A key that is there twice is warned about: only the last one reaches anybody. */
export async function objectIn(
  context: CloudCommandContext,
  action: string,
  file: string,
  wanted = CONFIGURATION,
): Promise<JsonObject> {
  const problems: Problem[] = [];
  const json = parseJsonc(await context.host.readFile(file), { file, problems });
  tellWarnings(context, action, problems);
  if (isObject(json)) return json;
  throw new SvcError("invalid_argument", `${file}: found ${show(json)}, wanted ${wanted}`);
}

export function tellWarnings(
  { host }: CloudCommandContext,
  action: string,
  warnings: readonly Problem[],
): void {
  for (const { path, message } of warnings) {
    host.writeError(`svc-cloud ${action}: warning: ${path}: ${message}\n`);
  }
}
