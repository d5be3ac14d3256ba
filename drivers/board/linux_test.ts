import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Tick } from "../../lib/api/actuators/board.ts";
import { settle } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { FakePins } from "../../tests/support/fake_pins.ts";
import { headerOf } from "./headers.ts";
import { LinuxBoard } from "./linux.ts";

const COMPATIBLE = "/proc/device-tree/compatible";
const PI_4 = "raspberrypi,4-model-b\0brcm,bcm2711\0";

function bench(files: { [path: string]: string } = { [COMPATIBLE]: PI_4 }) {
  const pins = new FakePins();
  const chip = pins.chip("gpiochip0", "pinctrl-bcm2711", 58, { 17: "GPIO17", 4: "GPIO4" });
  const host = new FakeHost({ devices: pins, files });
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const board = (attributes: JsonObject = {}) =>
    construct(LinuxBoard, attributes, { host, clock, logged, name: "b" });
  return { pins, chip, host, clock, logged, board };
}

Deno.test("linux board: a pin is named by header number, chip and line, line name or the pins attribute", async () => {
  const { pins, chip, board } = bench();
  const b = await board({ pins: { lamp: "gpiochip0/5" } });
  for (const [pin, line] of [["11", 17], ["gpiochip0/3", 3], ["GPIO4", 4], ["lamp", 5]] as const) {
    await b.setGpio(pin, true);
    assertEquals([chip.lines[line].driven, chip.lines[line].user], [true, "svc b"]);
  }
  chip.pull(6, true);
  assertEquals([await b.getGpio("31"), await b.getGpio("11")], [true, true]);
  await b.close();
  assertEquals([pins.open, chip.requests.size], [0, 0], "everything is released");
});

Deno.test("linux board: an unknown pin is refused with the likely or possible names", async () => {
  const { board } = bench();
  const b = await board();
  await assertRejects(() => b.setGpio("GPIO71", true), SvcError, "did you mean GPIO17?");
  await assertRejects(
    () => b.setGpio("6", true),
    SvcError,
    "pins of the Raspberry Pi 4 that can be used are 3",
  );
  await assertRejects(() => b.setGpio("gpiochip1/3", true), SvcError, "the chips are: gpiochip0");
  await assertRejects(() => b.setGpio("gpiochip0/58", true), SvcError, "has 58 lines");
  await b.close();
  const elsewhere = await bench({}).board();
  await assertRejects(() => elsewhere.setGpio("11", true), SvcError, "header are not known");
});

Deno.test("linux board: a line in use is refused with its user's name", async () => {
  const { chip, board } = bench();
  chip.lines[17].user = "gpioset";
  const b = await board();
  const error = await assertRejects(() => b.setGpio("11", true), SvcError);
  assertEquals(error.code, "resource_exhausted");
  const wanted = 'cannot use pin 11: cannot take line 17 of gpiochip0: line 17 (GPIO17) is used by "gpioset"';
  assert(chainOf(error).startsWith(wanted), chainOf(error));
});

Deno.test("linux board: an error about permissions names the group and the udev rule", async () => {
  const { pins, board } = bench();
  pins.forbidden.add("/dev/gpiochip0");
  const error = await assertRejects(() => board(), SvcError, "usermod -aG gpio");
  assert(error.message.includes('SUBSYSTEM=="gpio", GROUP="gpio", MODE="0660"'), error.message);
});

Deno.test("linux board: software PWM keeps its limits and ends with setGpio or close", async () => {
  const { pins, chip, board } = bench();
  const b = await board();
  await b.setPwmFrequency("12", 100);
  await b.setPwm("12", 0.25);
  const [pulse] = pins.pulses;
  assertEquals([pulse.periodNs, pulse.onNs, pulse.running], [1e7, 2.5e6, true]);
  await b.setPwmFrequency("12", 200);
  assertEquals([pulse.periodNs, pulse.onNs], [5e6, 1.25e6]);
  // The middle of a pulse: other ones follow it without a break.
  chip.lines[18].driven = true;
  await b.setPwm("12", 0.5);
  assertEquals([pulse.onNs, pulse.running, chip.lines[18].driven], [2.5e6, true, true]);
  await b.setPwm("12", 1.005);
  assertEquals([pulse.running, chip.lines[18].driven, await b.getPwm("12")], [false, true, 1]);
  await b.setPwm("12", 0.5);
  await b.setGpio("12", false);
  assertEquals(pins.pulses.map(({ running }) => running), [false, false]);
  assertEquals([chip.lines[18].driven, await b.getPwm("12"), await b.getPwmFrequency("12")], [false, 0, 0]);
  for (const duty of [-0.1, 1.02, NaN]) {
    await assertRejects(() => b.setPwm("12", duty), SvcError, "wanted 0 to 1");
  }
  await assertRejects(() => b.setPwmFrequency("12", 20_000), SvcError, "needs hardware PWM");
  await b.setPwm("12", 0.5);
  await b.close();
  assertEquals(pins.pulses.map(({ running }) => running), [false, false, false]);
});

