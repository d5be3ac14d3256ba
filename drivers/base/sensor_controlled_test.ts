import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { type Base, BaseApi, type BaseProperties } from "../../lib/api/actuators/base.ts";
import {
  BaseMovementSensor,
  MovementSensorApi,
  type MovementSensorProperties,
} from "../../lib/api/sensors/movement_sensor.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { geoPointAt } from "../../lib/geometry/geo.ts";
import { ORIGIN, type Vec3 } from "../../lib/geometry/pose.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock, passing } from "../../tests/support/fake_clock.ts";
import { SensorControlledBase } from "./sensor_controlled.ts";
import { PidController } from "./velocity_control.ts";

const NONE = ORIGIN;
const GAINS: JsonObject[] = [
  { type: "linear_velocity", p: 200, i: 400, d: 0 },
  { type: "angular_velocity", p: 1, i: 4, d: 0 },
];

/** A heavy base: power pushes it towards 1 m/s and 90 degrees/s, and it drifts to the left. */
class HeavyBase extends BaseComponent implements Base {
  speed = 0;
  turn = 0;
  yawDeg = 0;
  eastM = 0;
  northM = 0;
  power = { linear: 0, angular: 0 };
  stops = 0;
  commands: string[] = [];
  #atMs: number;

  constructor(private readonly clock: Clock, private readonly driftDegPerSec = 5) {
    super(ResourceName.of(BaseApi.name, "heavy"));
    this.#atMs = clock.monotonicMs();
  }

  update(): void {
    const nowMs = this.clock.monotonicMs();
    for (; this.#atMs < nowMs; this.#atMs++) {
      this.speed += (this.power.linear - this.speed) / 200;
      const drift = this.driftDegPerSec * this.speed;
      this.turn += (this.power.angular * 90 + drift - this.turn) / 200;
      this.yawDeg += this.turn / 1000;
      this.eastM -= this.speed * Math.sin(this.yawDeg * Math.PI / 180) / 1000;
      this.northM += this.speed * Math.cos(this.yawDeg * Math.PI / 180) / 1000;
    }
  }

  setPower(linear: Vec3, angular: Vec3): Promise<void> {
    this.update();
    // As a base with wheels does, whose sides are exchanged when it drives backwards.
    this.power = { linear: linear.y, angular: linear.y < 0 ? -angular.z : angular.z };
    return Promise.resolve();
  }

  moveStraight(distanceMm: number): Promise<void> {
    this.commands.push(`straight ${distanceMm}`);
    return Promise.resolve();
  }

  spin(angleDeg: number): Promise<void> {
    this.commands.push(`spin ${angleDeg}`);
    return Promise.resolve();
  }

  setVelocity(linear: Vec3, angular: Vec3): Promise<void> {
    this.commands.push(`velocity ${linear.y} ${angular.z.toFixed(0)}`);
    return this.setPower({ ...NONE, y: linear.y / 1000 }, { ...NONE, z: angular.z / 90 });
  }

  getProperties(): Promise<BaseProperties> {
    return Promise.resolve({ widthMeters: 0.4, turningRadiusMeters: 0, wheelCircumferenceMeters: 0.3 });
  }

  stop(): Promise<void> {
    this.stops++;
    return this.setPower(NONE, NONE);
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(this.power.linear !== 0 || this.power.angular !== 0);
  }
}

class Watcher extends BaseMovementSensor {
  failing = false;
  hanging = false;
  /** Before it answers or fails. */
  delay = () => Promise.resolve();

  constructor(private readonly base: HeavyBase, name: string, properties: Partial<MovementSensorProperties>) {
    super(ResourceName.of(MovementSensorApi.name, name), properties);
  }

  override getLinearVelocity(): Promise<Vec3> {
    return this.#now(({ speed }) => ({ ...NONE, y: speed }));
  }

  override getAngularVelocity(): Promise<Vec3> {
    return this.#now(({ turn }) => ({ ...NONE, z: turn }));
  }

  override getOrientation() {
    return this.#now(({ yawDeg }) => ({ oX: 0, oY: 0, oZ: 1, theta: yawDeg }));
  }

  override getCompassHeading(): Promise<number> {
    return this.#now(({ yawDeg }) => ((360 - yawDeg) % 360 + 360) % 360);
  }

