/** A discovery service without devices: always finds a fake movement sensor and a fake camera. */

import { type Discovered, type Discovery, DiscoveryApi } from "../../lib/api/services/discovery.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource } from "../../lib/resource/resource.ts";

const FOUND: readonly Discovered[] = [
  { name: "fake1", api: "rdk:component:movement_sensor", model: "rdk:builtin:fake", attributes: {} },
  { name: "fake2", api: "rdk:component:camera", model: "rdk:builtin:fake", attributes: {} },
];

export const FakeDiscovery = model({
  api: DiscoveryApi,
  name: "rdk:builtin:fake",
  doc: "A discovery service without devices: always finds a fake movement sensor and a fake camera.",
  attributes: object({}),
  construct: ({ name }) => new Fake(name),
});

class Fake extends BaseResource implements Discovery {
  discoverResources(): Promise<readonly Discovered[]> {
    return Promise.resolve(FOUND);
  }

  override doCommand(command: JsonObject): Promise<JsonObject> {
    return Promise.resolve(command);
  }
}
