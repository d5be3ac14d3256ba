import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { ResourceName } from "../../resource/name.ts";
import { unsupported } from "../../resource/resource.ts";
import { collectReadings, type MovementSensor } from "./movement_sensor.ts";

/** A sensor with a heading and the given other methods. */
function sensor(more: Partial<MovementSensor> = {}): MovementSensor {
  const not = () => Promise.reject(unsupported(ResourceName.of("rdk:component:movement_sensor", "m"), "it"));
  const none = {
    getPosition: not,
    getLinearVelocity: not,
    getAngularVelocity: not,
    getLinearAcceleration: not,
    getOrientation: not,
  };
  return { ...none, getCompassHeading: () => Promise.resolve(0), ...more } as MovementSensor;
}

Deno.test("readingsOf: omits properties the movement sensor does not support", async () => {
  assertEquals(await collectReadings(sensor()), { compass: 0 });
  const moving = sensor({ getLinearVelocity: () => Promise.resolve({ x: 1, y: 2, z: 3 }) });
  assertEquals(await collectReadings(moving), {
    compass: 0,
    linear_velocity: { _type: "vector3", x: 1, y: 2, z: 3 },
  });
});

Deno.test("readingsOf: fails when a supported property fails", async () => {
  const broken = sensor({ getOrientation: () => Promise.reject(new SvcError("unavailable", "cable off")) });
  await assertRejects(() => collectReadings(broken), SvcError, "cable off");
});
