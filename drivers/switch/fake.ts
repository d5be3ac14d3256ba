/** A switch without hardware: remembers its position. */

import { type Switch, SwitchApi } from "../../lib/api/actuators/switch.ts";
import { SvcError } from "../../lib/base/error.ts";
import { integer, list, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export const FakeSwitch = model({
  api: SwitchApi,
  name: "rdk:builtin:fake",
  doc: "A switch without hardware: remembers its position.",
  attributes: object({
    positionCount: integer("number of positions", { min: 1 }).default(2),
    labels: list(text(), "names of the positions; ignored unless their number equals position_count").default(
      [],
    ),
  }).required(),
  construct: ({ name, attributes: { positionCount, labels } }) =>
    new Fake(name, positionCount, labels.length === positionCount ? labels : []),
});

class Fake extends BaseComponent implements Switch {
  #position = 0;

  constructor(
    name: ResourceName,
    private readonly count: number,
    private readonly labels: readonly string[],
  ) {
    super(name);
  }

  setPosition(position: number): Promise<void> {
    return Promise.try(() => {
      if (!(position >= 0 && position < this.count)) {
        const found = `switch component ${this.name} position ${position} is invalid`;
        throw new SvcError("invalid_argument", `${found} (valid range: 0-${this.count - 1})`);
      }
      this.#position = position;
    });
  }

  getPosition(): Promise<number> {
    return Promise.resolve(this.#position);
  }

  getNumberOfPositions(): Promise<{ count: number; labels: readonly string[] }> {
    return Promise.resolve({ count: this.count, labels: this.labels });
  }
}