  override getPosition() {
    const place = ({ eastM, northM }: HeavyBase) => geoPointAt({ eastM, northM });
    return this.#now((base) => ({ coordinate: place(base), altitudeM: 0 }));
  }

  async #now<T>(read: (base: HeavyBase) => T): Promise<T> {
    await this.delay();
    if (this.hanging) await new Promise(() => {});
    if (this.failing) throw new SvcError("unavailable", "the sensor is gone");
    this.base.update();
    return read(this.base);
  }
}

const VELOCITIES = { linearVelocitySupported: true, angularVelocitySupported: true };
const HEADING = { orientationSupported: true };
const POSITION = { positionSupported: true };

async function bench(
  control: JsonObject[] = GAINS,
  properties: Partial<MovementSensorProperties>[] = [VELOCITIES, HEADING, POSITION],
  hz = 20,
) {
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const base = new HeavyBase(clock);
  const sensors = properties.map((one, index) => new Watcher(base, `s${index}`, one));
  const attributes = {
    base: "heavy",
    movement_sensor: sensors.map(({ name }) => name.short),
    control_parameters: control,
    control_frequency_hz: hz,
  };
  const controlled = await construct(SensorControlledBase, attributes, {
    dependencies: [base, ...sensors],
    clock,
    logged,
  });
  return { clock, base, sensors, controlled, logged };
}

Deno.test("PidController: it is proportional, integrates within full power, and differentiates", () => {
  assertAlmostEquals(new PidController({ p: 25.5, i: 0, d: 0 }).power(2, 0.1), 0.2, 1e-9);
  const integral = new PidController({ p: 0, i: 255, d: 0 });
  assertAlmostEquals(integral.power(0.5, 0.1), 0.05, 1e-9);
  assertAlmostEquals(integral.power(0.5, 0.1), 0.1, 1e-9);
  assertEquals([integral.power(1e9, 1), integral.power(0, 1)], [1, 1]);
  assert(integral.power(-2, 1) < 1, "the integral comes back from its limit at once");
  const slope = new PidController({ p: 0, i: 0, d: 25.5 });
  assertEquals(slope.power(1, 0.1), 0);
  assertAlmostEquals(slope.power(2, 1), 0.1, 1e-9);
  slope.reset();
  assertEquals(slope.power(5, 0.1), 0);
});

Deno.test("sensor-controlled: SetVelocity holds the velocity until another command", async () => {
  const { clock, base, controlled } = await bench();
  await controlled.setVelocity({ ...NONE, y: 300 }, { ...NONE, z: 20 });
  await clock.advance(5000);
  base.update();
  assertAlmostEquals(base.speed, 0.3, 0.01);
  assertAlmostEquals(base.turn, 20, 0.5);
  await controlled.setVelocity({ ...NONE, y: -300 }, NONE);
  await clock.advance(5000);
  base.update();
  assertAlmostEquals(base.speed, -0.3, 0.01);
  assertAlmostEquals(base.turn, 0, 0.5);
  assertEquals(await controlled.isMoving(), true);
  await controlled.setPower({ ...NONE, y: 0.7 }, NONE);
  await clock.advance(500);
  assertEquals(base.power.linear, 0.7);
  await controlled.stop();
  assertEquals([await controlled.isMoving(), clock.pending], [false, 0]);
  await controlled.close();
});

Deno.test("sensor-controlled: MoveStraight ends at the distance and keeps the heading, with each kind of sensor", async () => {
  for (
    const properties of [
      [VELOCITIES, HEADING, POSITION],
      [{ ...VELOCITIES, compassHeadingSupported: true }],
      [{ ...VELOCITIES, ...HEADING }],
    ]
  ) {
    for (const [distance, speed] of [[1000, 200], [-1000, 200], [600, -300]]) {
      const { clock, base, controlled } = await bench(GAINS, properties);
      await passing(clock, 30_000, controlled.moveStraight(distance, speed));
      base.update();
      const direction = Math.sign(distance * speed);
      assertAlmostEquals(base.northM * 1000, direction * Math.abs(distance), 40);
      assertAlmostEquals(base.yawDeg, 0, 3);
      assertEquals(await controlled.isMoving(), false);
      await controlled.close();
    }
  }
});

