/** Configurations of machines with another runtime: for these, the checks of svc-server are only advice. */

import type { Problem } from "../../base/schema/schema.ts";
import { MICROCONTROLLER_MODELS } from "../../resource/elsewhere.ts";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";

/** Whether a configuration with its fragments is for the published microcontroller runtime. */
export function isForMicrocontroller(config: JsonObject): boolean {
  const { components = [], services = [] } = config;
  return [components, services].flat().some((entry: Json) => {
    const model = isObject(entry) ? entry.model : undefined;
    return typeof model === "string" && MICROCONTROLLER_MODELS.includes(model.replace(/^rdk:builtin:/, ""));
  });
}

/** The same problems as warnings, which do not prevent saving. */
export function asWarnings(problems: readonly Problem[]): Problem[] {
  return problems.map((problem) => ({ ...problem, severity: "warning" }));
}
