import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Readings } from "../../api/shared/readings.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { ResourceName } from "../../resource/name.ts";
import type { Resource } from "../../resource/resource.ts";
import { decideMaintenance, maintenanceAllowed, type SensorFinding } from "./maintenance.ts";
import type { Node } from "./pass/node.ts";

const SENSOR = "rdk:component:sensor/door";
const MAINTENANCE = { sensorName: SENSOR, maintenanceAllowedKey: "safe" };

const readings = (readings: Readings): SensorFinding => ({ kind: "readings", readings });

const DECISIONS: [what: string, finding: SensorFinding, allowed: boolean, reason: string][] = [
  ["the sensor reports true", readings({ safe: true, more: 1 }), true, ""],
  ["the sensor reports false", readings({ safe: false }), false, `${SENSOR} says safe is false`],
  [
    "the readings lack the configured key",
    readings({ other: true }),
    false,
    'gives no "safe" among its readings, wanted true or false',
  ],
  ["the readings are empty", readings({}), false, 'no "safe" among its readings'],
  ["the sensor reports 1", readings({ safe: 1 }), false, 'gives 1 for "safe", wanted true or false'],
  ["the sensor reports a string", readings({ safe: "true" }), false, 'gives "true" for "safe"'],
  ["the sensor reports null", readings({ safe: null }), false, 'gives null for "safe"'],
  ["the sensor reports an object", readings({ safe: {} }), false, 'gives an object for "safe"'],
  ["the sensor cannot be read", { kind: "no answer", error: "no power" }, false, "cannot be read: no power"],
  [
    "the sensor is unhealthy",
    { kind: "unhealthy", error: "no power", full: SENSOR },
    false,
    "cannot be asked: no power",
  ],
  [
    "the sensor does not exist",
    { kind: "not there", error: "no node found" },
    true,
    "no sensor to ask: no node found",
  ],
  ["sensor_name is not a resource name", { kind: "not a name", error: "bad" }, true, "no sensor to ask: bad"],
];

for (const [what, finding, allowed, reason] of DECISIONS) {
  Deno.test(`maintenance is ${allowed ? "" : "not "}allowed when ${what}`, () => {
    const decision = decideMaintenance(MAINTENANCE, finding);
    assertEquals(decision.allowed, allowed);
    if (reason === "") assertEquals(decision.reason, undefined);
    else assertStringIncludes(decision.reason!, reason);
  });
}

Deno.test("a property that every object inherits is not a reading", () => {
  const { allowed } = decideMaintenance(
    { ...MAINTENANCE, maintenanceAllowedKey: "constructor" },
    readings({}),
  );
  assertEquals(allowed, false);
});

/** Asks a machine that has only this sensor, or has it and could not build it; without one, a machine that has none. */
async function ask(sensor?: unknown, config = MAINTENANCE, name = SENSOR) {
  const clock = new FakeClock();
  const nodes = sensor === BROKEN ? [{ name: ResourceName.parse(name) } as Node] : [];
  const machine = {
    nodes,
    find: (api: string, short: string) => {
      if (sensor === BROKEN) throw new SvcError("unknown", "it does not start");
      if (sensor && `${api}/${short}` === SENSOR) return sensor as Resource;
      throw new SvcError("unknown", `no node found with api ${api} and name ${short}`);
    },
  };
  const decision = maintenanceAllowed(config, machine, clock);
  await clock.advance(5_000);
  assertEquals(clock.pending, 0);
  return await decision;
}

const BROKEN = "a sensor that cannot be built";

const READERS: [what: string, sensor: unknown, allowed: boolean, reason: string][] = [
  ["gives readings", { getReadings: () => Promise.resolve({ safe: true }) }, true, ""],
  ["fails", { getReadings: () => Promise.reject(new Error("no power")) }, false, "cannot be read: no power"],
  [
    "throws",
    {
      getReadings: () => {
        throw new Error("a bug");
      },
    },
    false,
    "cannot be read: a bug",
  ],
  ["hangs", { getReadings: () => new Promise(() => {}) }, false, "cannot be read: no readings within 5 s"],
  ["has no readings", {}, true, `${SENSOR} has no readings`],
  ["cannot be built", BROKEN, false, "cannot be asked: it does not start"],
  ["is not there", undefined, true, "no node found with api rdk:component:sensor and name door"],
];

for (const [what, sensor, allowed, reason] of READERS) {
  Deno.test(`maintenance is ${allowed ? "" : "not "}allowed with a sensor that ${what}`, async () => {
    const decision = await ask(sensor);
    assertEquals(decision.allowed, allowed);
    assertStringIncludes(decision.reason ?? "", reason);
  });
}

Deno.test("maintenance is not allowed while the sensor's remote is away, however the setting names the sensor", async () => {
  const far = "rdk:component:sensor/shed:door";
  for (const sensorName of [far, SENSOR]) {
    const { allowed, mendable } = await ask(BROKEN, { ...MAINTENANCE, sensorName }, far);
    assertEquals({ allowed, mendable }, { allowed: false, mendable: far });
  }
});

Deno.test("maintenanceAllowed: an invalid sensor name, or no maintenance section, allows maintenance", async () => {
  for (const sensorName of ["door", "rdk:component:sensor", "", "rdk:component:sensor/"]) {
    const { allowed, reason } = await ask({}, { ...MAINTENANCE, sensorName });
    assertEquals(allowed, true);
    assertStringIncludes(reason!, "no sensor to ask");
  }
  const nobody = {
    nodes: [],
    find: () => {
      throw new Error("asked");
    },
  };
  assertEquals(await maintenanceAllowed(undefined, nobody, new FakeClock()), { allowed: true });
});