Deno.test("linux board: a pin with PWM is low when the board closes, at full power, too; a level stays", async () => {
  const { chip, board } = bench();
  const b = await board();
  const levels = new Map<number, boolean>();
  chip.onDriven = (offset, high) => levels.set(offset, high);
  await b.setPwm("11", 1);
  await b.setPwm("13", 0.5);
  await b.setGpio("15", true);
  await b.setPwm("16", 1);
  await b.setGpio("16", true);
  assertEquals([levels.get(17), levels.get(22), levels.get(23)], [true, true, true]);
  await b.close();
  assertEquals([17, 27, 22, 23].map((offset) => levels.get(offset)), [false, false, true, true]);
});

Deno.test("linux board: interrupts count every edge and stream ticks to listeners", async () => {
  const { chip, clock, logged, board } = bench();
  const b = await board({
    digital_interrupts: [{ name: "i", pin: "11", pull: "down", debounce_us: 500 }, { name: "j", pin: "13" }],
  });
  assertEquals([chip.lines[17].debounceUs, chip.lines[17].flags & 0x200n], [500, 0x200n]);
  const leaving = new AbortController();
  const heard: Tick[] = [];
  const ticks = await b.streamTicks(["i"], { signal: leaving.signal });
  const reading = (async () => {
    for await (const tick of ticks) heard.push(tick);
  })();
  chip.pull(17, true, 10n);
  chip.pull(27, true, 11n);
  chip.pull(17, false, 12n, true);
  chip.pull(17, true, 13n, true);
  chip.pull(17, false, 14n);
  assertEquals([await b.getDigitalInterruptValue("i"), await b.getDigitalInterruptValue("j")], [4, 1]);
  assertEquals([await b.getGpio("11"), await b.getGpio("13")], [false, true]);
  await assertRejects(() => b.setGpio("11", true), SvcError, "it is an input");
  await clock.advance(10_000);
  assert(logged.some(({ message }) => message.startsWith("2 ticks came faster")), "the loss is told");
  leaving.abort();
  await reading;
  assertEquals(heard.map(({ pinName, timeNs, high }) => [pinName, timeNs, high]), [
    ["i", 10n, true],
    ["i", 14n, false],
  ]);
  await b.close();
});

Deno.test("linux board: a pin without an interrupt gets one when somebody listens, as published", async () => {
  const { chip, pins, board } = bench();
  const b = await board({
    digital_interrupts: [{ name: "wheel", pin: "36" }],
    pull: { "13": "down" },
  });
  const leaving = new AbortController();
  assertEquals(await b.getGpio("11"), false, "an input until now");
  const heard: string[] = [];
  const listen = async (names: string[]) => {
    for await (const { pinName, high } of await b.streamTicks(names, { signal: leaving.signal })) {
      heard.push(`${pinName} ${high}`);
    }
  };
  const reading = [listen(["11", "13"]), listen(["13"]), listen(["wheel"])];
  await settle();
  assertEquals(chip.lines[27].flags & 0x200n, 0x200n, "the pull of the pin");
  chip.pull(17, true);
  chip.pull(27, true);
  chip.pull(16, true);
  await settle();
  assertEquals(heard.toSorted(), ["11 true", "13 true", "13 true", "wheel true"]);
  assertEquals([await b.getDigitalInterruptValue("11"), await b.getGpio("11")], [1, true]);
  assertEquals(await b.getDigitalInterruptValue("15"), 0, "a value is asked for");
  chip.pull(22, true);
  assertEquals(await b.getDigitalInterruptValue("15"), 1);

  await b.setGpio("18", true);
  await assertRejects(() => b.streamTicks(["18"]), SvcError, "pin 18 is used as an output");
  await assertRejects(() => b.setGpio("11", true), SvcError, "it is an input");
  await assertRejects(
    () => b.streamTicks(["36"]),
    SvcError,
    'has the digital interrupt "wheel": use its name',
  );
  await assertRejects(() => b.streamTicks(["nowhere"]), SvcError, "cant find DigitalInterrupt (nowhere)");
  assertEquals(await b.getGpio("18"), true, "it stays one");
  leaving.abort();
  await Promise.all(reading);
  await b.close();
  assertEquals([pins.open, chip.requests.size], [0, 0]);
  await assertRejects(() => b.streamTicks(["40"]), SvcError, "the board is closed");
});

