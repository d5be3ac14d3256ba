/**
 * The JSON Schema of the configuration file: what an editor needs to complete and check one.
 *
 * It comes from the same rows as the decoder, with the attributes of every model under the condition of its name.
 * Unknown keys pass, as they do when the file is read.
 */

import type { Json, JsonObject } from "../base/schema.ts";
import type { AnyModel, Registry } from "../resource/registry.ts";
import { machineRow } from "./config.ts";
import { resourceRow } from "./resource_config.ts";

/** JSON Schema (2020-12) of the whole file, with the attributes of every model of the registry. */
export function machineSchema(registry: Registry): JsonObject {
  const schema = machineRow.jsonSchema();
  const properties = schema.properties as JsonObject;
  for (const [section, kind] of [["components", "component"], ["services", "service"]]) {
    const models = registry.models.filter((model) => model.api.name.split(":")[1] === kind);
    properties[section] = { ...properties[section] as JsonObject, items: entrySchema(models) };
  }
  return { $schema: "https://json-schema.org/draft/2020-12/schema", title: "svc-server", ...schema };
}

function entrySchema(models: readonly AnyModel[]): JsonObject {
  const entry = resourceRow.jsonSchema();
  const apis = [...new Set(models.map((model) => model.api.name))];
  const properties: JsonObject = {
    ...entry.properties as JsonObject,
    api: { anyOf: [{ enum: apis }, { type: "string" }] },
  };
  const modelNames = apis.map((api): Json => {
    const names = models.filter((model) => model.api.name === api).flatMap(namesOf);
    const model: Json = { anyOf: [{ enum: names }, { type: ["string", "object"] }] };
    return { if: is({ api: { const: api } }), then: { properties: { model } } };
  });
  const attributes = models.map((model): Json => {
    const schema = model.attributes.jsonSchema();
    const needed: JsonObject = schema.required === undefined ? {} : { required: ["attributes"] };
    const condition = is({ api: { const: model.api.name }, model: { enum: namesOf(model) } });
    return { if: condition, then: { properties: { attributes: schema }, ...needed } };
  });
  return { ...entry, properties, allOf: [...modelNames, ...attributes] };
}

function is(properties: JsonObject): JsonObject {
  return { properties, required: Object.keys(properties) };
}

/** How a model may be written: a built-in one by its last word too. */
function namesOf({ name }: AnyModel): string[] {
  return name.startsWith("rdk:builtin:") ? [name.slice("rdk:builtin:".length), name] : [name];
}
