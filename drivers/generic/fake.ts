/** A generic component without hardware: answers every command with itself. */

import { GenericApi } from "../../lib/api/actuators/generic.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export const FakeGeneric = model({
  api: GenericApi,
  name: "rdk:builtin:fake",
  doc: "A generic component without hardware: answers every command with itself.",
  attributes: object({}),
  construct: ({ name }) => new Fake(name),
});

class Fake extends BaseComponent {
  override doCommand(command: JsonObject): Promise<JsonObject> {
    return Promise.resolve(command);
  }
}
