/**
 * A base without hardware. Every movement ends at once, as published. With `building`, the base drives in a simulated
 * building instead, where movements take time, wheels slip and walls stop the base.
 */

import { type Base, BaseApi, type BaseProperties } from "../../lib/api/actuators/base.ts";
import { choice, integer, number, object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

const WIDTH_METERS = 0.6;
const PEOPLE_MAX = 20;

/** By an address worked out as it runs: machines without a simulated building do not read it. */
const SIMULATED = new URL("./simulated.ts", import.meta.url).href;

const attributes = object({
  building: choice("a simulated building to drive in; absent means none", ["office", "hall"]),
  people: integer("people who walk in the building", { min: 0, max: PEOPLE_MAX }).default(2),
  startXM: number(
    "where the base begins, in metres to the east of the building's middle; absent means a free place",
  ),
  startYM: number("the same to the north"),
  startYawDegs: number("direction of the base, counter-clockwise from the east").default(0),
  wheelSlip: number("the greatest share of a movement that the wheels lose", { min: 0, max: 0.5 })
    .default(0.05),
  seed: integer("another seed gives other slips", { min: 0 }).default(1),
}).required();

export const FakeBase = model({
  api: BaseApi,
  name: "rdk:builtin:fake",
  doc: "A base without hardware: finishes each movement at once, or drives in a simulated building.",
  attributes,
  construct: async ({ name, attributes: { building, ...settings }, clock }): Promise<Base> => {
    if (building === undefined) return new Fake(name);
    const { SimulatedBase }: typeof import("./simulated.ts") = await import(SIMULATED);
    return new SimulatedBase(name, { building, ...settings }, clock);
  },
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