Deno.test("linux board: a failed interrupt device is logged and ends the tick streams", async () => {
  const { pins, chip, logged, board } = bench();
  const b = await board({ digital_interrupts: [{ name: "i", pin: "11" }] });
  const ticks = await b.streamTicks(["i"]);
  pins.unplug(chip);
  assertEquals(await Array.fromAsync(ticks), []);
  assert(logged.some(({ message }) => message.includes("No such device")));
  await assertRejects(() => b.streamTicks(["i"]), SvcError, "the interrupts on gpiochip0 have ended");
  await assertRejects(
    () => b.getDigitalInterruptValue("i"),
    SvcError,
    "the interrupts on gpiochip0 have ended",
  );
  await b.close();
});

/** A computer with a chip of its own, and one on the USB as gpiochip1. */
function usbBench() {
  const all = bench();
  const adapter = all.pins.chip("gpiochip1", "cp210x", 4);
  const replug = (name: string) => all.pins.chip(name, "cp210x", 4);
  return { ...all, adapter, replug };
}

Deno.test("linux board: a pin on an adapter that was unplugged works again, without the former power", async () => {
  for (const name of ["gpiochip1", "gpiochip2"]) {
    const { pins, chip, adapter, replug, board } = usbBench();
    const b = await board();
    await b.setGpio("11", true);
    await b.setGpio("gpiochip1/0", true);
    await b.setPwm("gpiochip1/1", 0.5);
    await b.setPwm("gpiochip1/2", 1);

    pins.unplug(adapter);
    for (const pin of ["gpiochip1/0", "gpiochip1/3"]) {
      const error = await assertRejects(() => b.setGpio(pin, false), SvcError);
      assert(chainOf(error).includes("gpiochip1 (cp210x) is gone; is it unplugged?"), chainOf(error));
    }
    await assertRejects(() => b.setPwm("gpiochip1/1", 0.6), SvcError);
    assertEquals([await b.getPwm("gpiochip1/1"), pins.pulses[0].running], [0, false]);

    const back = replug(name);
    await b.getStatus();
    await b.setPwmFrequency("gpiochip1/1", 100);
    assertEquals(back.lines.map(({ driven }) => driven), [undefined, undefined, undefined, undefined]);
    await b.setGpio("gpiochip1/0", true);
    await b.setPwm("gpiochip1/1", 0.25);
    await b.setPwm("gpiochip1/2", 0.5);
    assertEquals(back.lines.map(({ driven }) => driven), [true, false, false, undefined]);
    assertEquals(pins.pulses.map(({ running, onNs }) => [running, onNs]), [[false, 625_000], [true, 2.5e6], [
      true,
      625_000,
    ]]);
    assertEquals(chip.lines[17].driven, true, "other chips are as they were");
    await b.close();
    assertEquals([pins.open, back.requests.size], [0, 0]);
  }
});

Deno.test("linux board: another chip with the number of one that was unplugged is left alone", async () => {
  const { pins, adapter, replug, board } = usbBench();
  const twin = pins.chip("gpiochip2", "cp210x", 4);
  const b = await board();
  await b.setGpio("gpiochip1/0", true);
  pins.unplug(adapter);
  const stranger = pins.chip("gpiochip1", "ftdi-cbus", 4);
  await assertRejects(() => b.setGpio("gpiochip1/0", true), SvcError, "cannot use pin gpiochip1/0");
  pins.unplug(twin);
  const either = replug("gpiochip3");
  const error = await assertRejects(() => b.setGpio("gpiochip1/0", true), SvcError);
  assert(chainOf(error).includes("several chips are like it"), chainOf(error));
  const levels = [...stranger.lines, ...twin.lines, ...either.lines].map(({ driven }) => driven);
  assert(levels.every((level) => level === undefined), "nothing is set on them");
  await b.close();
  assertEquals(pins.open, 0);
});

Deno.test("linux board: a board whose adapter is unplugged closes all of its files", async () => {
  const { pins, adapter, board } = usbBench();
  const b = await board({ digital_interrupts: [{ name: "i", pin: "gpiochip1/3" }] });
  await b.setPwm("gpiochip1/0", 0.5);
  await b.setPwm("gpiochip1/1", 1);
  pins.unplug(adapter);
  await b.close();
  assertEquals(pins.open, 0);
});

