import { assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import type { Tick } from "../../lib/api/actuators/board.ts";
import { Queue } from "../../lib/base/collections/queue.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeBoard } from "../board/fake.ts";
import { GpioInputController } from "./gpio.ts";

const BOARD: JsonObject = {
  digital_interrupts: [{ name: "red", pin: "1" }, { name: "blue", pin: "2" }],
  analogs: [{ name: "stick", pin: "1", still: true }, { name: "knob", pin: "2", still: true }],
};
const INPUTS: JsonObject = {
  buttons: {
    red: { control: "ButtonNorth" },
    blue: { control: "ButtonSouth", invert: true, debounce_msec: -1 },
  },
  axes: {
    stick: { control: "AbsoluteX", min: 0, max: 1000, bidirectional: true, deadzone: 20, poll_hz: 20 },
    knob: { control: "AbsoluteZ", min: 100, max: 500, min_change: 10, invert: true },
  },
};

async function bench(inputs = INPUTS) {
  const clock = new FakeClock();
  const board = await construct(FakeBoard, BOARD, { name: "b", clock });
  const ticks = new Queue<Tick>(100);
  board.streamTicks = (_names, call) => {
    call?.signal?.addEventListener("abort", () => ticks.end());
    return Promise.resolve(ticks);
  };
  const replaceTicks = () => {
    const next = new Queue<Tick>(100);
    board.streamTicks = (_names, call) => {
      call?.signal?.addEventListener("abort", () => next.end());
      return Promise.resolve(next);
    };
    return next;
  };
  const controller = await construct(GpioInputController, { board: "b", ...inputs }, {
    dependencies: [board],
    clock,
  });
  const tick = (pinName: string, high: boolean) => ticks.push({ pinName, high, timeNs: 0n });
  const state = async (control: string) => {
    const found = (await controller.getEvents()).find((event) => event.control === control)!;
    return [found.event, found.value];
  };
  return { clock, board, ticks, replaceTicks, controller, tick, state };
}

Deno.test("gpio input controller: interrupts are buttons that count after they have settled", async () => {
  const { clock, controller, tick, state } = await bench();
  assertEquals(await controller.getControls(), ["ButtonNorth", "ButtonSouth", "AbsoluteX", "AbsoluteZ"]);
  assertEquals(await state("ButtonNorth"), ["Connect", 0]);
  for (const high of [true, false, true]) tick("red", high);
  await clock.advance(4);
  assertEquals(await state("ButtonNorth"), ["Connect", 0]);
  await clock.advance(1);
  assertEquals(await state("ButtonNorth"), ["ButtonPress", 1]);
  tick("blue", false);
  await clock.advance(0);
  assertEquals(await state("ButtonSouth"), ["ButtonPress", 1]);
  tick("blue", true);
  tick("red", false);
  await clock.advance(5);
  assertEquals([await state("ButtonSouth"), await state("ButtonNorth")], [["ButtonRelease", 0], [
    "ButtonRelease",
    0,
  ]]);
  await controller.close();
  assertEquals(clock.pending, 0);
});

Deno.test("gpio input controller: analog readers are axes with a range, a dead zone and a smallest change", async () => {
  const { clock, board, controller, state } = await bench();
  for (const [value, position] of [[1000, 1], [5000, 1], [0, -1], [750, 0.5], [515, 0], [485, 0]]) {
    await board.writeAnalog("stick", value);
    await clock.advance(50);
    assertEquals(await state("AbsoluteX"), ["PositionChangeAbs", position], `${value}`);
  }
  for (const [value, position] of [[300, -0.5], [305, -0.5], [400, -0.75], [0, 0]]) {
    await board.writeAnalog("knob", value);
    await clock.advance(100);
    const [, found] = await state("AbsoluteZ");
    assertAlmostEquals(found as number, position, 1e-9, `${value}`);
  }
  await controller.close();
});

Deno.test("gpio input controller: an axis that comes slowly to rest gets there, whatever min_change is", async () => {
  const { clock, board, controller, state } = await bench({
    axes: {
      stick: { control: "AbsoluteX", min: 0, max: 1000, bidirectional: true, min_change: 100, poll_hz: 20 },
      knob: { control: "AbsoluteZ", min: 100, max: 500, min_change: 50, deadzone: 10 },
    },
  });
  for (
    const [value, position] of [[700, 0.4], [580, 0.16], [540, 0.16], [500, 0], [450, 0], [380, -0.24], [
      500,
      0,
    ]]
  ) {
    await board.writeAnalog("stick", value);
    await clock.advance(50);
    assertAlmostEquals((await state("AbsoluteX"))[1] as number, position, 1e-9, `${value}`);
  }
  for (const [value, position] of [[200, 0.25], [140, 0.1], [109, 0], [120, 0]]) {
    await board.writeAnalog("knob", value);
    await clock.advance(100);
    assertAlmostEquals((await state("AbsoluteZ"))[1] as number, position, 1e-9, `${value}`);
  }
  await controller.close();
});

Deno.test("gpio input controller: inputs that cannot be read are disconnected, and come back", async () => {
  const { clock, board, ticks, controller, state } = await bench();
  const read = board.readAnalog;
  board.readAnalog = () => Promise.reject(new SvcError("unavailable", "the converter is gone"));
  ticks.end(new SvcError("unavailable", "the board is gone"));
  await clock.advance(100);
  assertEquals([await state("AbsoluteX"), await state("ButtonNorth")], [["Disconnect", 0], [
    "Disconnect",
    0,
  ]]);
  board.readAnalog = read;
  await board.writeAnalog("stick", 1000);
  await clock.advance(2000);
  assertEquals(await state("AbsoluteX"), ["PositionChangeAbs", 1]);
  await controller.close();
  await assertRejects(() => bench({ axes: { none: { control: "AbsoluteX", max: 5 } } }), SvcError, "none");
});

for (const error of [undefined, new SvcError("unavailable", "the board was replaced")]) {
  const how = error ? "fail" : "end";
  Deno.test(`gpio input controller: buttons come back when their ticks ${how}`, async () => {
    const { clock, board, ticks, replaceTicks, controller, state } = await bench();
    board.streamTicks = () => Promise.reject(new SvcError("unavailable", "the board is not there yet"));
    ticks.end(error);
    await clock.advance(3_000);
    assertEquals(await state("ButtonSouth"), ["Disconnect", 0]);

    const next = replaceTicks();
    await clock.advance(2_000);
    assertEquals(await state("ButtonSouth"), ["Connect", 0]);
    next.push({ pinName: "blue", high: false, timeNs: 0n });
    await clock.advance(0);
    assertEquals(await state("ButtonSouth"), ["ButtonPress", 1]);
    await controller.close();
    assertEquals(clock.pending, 0);
  });
}

Deno.test("gpio input controller: impossible attributes, each with its path", () => {
  const problems = (inputs: JsonObject) =>
    problemsOf(GpioInputController, { board: "b", ...inputs }).map((one) => one.split(":")[0]);
  assertEquals(problems({}), [""]);
  assertEquals(problems({ axes: { a: { control: "AbsoluteX", min: 5, max: 5 } } }), ["axes.a.min"]);
  assertEquals(problems({ buttons: { a: { control: "ButtonNone" } } }), ["buttons.a.control"]);
  const twice = { control: "ButtonNorth" };
  assertEquals(problems({ buttons: { a: twice, b: twice } }), [""]);
});
