/** A button without hardware: logs each push and counts them. */

import { type Button, ButtonApi } from "../../lib/api/actuators/button.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export const FakeButton = model({
  api: ButtonApi,
  name: "rdk:builtin:fake",
  doc: "A button without hardware: logs each push, and counts them in its status.",
  attributes: object({}),
  construct: ({ name, logger }) => new Fake(name, logger),
});

class Fake extends BaseComponent implements Button {
  #pushes = 0;

  constructor(name: ResourceName, private readonly logger: Logger) {
    super(name);
  }

  push(): Promise<void> {
    this.#pushes++;
    this.logger.info("pushed button");
    return Promise.resolve();
  }

  override getStatus(): Promise<JsonObject> {
    return Promise.resolve({ pushes: this.#pushes });
  }
}