Deno.test("linux board: interrupts on an adapter that was unplugged count again when it is back", async () => {
  for (const name of ["gpiochip1", "gpiochip2"]) {
    const { pins, adapter, logged, replug, board } = usbBench();
    const b = await board({ digital_interrupts: [{ name: "i", pin: "gpiochip1/3" }] });
    adapter.pull(3, true);
    adapter.pull(3, false);
    assertEquals(await b.getDigitalInterruptValue("i"), 2);
    const ended = await b.streamTicks(["i"]);
    pins.unplug(adapter);
    assertEquals(await Array.fromAsync(ended), []);
    const gone = "the interrupts on gpiochip1 have ended";
    await assertRejects(() => b.getDigitalInterruptValue("i"), SvcError, gone);
    await assertRejects(() => b.getGpio("gpiochip1/3"), SvcError, gone);
    await assertRejects(() => b.setGpio("gpiochip1/3", true), SvcError, "it is an input");

    const back = replug(name);
    const ticks = (await b.streamTicks(["i"]))[Symbol.asyncIterator]();
    back.pull(3, true, 7n);
    assertEquals([await b.getDigitalInterruptValue("i"), await b.getGpio("gpiochip1/3")], [3, true]);
    assertEquals((await ticks.next()).value?.timeNs, 7n);
    assert(logged.some(({ message }) => message.startsWith("the interrupts on gpiochip1 are back")));
    await b.close();
    assertEquals([pins.open, back.requests.size], [0, 0]);
  }
});

Deno.test("linux board: analogs read from an MCP3008 and from the kernel, and average if configured", async () => {
  const { pins, clock, board } = bench({
    "/sys/bus/iio/devices/iio:device0/name": "ads1015\n",
    "/sys/bus/iio/devices/iio:device0/in_voltage0_raw": "291\n",
  });
  let level = 500;
  pins.spi.set("/dev/spidev0.1", (sent) => {
    assertEquals([...sent], [1, 0b1011_0000, 0], "single, channel 3");
    return Uint8Array.of(0xff, 0xf8 | level >> 8, level & 0xff);
  });
  const mcp = { pin: "3", chip_select: "1" };
  const b = await board({
    analogs: [
      { name: "now", ...mcp },
      { name: "slow", ...mcp, average_over_ms: 200, samples_per_sec: 10 },
      { name: "kernel", iio: "ads1015/voltage0" },
    ],
  });
  assertEquals(await b.readAnalog("now"), { value: 500, minRange: 0, maxRange: 1023, stepSize: 1 });
  assertEquals((await b.readAnalog("kernel")).value, 291);
  await clock.advance(100);
  level = 600;
  await clock.advance(100);
  assertEquals((await b.readAnalog("slow")).value, 550);
  await clock.advance(100);
  assertEquals((await b.readAnalog("slow")).value, 600);
  level = 1023;
  assertEquals((await b.readAnalog("now")).value, 1023);
  pins.spi.set("/dev/spidev0.1", () => Uint8Array.of(0xff, 0xff, 0xff));
  await clock.advance(100);
  for (const name of ["now", "slow"]) {
    const error = await assertRejects(
      () => b.readAnalog(name),
      SvcError,
      "no MCP3008 answers on /dev/spidev0.1",
    );
    assertEquals(error.code, "unavailable");
  }
  await assertRejects(() => b.writeAnalog("now", 1), SvcError, "is an input");
  await assertRejects(() => b.readAnalog("x"), SvcError, "can't find AnalogReader (x)");
  await b.close();
  await assertRejects(
    () => board({ analogs: [{ name: "k", iio: "ads1115/voltage0" }] }),
    SvcError,
    "(ads1015)",
  );
});

Deno.test("linux board: a long average has all of its time, and a board that closes while it samples samples no more", async () => {
  const { host, clock, board } = bench({
    "/sys/bus/iio/devices/iio:device0/name": "ads1015\n",
    "/sys/bus/iio/devices/iio:device0/in_voltage0_raw": "100\n",
  });
  const iio = { name: "k", iio: "ads1015/voltage0", average_over_ms: 4000, samples_per_sec: 1000 };
  const b = await board({ analogs: [iio] });
  await clock.advance(2000);
  await host.writeFile("/sys/bus/iio/devices/iio:device0/in_voltage0_raw", "200\n");
  await clock.advance(2000);
  assertEquals((await b.readAnalog("k")).value, 150);
  const reading = Promise.withResolvers<string>();
  host.readTextFile = () => reading.promise;
  await clock.advance(1);
  await b.close();
  reading.resolve("300\n");
  await settle();
  assertEquals(clock.pending, 0);
});

