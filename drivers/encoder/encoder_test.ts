import { assertEquals, assertRejects } from "@std/assert";
import type { Board, Tick } from "../../lib/api/actuators/board.ts";
import { isDriven } from "../../lib/api/sensors/encoder.ts";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeEncoder } from "./fake.ts";
import { halfTicks, IncrementalEncoder } from "./incremental.ts";
import { SingleEncoder } from "./single.ts";
import { TickQueue } from "../board/tick_queue.ts";

/** A board whose ticks the test makes. */
function tickingBoard() {
  const queues = new Set<TickQueue>();
  const board: Pick<Board, "name" | "streamTicks"> = {
    name: ResourceName.of("rdk:component:board", "b"),
    streamTicks: (names, call) => {
      if (names.includes("nowhere")) {
        return Promise.reject(new SvcError("not_found", "cant find DigitalInterrupt"));
      }
      const queue = new TickQueue(names, (left) => queues.delete(left), call?.signal);
      queues.add(queue);
      return Promise.resolve(queue);
    },
  };
  return {
    board: board as Board,
    queues,
    async tick(...edges: [pinName: string, high: boolean][]): Promise<void> {
      for (const [pinName, high] of edges) {
        const tick: Tick = { pinName, high, timeNs: 0n };
        for (const queue of queues) if (queue.interrupts.has(pinName)) queue.push(tick);
      }
      await settle();
    },
  };
}

Deno.test("halfTicks() counts legal steps in both directions and ignores illegal steps", () => {
  const forwards = [0b00, 0b10, 0b11, 0b01];
  for (const [index, before] of forwards.entries()) {
    const after = forwards[(index + 1) % 4];
    assertEquals([halfTicks(before, after), halfTicks(after, before), halfTicks(before, before)], [1, -1, 0]);
    assertEquals(halfTicks(before, forwards[(index + 2) % 4]), 0);
  }
});

Deno.test("incremental encoder: the position follows a quadrature cycle in both directions", async () => {
  const { board, tick } = tickingBoard();
  const encoder = await construct(IncrementalEncoder, { board: "b", pins: { a: "A", b: "B" } }, {
    dependencies: [board],
  });
  const position = async () => (await encoder.getPosition()).value;
  await tick(["A", false]);
  assertEquals(await position(), 0);
  const seen: number[] = [];
  for (const edge of [["B", true], ["A", true], ["B", false], ["A", false]] as const) {
    await tick([...edge]);
    seen.push(await position());
  }
  assertEquals(seen, [0, 1, 1, 2]);
  await tick(["A", true], ["B", true], ["A", false], ["B", false]);
  assertEquals(await position(), 0);
  await tick(["A", true]);
  assertEquals(await position(), -1);
  await encoder.resetPosition();
  assertEquals(await position(), 0);
  assertEquals(await encoder.getPosition("ticks"), { value: 0, type: "ticks" });
  assertEquals(await encoder.getProperties(), { ticksCountSupported: true, angleDegreesSupported: false });
  const wording = 'encoder does not support "ANGLE_DEGREES"; use a different PositionType';
  await assertRejects(() => encoder.getPosition("degrees"), SvcError, wording);
  await encoder.close();
  await encoder.close();
});

Deno.test("incremental encoder: a missing interrupt fails the construction", async () => {
  const { board } = tickingBoard();
  const attributes = { board: "b", pins: { a: "A", b: "nowhere" } };
  const error = await assertRejects(
    () => construct(IncrementalEncoder, attributes, { dependencies: [board] }),
    SvcError,
    "cannot find pin (A, nowhere) for Encoder on board b",
  );
  assertEquals(error.code, "not_found");
});