Deno.test("sensor-controlled: Spin ends at the angle, also beyond a full turn and without control parameters", async () => {
  for (const control of [GAINS, []]) {
    for (const [angle, speed] of [[90, 30], [-90, 30], [45, -30], [400, 60], [3, 10]]) {
      const { clock, base, controlled } = await bench(control);
      await passing(clock, 60_000, controlled.spin(angle, speed));
      base.update();
      assertAlmostEquals(base.yawDeg, Math.sign(speed) * angle, 4, `${angle} at ${speed}`);
      assertEquals(await controlled.isMoving(), false);
      await controlled.close();
    }
  }
});

Deno.test("sensor-controlled: Spin goes by the angular velocity if there is no heading", async () => {
  const { clock, base, controlled } = await bench(GAINS, [VELOCITIES]);
  await passing(clock, 60_000, controlled.spin(-90, 30));
  base.update();
  assertAlmostEquals(base.yawDeg, -90, 5);
  await controlled.close();
});

Deno.test("sensor-controlled: without control parameters or a heading the base moves by itself", async () => {
  const { base, controlled } = await bench([], [VELOCITIES]);
  await controlled.moveStraight(500, 100);
  await controlled.spin(90, 30);
  await controlled.setVelocity({ ...NONE, y: 100 }, { ...NONE, z: 5 });
  assertEquals(base.commands, ["straight 500", "spin 90", "velocity 100 5"]);
  await controlled.close();
});

Deno.test("sensor-controlled: the base stops if the sensor is gone, and when the caller goes", async () => {
  const { clock, base, sensors, controlled, logged } = await bench();
  await controlled.setVelocity({ ...NONE, y: 300 }, NONE);
  await clock.advance(1000);
  sensors[0].failing = true;
  await clock.advance(1000);
  assertEquals([base.power.linear, clock.pending], [0, 0]);
  assert(logged.some(({ message }) => message.includes("the sensor is gone")));
  sensors[0].failing = false;
  await controlled.setVelocity({ ...NONE, y: 300 }, NONE);
  const turn = base.turn;
  base.turn = NaN;
  await clock.advance(1000);
  assertEquals([base.power.linear, clock.pending], [0, 0]);
  Object.assign(base, { turn, yawDeg: 0, eastM: 0, northM: 0 });
  const caller = new AbortController();
  const moving = controlled.moveStraight(100_000, 100, { signal: caller.signal });
  const rejected = assertRejects(() => moving, Error, "left");
  await clock.advance(1000);
  caller.abort(new Error("left"));
  await rejected;
  assertEquals(base.power.linear, 0);
  await controlled.close();
});

for (
  const [hz, delayMs, stopsMs] of [[20, 0, 1_000], [1_000, 0, 1_000], [2, 0, 1_500], [1, 0, 3_000], [
    20,
    400,
    1_500,
  ]] as const
) {
  Deno.test(`sensor-controlled: at ${hz} Hz a sensor that fails after ${delayMs} ms stops the base within ${stopsMs} ms`, async () => {
    const { clock, base, sensors, controlled } = await bench(GAINS, [VELOCITIES, HEADING], hz);
    await controlled.setVelocity({ ...NONE, y: 300 }, NONE);
    await clock.advance(3_000);
    assert(base.power.linear !== 0);

    sensors[0].failing = true;
    sensors[0].delay = () => clock.sleep(delayMs);
    await clock.advance(stopsMs);
    assertEquals([base.power.linear, clock.pending], [0, 0]);

    // A failure now and then is none of these.
    await controlled.setVelocity({ ...NONE, y: 300 }, NONE);
    sensors[0].delay = () => Promise.resolve();
    for (let step = 0; step < 20; step++) {
      sensors[0].failing = step % 2 === 0;
      await clock.advance(1_000 / hz);
    }
    assert(clock.pending > 0, "it goes on");
    await controlled.close();
  });
}

Deno.test("sensor-controlled: the base stops within a second when a sensor hangs, and obeys the next command", async () => {
  for (const which of [0, 1, 2]) {
    const { clock, base, sensors, controlled } = await bench();
    const moving = controlled.moveStraight(100_000, 300);
    const rejected = assertRejects(() => moving, SvcError, `s${which} gave no reading within 1 s`);
    await clock.advance(1000);
    sensors[which].hanging = true;
    await clock.advance(1200);
    await rejected;
    assertEquals([base.power.linear, clock.pending], [0, 0]);
    sensors[which].hanging = false;
    await passing(clock, 20_000, controlled.moveStraight(100, 100));
    await controlled.close();
  }
});

