/**
 * The check of configurations by the rules of the machine, its agent and its triggers.
 */

import { settingsProblems, settingsSchema } from "../../../lib/agent/settings/settings.ts";
import { APIS } from "../../../lib/api/mod.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/base/schema/schema.ts";
import type { Validate } from "../../../lib/cloud/config/config_jobs.ts";
import { triggersIn } from "../../../lib/cloud/triggers/settings.ts";
import { decodeConfig, machineSchema } from "../../../lib/machine/config/config.ts";
import { Registry } from "../../../lib/resource/registry.ts";
import { MODELS } from "../../../drivers/mod.ts";

/** Their environment is unknown here. */
export function validator(): Validate {
  const registry = new Registry(APIS, MODELS);
  return async (json) => [
    ...(await decodeConfig(json, registry, { env: () => "" })).problems,
    ...settingsProblems(isObject(json) ? json.agent : undefined),
    ...triggersIn(isObject(json) ? json.triggers as Json : undefined).problems,
  ];
}

/** The JSON Schema of a configuration, with the settings of the agent, for editors and forms. */
export async function machinesSchema(): Promise<JsonObject> {
  const schema = await machineSchema(new Registry(APIS, MODELS));
  const properties = { ...schema.properties as JsonObject, agent: settingsSchema() };
  return { ...schema, properties };
}
