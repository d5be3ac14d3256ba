import { assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { settle } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { FakePins } from "../../tests/support/fake_pins.ts";
import { FakeBoard } from "../board/fake.ts";
import { LinuxBoard } from "../board/linux.ts";
import { HcSr04Sensor } from "./hc_sr04.ts";

/** A sensor whose echo lasts as long as `echoNs` says; undefined for a broken wire. */
async function bench(echoNs: () => bigint | undefined) {
  const pins = new FakePins();
  const chip = pins.chip("gpiochip0", "chip", 8);
  const triggered: number[] = [];
  const clock = new FakeClock();
  chip.onDriven = (offset, high) => {
    if (offset !== 0) return;
    if (high) triggered.push(clock.monotonicMs());
    const lasted = echoNs();
    if (high || lasted === undefined) return;
    chip.pull(1, true, 5_000n);
    chip.pull(1, false, 5_000n + lasted);
  };
  const echo: JsonObject = { digital_interrupts: [{ name: "echo", pin: "gpiochip0/1" }] };
  const host = new FakeHost({ devices: pins });
  const board = await construct(LinuxBoard, echo, { host, clock, name: "b" });
  const attributes = { board: "b", trigger_pin: "gpiochip0/0", echo_interrupt_pin: "echo", timeout_ms: 100 };
  const sensor = await construct(HcSr04Sensor, attributes, { clock, dependencies: [board] });
  const close = async () => {
    await sensor.close();
    await board.close();
  };
  return { sensor, clock, triggered, close };
}

Deno.test("HC-SR04: the distance is half of the echo's way, and measurements are 60 ms apart", async () => {
  // The data sheet: 58 microseconds a centimetre.
  const { sensor, clock, triggered, close } = await bench(() => 5_800_000n);
  const both = Promise.all([sensor.getReadings(), sensor.getReadings()]);
  await clock.advance(200);
  for (const { distance } of await both) assertAlmostEquals(distance as number, 1, 0.02);
  assertEquals(triggered.length, 2);
  assertEquals(triggered[1] - triggered[0] >= 60, true);
  await close();
});

Deno.test("HC-SR04: a target out of reach and a missing echo give different errors", async () => {
  let lasted: bigint | undefined = 38_000_000n;
  const { sensor, clock, close } = await bench(() => lasted);
  const refused = assertRejects(() => sensor.getReadings(), SvcError, "nothing returned the sound");
  await clock.advance(100);
  await refused;
  lasted = undefined;
  const silent = assertRejects(() => sensor.getReadings(), SvcError, "heard no echo within 100 ms");
  await clock.advance(300);
  assertEquals((await silent).code, "deadline_exceeded");
  await close();
});

Deno.test("HC-SR04: a board that is lost during a measurement ends it, and its ticks, once", async () => {
  const clock = new FakeClock();
  let listening = 0;
  const attributes = { digital_interrupts: [{ name: "echo", pin: "1" }] };
  const board = await construct(FakeBoard, attributes, { name: "b" });
  const lost = () => new SvcError("unavailable", "the board is lost");
  board.streamTicks = (_names, call) => {
    listening++;
    call!.signal!.addEventListener("abort", () => void listening--);
    return Promise.resolve({ [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(lost()) }) });
  };
  // The ticks end before the answer to this arrives.
  board.setGpio = async () => {
    for (let turn = 0; turn < 5; turn++) await settle();
    throw lost();
  };
  const sensor = await construct(
    HcSr04Sensor,
    { board: "b", trigger_pin: "0", echo_interrupt_pin: "echo" },
    { dependencies: [board], clock },
  );
  const refused = assertRejects(() => sensor.getReadings(), SvcError, "the board is lost");
  await clock.advance(100);
  await refused;
  for (let turn = 0; turn < 10; turn++) await settle();
  assertEquals(listening, 0);
  await sensor.close();
  await board.close();
});
