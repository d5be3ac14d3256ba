/** A generic service that does nothing: answers every command with itself. */

import { GenericServiceApi } from "../../lib/api/services/generic_service.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource } from "../../lib/resource/resource.ts";

export const FakeGenericService = model({
  api: GenericServiceApi,
  name: "rdk:builtin:fake",
  doc: "A generic service that does nothing: answers every command with itself.",
  attributes: object({}),
  construct: ({ name }) => new Fake(name),
});

class Fake extends BaseResource {
  override doCommand(command: JsonObject): Promise<JsonObject> {
    return Promise.resolve(command);
  }
}
