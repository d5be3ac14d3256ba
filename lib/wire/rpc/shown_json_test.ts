import { assertEquals } from "@std/assert";
import { GetReadingsResponseSchema } from "../../../proto/gen/common_pb.ts";
import { DoCommandRequestSchema, GeoPointSchema } from "../../../proto/gen/common_pb.ts";
import { create, ValueSchema } from "./proto.ts";
import { shownJson } from "./shown_json.ts";

Deno.test("numbers that JSON lacks become texts wherever a message has them", () => {
  const number = (value: number) => create(ValueSchema, { kind: { case: "numberValue", value } });
  const readings = create(GetReadingsResponseSchema, {
    readings: {
      heading: number(NaN),
      speed: number(1.5),
      list: create(ValueSchema, { kind: { case: "listValue", value: { values: [number(Infinity)] } } }),
      inner: create(ValueSchema, {
        kind: { case: "structValue", value: { fields: { low: number(-Infinity) } } },
      }),
    },
  });
  assertEquals(shownJson(GetReadingsResponseSchema, readings), {
    readings: {
      heading: "NaN",
      speed: 1.5,
      list: ["Infinity"],
      inner: { low: "-Infinity" },
    },
  });
  assertEquals(Number.isNaN((readings.readings.heading.kind as { value: number }).value), true);

  const command = create(DoCommandRequestSchema, {
    name: "s",
    command: { gain: NaN, all: [2, { low: -Infinity }] },
  });
  assertEquals(shownJson(DoCommandRequestSchema, command), {
    name: "s",
    command: { gain: "NaN", all: [2, { low: "-Infinity" }] },
  });
  const point = create(GeoPointSchema, { latitude: NaN, longitude: 2 });
  assertEquals(shownJson(GeoPointSchema, point), { latitude: "NaN", longitude: 2 });
});
