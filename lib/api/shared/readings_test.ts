import { assertEquals } from "@std/assert";
import { GetReadingsResponseSchema } from "../../../proto/gen/common_pb.ts";
import { create, fromBinary, toBinary } from "../../wire/rpc/proto.ts";
import {
  angularVelocityReading,
  fromReadingsMessage,
  geoPointReading,
  orientationReading,
  type Readings,
  toReadingsMessage,
  vectorReading,
} from "./readings.ts";

function travelled(readings: Readings): Readings {
  const message = create(GetReadingsResponseSchema, toReadingsMessage(readings));
  const bytes = toBinary(GetReadingsResponseSchema, message);
  return fromReadingsMessage(fromBinary(GetReadingsResponseSchema, bytes));
}

Deno.test("readings: every kind of JSON value survives the message", () => {
  const readings = {
    nothing: null,
    flag: false,
    number: -1.25,
    text: "",
    list: [1, "a", [], {}, null],
    nested: { deep: { deeper: [true] } },
  };
  assertEquals(travelled(readings), readings);
  assertEquals(travelled({}), {});
});

Deno.test("readings: NaN and infinities survive the message", () => {
  assertEquals(travelled({ nan: NaN, far: [Infinity, -Infinity] }), { nan: NaN, far: [Infinity, -Infinity] });
});

Deno.test("readings: a value without a kind is null", () => {
  assertEquals(fromReadingsMessage(create(GetReadingsResponseSchema, { readings: { none: {} } })), {
    none: null,
  });
});

Deno.test("readings: vectors, points and orientations carry their type", () => {
  assertEquals(vectorReading({ x: 1, y: 2, z: 3 }), { _type: "vector3", x: 1, y: 2, z: 3 });
  assertEquals(angularVelocityReading({ x: 1, y: 2, z: 3 }), { _type: "angular_velocity", x: 1, y: 2, z: 3 });
  assertEquals(geoPointReading({ latitude: 40.7, longitude: -73.98 }), {
    _type: "geopoint",
    lat: 40.7,
    lng: -73.98,
  });
  assertEquals(orientationReading({ oX: 0, oY: 0, oZ: 1, theta: 90 }), {
    _type: "orientation_vector_degrees",
    ox: 0,
    oy: 0,
    oz: 1,
    theta: 90,
  });
});