Deno.test("sensor-controlled: SetVelocity ends when its sensor hangs, and Stop does not wait for the sensor", async () => {
  const { clock, base, sensors, controlled, logged } = await bench();
  await controlled.setVelocity({ ...NONE, y: 300 }, NONE);
  await clock.advance(1000);
  sensors[0].hanging = true;
  await clock.advance(1200);
  assertEquals([base.power.linear, clock.pending], [0, 0]);
  assert(
    logged.some(({ message }) => message.includes("which stops") && message.includes("gave no reading")),
  );

  await controlled.setVelocity({ ...NONE, y: 300 }, NONE);
  await clock.advance(100);
  await controlled.stop();
  assertEquals([base.power.linear, clock.pending], [0, 0]);
  await controlled.close();
});

Deno.test("sensor-controlled: a movement that cannot end gives up with a warning", async () => {
  const { clock, base, controlled, logged } = await bench();
  base.update = () => {};
  await passing(clock, 20_000, controlled.moveStraight(100, 100));
  assert(logged.some(({ message }) => message.includes("MoveStraight takes too long")));
  assertEquals(base.power.linear, 0);
  await controlled.close();
});

Deno.test("sensor-controlled: gains of 0 are measured; the measured gains hold a velocity", async () => {
  const untuned: JsonObject[] = [{ type: "linear_velocity" }, { type: "angular_velocity", p: 0, i: 0, d: 0 }];
  const { clock, controlled } = await bench(untuned);
  await clock.advance(100);
  await assertRejects(() => controlled.spin(10, 10), SvcError, "are being measured");
  await clock.advance(25_000);
  const { get_tuned_pid: messages } = await controlled.doCommand({ get_tuned_pid: true });
  const found = [...`${messages}`.matchAll(/p: ([\d.]+), i: ([\d.]+), d: ([\d.]+), type: (\w+)/g)];
  assertEquals(found.map(([, , , , type]) => type), ["linear_velocity", "angular_velocity"]);
  // With full power the base reaches 1 m/s and 90 degrees a second; a swing does not quite reach its ends.
  for (const [index, fullSpeed] of [1, 90].entries()) {
    const least = 0.4545 * 4 * 255 / (Math.PI * fullSpeed), p = Number(found[index][1]);
    assert(p >= least && p <= 2 * least, `${p}`);
  }
  await assertRejects(
    () => controlled.setVelocity(NONE, NONE),
    SvcError,
    "write them into control_parameters",
  );
  await controlled.close();

  const gains = found.map(([, p, i, d, type]) => ({ type, p: Number(p), i: Number(i), d: Number(d) }));
  const tuned = await bench(gains);
  await tuned.controlled.setVelocity({ ...NONE, y: 300 }, { ...NONE, z: 10 });
  await tuned.clock.advance(8000);
  tuned.base.update();
  assertAlmostEquals(tuned.base.speed, 0.3, 0.05);
  assertAlmostEquals(tuned.base.turn, 10, 2);
  await tuned.controlled.close();
});

Deno.test("sensor-controlled: Stop ends the measurement of the gains", async () => {
  const { clock, base, controlled } = await bench([{ type: "linear_velocity" }]);
  await clock.advance(300);
  assert(base.power.linear > 0);
  await controlled.stop();
  assertEquals(base.power.linear, 0);
  await clock.advance(1000);
  await assertRejects(() => controlled.moveStraight(10, 10), SvcError, "was stopped");
  assertEquals(clock.pending, 0);
  await controlled.close();
});

Deno.test("sensor-controlled: impossible attributes and unsuitable sensors, each with its reason", async () => {
  const attributes = { base: "b", movement_sensor: ["m", "n"] };
  assertEquals(namedBy(SensorControlledBase, attributes), ["b", "m", "n"]);
  assertEquals(problemsOf(SensorControlledBase, { ...attributes, movement_sensor: [] }), [
    "movement_sensor: found an empty array, wanted at least one movement sensor",
  ]);
  assertEquals(
    problemsOf(SensorControlledBase, { ...attributes, control_parameters: [{ type: "speed" }] }).length,
    1,
  );
  await assertRejects(() => bench(GAINS, [POSITION]), SvcError, "no suitable movement sensor");
});
