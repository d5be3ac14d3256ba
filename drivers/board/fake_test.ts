import { assert, assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { Board, Tick } from "../../lib/api/actuators/board.ts";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DecodeContext, type JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeBoard } from "./fake.ts";

const ATTRIBUTES: JsonObject = {
  analogs: [{ name: "blue", pin: "0" }, { name: "red", pin: "1" }, { name: "still", pin: "1", still: true }],
  digital_interrupts: [{ name: "i1", pin: "35" }, { name: "i2", pin: "36" }],
};

const SIMULATED: JsonObject = {
  digital_interrupts: [{ name: "enc-a", pin: "11" }, { name: "enc-b", pin: "12" }, {
    name: "wire",
    pin: "13",
  }],
  simulated_motors: [
    {
      pins: { dir: "1", pwm: "2" },
      encoder: { a: "enc-a", b: "enc-b" },
      ticks_per_rotation: 60,
      max_rpm: 100,
    },
    { pins: { a: "3", b: "4" }, encoder: { i: "wire" }, ticks_per_rotation: 60, max_rpm: 100 },
  ],
};

function board(attributes: JsonObject = ATTRIBUTES, clock = new FakeClock()): Promise<Board> {
  return construct(FakeBoard, attributes, { clock });
}

/** Reads ticks until the stream ends. */
async function collect(ticks: AsyncIterable<Tick>, into: Tick[]): Promise<void> {
  for await (const tick of ticks) into.push(tick);
}

Deno.test("fake board: pins read back levels and PWM, and setGpio ends the PWM", async () => {
  const b = await board();
  assertEquals(await b.getGpio("7"), false);
  await b.setGpio("7", true);
  await b.setPwmFrequency("7", 4000);
  await b.setPwm("7", 0.43);
  assertEquals([await b.getGpio("7"), await b.getPwm("7"), await b.getPwmFrequency("7")], [true, 0.43, 4000]);
  await b.setGpio("7", false);
  assertEquals([await b.getGpio("7"), await b.getPwm("7"), await b.getPwmFrequency("7")], [false, 0, 0]);
  await b.close();
});

Deno.test("analogs count from 1 to 1000 and on from 0, on every pin; a still analog keeps the written value", async () => {
  const b = await board();
  assertEquals(await b.readAnalog("blue"), { value: 1, minRange: 0, maxRange: 1000, stepSize: 1 });
  await b.writeAnalog("blue", 999);
  assertEquals((await b.readAnalog("blue")).value, 1000);
  assertEquals((await b.readAnalog("blue")).value, 0);
  assertEquals([(await b.readAnalog("red")).value, (await b.readAnalog("red")).value], [1, 2]);
  assertEquals((await b.readAnalog("still")).value, 0);
  await b.writeAnalog("still", 42);
  assertEquals((await b.readAnalog("still")).value, 42);
  assertEquals((await b.readAnalog("still")).value, 42);
});

Deno.test("reading a pin keeps nothing, and only so many pins can be set", async () => {
  const b = await board({});
  for (let pin = 0; pin < 2000; pin++) assertEquals(await b.getGpio(`read ${pin}`), false);
  for (let pin = 0; pin < 1000; pin++) await b.setGpio(`${pin}`, true);
  await assertRejects(() => b.setPwm("one more", 1), SvcError, "1000 are set");
  await b.setPwm("999", 0.5);
  assertEquals([await b.getPwm("999"), await b.getGpio("one more")], [0.5, false]);
  await b.close();
});

Deno.test("fake board: each read of an interrupt's value counts up", async () => {
  const b = await board();
  assertEquals(await b.getDigitalInterruptValue("i1"), 1);
  assertEquals(await b.getDigitalInterruptValue("i1"), 2);
  assertEquals(await b.getDigitalInterruptValue("i2"), 1);
});

Deno.test("fake board: unknown analogs, interrupts and power modes are refused with the published errors", async () => {
  const b = await board();
  const lost = await assertRejects(() => b.readAnalog("x"), SvcError, "can't find AnalogReader (x)");
  assertEquals(lost.code, "unknown");
  await assertRejects(() => b.writeAnalog("x", 1), SvcError, "can't find AnalogReader (x)");
  await assertRejects(() => b.getDigitalInterruptValue("x"), SvcError, "cant find DigitalInterrupt (x)");
  await assertRejects(() => b.streamTicks(["i1", "x"]), SvcError, "cant find DigitalInterrupt (x)");
  await assertRejects(() => b.setPowerMode("normal"), SvcError, "SetPowerMode");
});

