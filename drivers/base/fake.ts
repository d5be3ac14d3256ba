/**
 * A base without hardware: every movement is over at once.
 */

import { type Base, BaseApi, type BaseProperties } from "../../lib/api/base.ts";
import { object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

const WIDTH_METERS = 0.6;

export const FakeBase = model({
  api: BaseApi,
  name: "rdk:builtin:fake",
  doc: "A base without hardware: finishes each movement at once.",
  attributes: object({}).required(),
  construct: ({ name }) => new Fake(name),
});

class Fake extends BaseComponent implements Base {
  moveStraight(): Promise<void> {
    return Promise.resolve();
  }

  spin(): Promise<void> {
    return Promise.resolve();
  }

  setPower(): Promise<void> {
    return Promise.resolve();
  }

  setVelocity(): Promise<void> {
    return Promise.resolve();
  }

  getProperties(): Promise<BaseProperties> {
    return Promise.resolve({
      widthMeters: WIDTH_METERS,
      turningRadiusMeters: 0,
      wheelCircumferenceMeters: 0,
    });
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(false);
  }
}
