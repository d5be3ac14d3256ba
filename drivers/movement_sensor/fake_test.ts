import { assert, assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeMovementSensor } from "./fake.ts";

Deno.test("fake movement sensor: every quantity has its constant value", async () => {
  const sensor = await construct(FakeMovementSensor);
  assertEquals(await sensor.getPosition(), {
    coordinate: { latitude: 40.7, longitude: -73.98 },
    altitudeM: 50.5,
  });
  assertEquals(await sensor.getLinearVelocity(), { x: 0, y: 5.4, z: 0 });
  assertEquals(await sensor.getAngularVelocity(), { x: 0, y: 0, z: 1 });
  assertEquals(await sensor.getLinearAcceleration(), { x: 2.2, y: 4.5, z: 2 });
  assertEquals(await sensor.getCompassHeading(), 25);
  assertEquals(await sensor.getOrientation(), { oX: 0, oY: 0, oZ: 1, theta: 0 });
  assertEquals((await sensor.getAccuracy()).positionNmeaGgaFix, 4);
  assert(Object.values(await sensor.getProperties()).every((supported) => supported));
  assertEquals(await sensor.doCommand({ any: "thing" }), {});
});

Deno.test("fake movement sensor: readings have every quantity under its published name", async () => {
  const sensor = await construct(FakeMovementSensor);
  assertEquals(await sensor.getReadings(), {
    position: { _type: "geopoint", lat: 40.7, lng: -73.98 },
    altitude: 50.5,
    linear_velocity: { _type: "vector3", x: 0, y: 5.4, z: 0 },
    linear_acceleration: { _type: "vector3", x: 2.2, y: 4.5, z: 2 },
    angular_velocity: { _type: "angular_velocity", x: 0, y: 0, z: 1 },
    compass: 25,
    orientation: { _type: "orientation_vector_degrees", ox: 0, oy: 0, oz: 1, theta: 0 },
  });
});