Deno.test("fake board: fail_new makes the construction fail with whoops", async () => {
  const error = await assertRejects(() => board({ fail_new: true }), SvcError, "whoops");
  assertEquals(error.code, "failed_precondition");
  await board({});
});

Deno.test("errors for bad attributes have their paths", () => {
  const problems = problemsOf(FakeBoard, {
    analogs: [{ pin: "3" }],
    digital_interrupts: [{ name: "a", pin: "1" }, { name: "b" }],
    simulated_motors: [
      { pins: { dir: "1", pwm: "2" }, encoder: { a: "a", b: "z" } },
      { pins: { pwm: "2" }, encoder: { i: "a" } },
      { pins: { a: "1", b: "2" }, encoder: { i: "a", b: "b" } },
      { pins: { a: "1", b: "2" }, encoder: { i: "a" }, ticks_per_rotation: 1e6, max_rpm: 1e4 },
    ],
  });
  for (
    const path of [
      "analogs.0.name",
      "digital_interrupts.1.pin",
      "simulated_motors.1.pins",
      "simulated_motors.2.encoder",
    ]
  ) {
    assert(problems.some((problem) => problem.startsWith(path)), `${path} in ${problems.join("\n")}`);
  }
  assert(problems.some((problem) => problem.includes("50000 at most")), problems.join("\n"));
  const unknown = problemsOf(FakeBoard, {
    digital_interrupts: [{ name: "a", pin: "1" }],
    simulated_motors: [{ pins: { dir: "1", pwm: "2" }, encoder: { a: "a", b: "z" } }],
  });
  assertEquals(unknown.length, 1);
  assert(unknown[0].startsWith("simulated_motors.0.encoder.b"), unknown[0]);
});

Deno.test("fake board: streamTicks sends a tick of each interrupt every 700 ms with rising times", async () => {
  const clock = new FakeClock(1_700_000_000_000);
  const b = await board(ATTRIBUTES, clock);
  const leave = new AbortController();
  const both: Tick[] = [], one: Tick[] = [];
  const reading = [
    collect(await b.streamTicks(["i1", "i2"], { signal: leave.signal }), both),
    collect(await b.streamTicks(["i2"]), one),
  ];
  await clock.advance(1400);
  assertEquals(both.map((tick) => tick.pinName), ["i1", "i2", "i1", "i2"]);
  assertEquals(both.map((tick) => tick.timeNs), [
    1_700_000_000_700_000_000n,
    1_700_000_000_700_000_000n,
    1_700_000_001_400_000_000n,
    1_700_000_001_400_000_000n,
  ]);
  assertEquals(one, both.filter((tick) => tick.pinName === "i2"));
  leave.abort();
  await reading[0];
  await clock.advance(700);
  assertEquals([both.length, one.length], [4, 3]);
  await b.close();
  await reading[1];
  assertEquals(clock.pending, 0);
});

Deno.test("fake board: the timer of ticks stops when the last listener leaves", async () => {
  const clock = new FakeClock();
  const b = await board(ATTRIBUTES, clock);
  const reading = (async () => {
    for await (const tick of await b.streamTicks(["i1"])) if (tick.pinName === "i1") break;
  })();
  await clock.advance(700);
  await reading;
  await clock.advance(700);
  assertEquals(clock.pending, 0);
  await b.close();
});

Deno.test("fake board: a listener that does not read gets 10,000 ticks, and learns that the rest is lost", async () => {
  const clock = new FakeClock();
  const b = await board({
    digital_interrupts: [{ name: "wire", pin: "1" }],
    simulated_motors: [{ pins: { dir: "1", pwm: "2" }, encoder: { i: "wire" }, ticks_per_rotation: 30_000 }],
  }, clock);
  const ticks = await b.streamTicks(["wire"]);
  await b.setGpio("1", true);
  await b.setPwm("2", 1);
  await clock.advance(300);
  await b.setPwm("2", 0);
  assertEquals(await b.getDigitalInterruptValue("wire"), 15_000);
  const read: Tick[] = [];
  const reading = collect(ticks, read);
  const error = await assertRejects(
    () => reading,
    SvcError,
    "more than 10000 ticks of wire waited to be read",
  );
  assertEquals([error.code, read.length], ["resource_exhausted", 10_000]);

  const again = collect(await b.streamTicks(["wire"]), read);
  await b.setPwm("2", 1);
  await clock.advance(100);
  assertEquals(read.length, 15_000, "it may listen again");
  await b.close();
  await again;
});