Deno.test("incremental encoder: it listens again after the board's tick stream ends", async () => {
  const { board, tick, queues } = tickingBoard();
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const attributes = { board: "b", pins: { a: "A", b: "B" } };
  const encoder = await construct(IncrementalEncoder, attributes, { dependencies: [board], clock, logged });
  for (const queue of queues) queue.end();
  await clock.advance(0);
  const error = await assertRejects(() => encoder.getPosition(), SvcError, "the ticks of A, B ended");
  assertEquals(error.code, "unavailable");
  await clock.advance(1000);
  assertEquals(queues.size, 1);
  await tick(["B", true], ["A", true]);
  assertEquals((await encoder.getPosition()).value, 1);
  assertEquals(logged.map(({ message }) => message), ["the ticks of A, B ended, listening again"]);
  await encoder.close();
});

Deno.test("single encoder: while its board is away it has no position, which is told once", async () => {
  const { board, tick, queues } = tickingBoard();
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const encoder = await construct(SingleEncoder, { board: "b", pins: { i: "I" } }, {
    dependencies: [board],
    clock,
    logged,
  });
  if (!isDriven(encoder)) throw new Error("a single encoder is driven");
  encoder.setSpeed(1);
  await tick(["I", true]);
  const listen = board.streamTicks;
  board.streamTicks = () => Promise.reject(new SvcError("unavailable", "the machine is away"));
  for (const queue of queues) queue.end();
  await clock.advance(5_000);
  await assertRejects(() => encoder.getPosition(), SvcError, "the ticks of I are lost: the machine is away");
  assertEquals(logged.length, 1);

  board.streamTicks = listen;
  await clock.advance(1_000);
  await tick(["I", false]);
  assertEquals((await encoder.getPosition()).value, 2);
  await encoder.close();
});

Deno.test("single encoder: ticks count in the motor's direction, and not while it stands", async () => {
  const { board, tick } = tickingBoard();
  const encoder = await construct(SingleEncoder, { board: "b", pins: { i: "I" } }, { dependencies: [board] });
  if (!isDriven(encoder)) throw new Error("a single encoder is driven");
  const position = async () => (await encoder.getPosition()).value;
  await tick(["I", true], ["I", false]);
  assertEquals(await position(), 0);
  encoder.setSpeed(400);
  await tick(["I", true], ["I", false], ["I", true]);
  assertEquals(await position(), 3);
  encoder.setSpeed(-1);
  await tick(["I", false]);
  assertEquals(await position(), 2);
  encoder.setSpeed(0);
  await tick(["I", true]);
  assertEquals(await position(), 2);
  await encoder.resetPosition();
  assertEquals(await position(), 0);
  await encoder.close();
});

Deno.test("fake encoder: the position follows the motor's speed in steps of the update rate", async () => {
  const clock = new FakeClock();
  const encoder = await construct(FakeEncoder, {}, { clock });
  if (!isDriven(encoder)) throw new Error("a fake encoder is driven");
  const position = async () => (await encoder.getPosition()).value;
  assertEquals(await position(), 0);
  encoder.setSpeed(6000);
  await clock.advance(99);
  assertEquals(await position(), 0);
  await clock.advance(1);
  assertEquals(await position(), 10);
  await clock.advance(150);
  assertEquals(await position(), 20);
  encoder.setSpeed(-12_000);
  await clock.advance(200);
  assertEquals(await position(), 25 - 40);
  encoder.setPosition(7);
  assertEquals(await position(), 7);
  await encoder.resetPosition();
  assertEquals(await position(), 0);
  await assertRejects(() => encoder.getPosition("degrees"), SvcError, "does not support");
});

Deno.test("encoder attributes: problems name missing fields, and the board is a dependency", () => {
  assertEquals(problemsOf(IncrementalEncoder, { pins: { a: "1" } }).map((one) => one.split(":")[0]), [
    "board",
    "pins.b",
  ]);
  assertEquals(problemsOf(SingleEncoder, { board: "b" }).map((one) => one.split(":")[0]), ["pins"]);
  assertEquals(problemsOf(FakeEncoder, { update_rate_msec: -1 }).length, 1);
  assertEquals(namedBy(SingleEncoder, { board: "b", pins: { i: "x" } }), ["b"]);
});
