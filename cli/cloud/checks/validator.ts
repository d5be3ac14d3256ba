/**
 * The check of configurations by the rules of the machine and its agent.
 */

import { settingsProblems } from "../../../lib/agent/settings/settings.ts";
import { APIS } from "../../../lib/api/mod.ts";
import { isObject } from "../../../lib/base/schema/schema.ts";
import type { Validate } from "../../../lib/cloud/context.ts";
import { decodeConfig } from "../../../lib/machine/config/config.ts";
import { Registry } from "../../../lib/resource/registry.ts";
import { MODELS } from "../../../drivers/mod.ts";

/** Their environment is unknown here. */
export function validator(): Validate {
  const registry = new Registry(APIS, MODELS);
  return (json) => [
    ...decodeConfig(json, registry, { env: () => "" }).problems,
    ...settingsProblems(isObject(json) ? json.agent : undefined),
  ];
}