Deno.test("fake board: a simulated motor makes quadrature edges by its power and direction", async () => {
  const clock = new FakeClock();
  const b = await board(SIMULATED, clock);
  const edges: string[] = [];
  const reading = (async () => {
    for await (const { pinName, high } of await b.streamTicks(["enc-a", "enc-b"])) {
      edges.push(`${pinName} ${high}`);
    }
  })();
  await settle();
  await b.setGpio("1", true);
  await b.setPwm("2", 0.5);
  // 50 rpm at 60 ticks a rotation make 50 ticks, or 100 edges, a second.
  await clock.advance(40);
  await b.setPwm("2", 0);
  assertEquals(edges, ["enc-b true", "enc-a true", "enc-b false", "enc-a false"]);
  await b.setGpio("1", false);
  await b.setPwm("2", 1);
  await clock.advance(10);
  await b.setPwm("2", 0);
  await settle();
  assertEquals(edges.slice(4), ["enc-a true", "enc-b true"]);
  assertEquals(await b.getGpio("11"), true);
  assertEquals(clock.pending, 1, "a motor that stands needs no timer; the other is that of the listener");
  await b.close();
  await reading;
});

Deno.test("a simulated motor turns at full power at most, whatever the duty cycle of its pin is", async () => {
  const clock = new FakeClock();
  const b = await board(SIMULATED, clock);
  for (const [dutyCycle, edges] of [[NaN, 0], [-1, 0], [1e308, 20], [Infinity, 20], [1, 20]]) {
    const before = await b.getDigitalInterruptValue("enc-a") + await b.getDigitalInterruptValue("enc-b");
    await b.setPwm("2", dutyCycle);
    await clock.advance(100);
    await b.setPwm("2", 0);
    const after = await b.getDigitalInterruptValue("enc-a") + await b.getDigitalInterruptValue("enc-b");
    assertEquals(after - before, edges, `at ${dutyCycle}`);
  }
  await b.close();
});

Deno.test("fake board: a simulated motor on pins a and b takes the PWM of one pin off the power", async () => {
  const clock = new FakeClock();
  const b = await board(SIMULATED, clock);
  await b.setGpio("3", true);
  await b.setGpio("4", false);
  await b.setPwm("4", 0.75);
  await clock.advance(400);
  // A quarter of 100 rpm at 60 ticks a rotation makes 25 ticks a second on the single wire.
  assertAlmostEquals(await b.getDigitalInterruptValue("wire"), 10, 1);
  await b.setGpio("3", false);
  await b.setGpio("4", false);
  const there = await b.getDigitalInterruptValue("wire");
  await clock.advance(100);
  assertEquals(await b.getDigitalInterruptValue("wire"), there);
  assertEquals(clock.pending, 0);
});

Deno.test("fake board: a closed board makes no ticks and turns no motors", async () => {
  const clock = new FakeClock();
  const b = await board(SIMULATED, clock);
  await b.setGpio("1", true);
  await b.setPwm("2", 1);
  await b.close();
  await b.close();
  await assertRejects(() => b.streamTicks(["wire"]), SvcError, "closed");
  await b.setPwm("2", 0.5);
  assertEquals(clock.pending, 0);
});

Deno.test("fake board: the JSON Schema of the attributes has the documented names", () => {
  const { properties } = FakeBoard.attributes.jsonSchema() as { properties: JsonObject };
  assertEquals(Object.keys(properties), ["fail_new", "analogs", "digital_interrupts", "simulated_motors"]);
  assertThrows(() => {
    const at = new DecodeContext();
    FakeBoard.attributes.decode(7, at);
    if (at.failed) throw new Error("7 is not attributes");
  });
});
