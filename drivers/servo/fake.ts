/** A servo without hardware: reaches each angle at once. */

import { type Servo, ServoApi } from "../../lib/api/actuators/servo.ts";
import { object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export const FakeServo = model({
  api: ServoApi,
  name: "rdk:builtin:fake",
  doc: "A servo without hardware: reaches each angle at once.",
  attributes: object({}),
  construct: ({ name }) => new Fake(name),
});

class Fake extends BaseComponent implements Servo {
  #angleDeg = 0;

  move(angleDeg: number): Promise<void> {
    this.#angleDeg = angleDeg;
    return Promise.resolve();
  }

  getPosition(): Promise<number> {
    return Promise.resolve(this.#angleDeg);
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(false);
  }
}
