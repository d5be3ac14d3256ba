import { GenericApi } from "../../lib/api/actuators/generic.ts";
import { anyObject } from "../../lib/base/schema/schema.ts";
import { model, Registry } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

/** A registry with one generic model, `part`, that takes any attributes and does nothing. */
export function partsRegistry(): Registry {
  return new Registry([GenericApi], [
    model({
      api: GenericApi,
      name: "rdk:builtin:part",
      doc: "a part",
      attributes: anyObject().default({}),
      construct: ({ name }) => new class extends BaseComponent {}(name),
    }),
  ]);
}