Deno.test("linux board: problems of attributes name their paths", () => {
  const problems = problemsOf(LinuxBoard, {
    analogs: [{ name: "x", pin: "8" }, { name: "y" }],
    pull: { "11": "sideways" },
  });
  for (const path of ["analogs.0.pin", "analogs.1.pin", "pull.11"]) {
    assert(problems.some((one) => one.startsWith(path)), `${path} in ${problems.join("\n")}`);
  }
  const twice = problemsOf(LinuxBoard, {
    digital_interrupts: [{ name: "a", pin: "1" }, { name: "a", pin: "1" }],
    analogs: [{ name: "k", pin: "1" }, { name: "k", pin: "2" }],
    hardware_pwm: { "12": "pwm0" },
  });
  assertEquals(twice.map((one) => one.split(":")[0]), [
    "digital_interrupts.1.pin",
    "digital_interrupts.1.name",
    "analogs.1.name",
    "hardware_pwm.12",
  ]);
});

Deno.test("headerOf() knows the boards by their device tree and maps each pin once", () => {
  const boards = [
    ["raspberrypi,model-zero-w", "Raspberry Pi Zero", 17],
    ["raspberrypi,model-zero-2-w", "Raspberry Pi Zero 2", 17],
    ["raspberrypi,model-zero-2", "Raspberry Pi Zero 2", 17],
    ["raspberrypi,model-b-plus", "Raspberry Pi 1 Plus", 17],
    ["raspberrypi,2-model-b", "Raspberry Pi 2", 17],
    ["raspberrypi,2-model-b-rev2", "Raspberry Pi 2", 17],
    ["raspberrypi,3-model-b-plus", "Raspberry Pi 3", 17],
    ["raspberrypi,3-model-a-plus", "Raspberry Pi 3", 17],
    ["raspberrypi,400", "Raspberry Pi 400", 17],
    ["raspberrypi,4-compute-module", "Raspberry Pi Compute Module 4", 17],
    ["raspberrypi,4-compute-module-io", "Raspberry Pi Compute Module 4", 17],
    ["raspberrypi,500", "Raspberry Pi 500", 17],
    ["raspberrypi,5-compute-module", "Raspberry Pi Compute Module 5", 17],
    ["raspberrypi,5-compute-module-lite", "Raspberry Pi Compute Module 5", 17],
    ["raspberrypi,4-model-b", "Raspberry Pi 4", 17],
    ["raspberrypi,5-model-b", "Raspberry Pi 5", 17],
    ["nvidia,p3768-0000+p3767-0005", "Jetson Orin Nano or NX", 112],
    ["nvidia,p3737-0000+p3701-0000", "Jetson AGX Orin", 112],
  ] as const;
  for (const [compatible, name, eleven] of boards) {
    const header = headerOf(["something", compatible])!;
    assertEquals([header.board, header.pins.get("11")!.offset], [name, eleven]);
    const lines = [...header.pins.values()].map(({ chips, offset }) => `${chips} ${offset}`);
    assertEquals(new Set(lines).size, lines.length);
    // The Jetsons use two places for a bus and two for a serial line, and none for add-on boards.
    const pins = [7, 11, 12, 13, 15, 16, 18, 19, 21, 22, 23, 24, 26, 29, 31, 32, 33, 35, 36, 37, 38, 40];
    const others = name.startsWith("Jetson") ? [] : [3, 5, 8, 10, 27, 28];
    const numbers = [...pins, ...others].map(String);
    assertEquals([...header.pins.keys()].sort(), numbers.sort(), name);
  }
  for (
    const other of [
      "raspberrypi,pico",
      "raspberrypi,model-b",
      "raspberrypi,model-b-rev2",
      "raspberrypi,model-a",
    ]
  ) {
    assertEquals(headerOf([other, "brcm,bcm2835"]), undefined, other);
  }
  const [zero, zero2] = ["raspberrypi,model-zero-w", "raspberrypi,model-zero-2-w"].map((one) =>
    headerOf([one])!
  );
  assertEquals(zero.pins.get("12")!.pwm, { device: "2020c000.pwm", channel: 0 });
  assertEquals(zero2.pins.get("12")!.pwm, { device: "3f20c000.pwm", channel: 0 });
});
