/**
 * Ticks at 10 kHz from the lines of a Linux board to a client: none is dropped.
 */

import { assert, assertEquals } from "@std/assert";
import { LinuxBoard } from "../drivers/board/linux.ts";
import { TickQueue } from "../drivers/board/tick_queue.ts";
import { BoardApi, type Tick } from "../lib/api/actuators/board.ts";
import { ResourceName } from "../lib/resource/name.ts";
import { connectGrpc } from "../lib/wire/grpc/grpc_channel.ts";
import { openPort } from "../lib/wire/port/port.ts";
import { memoryChannel } from "../lib/wire/rpc/memory.ts";
import { ServiceTable } from "../lib/wire/rpc/service.ts";
import { SystemClock } from "../lib/base/clock.ts";
import { construct } from "./support/construct.ts";
import { FakeClock } from "./support/fake_clock.ts";
import { FakeHost } from "./support/fake_host.ts";
import { FakePins } from "./support/fake_pins.ts";
import { until } from "./support/until.ts";

const EDGES_PER_MS = 10;
const NS_PER_EDGE = 1_000_000n / BigInt(EDGES_PER_MS);

/** A board with an interrupt, its calls, and a line whose edges come with the numbers of their times. */
async function bench(clock: FakeClock) {
  const pins = new FakePins();
  const chip = pins.chip("gpiochip0", "test", 8);
  const host = new FakeHost({ devices: pins });
  const interrupts = { digital_interrupts: [{ name: "i", pin: "gpiochip0/1" }] };
  const board = await construct(LinuxBoard, interrupts, { host, clock, name: "b" });
  const table = new ServiceTable(clock);
  table.add(BoardApi.serve(() => board));
  let made = 0;
  const edges = (count: number) => {
    for (let edge = 0; edge < count; edge++) {
      made++;
      chip.pull(1, made % 2 === 1, BigInt(made) * NS_PER_EDGE);
    }
  };
  return { board, table, edges };
}

/** Every tick is there once, in the order of its edge, with the kernel's time. */
function assertWhole(ticks: readonly Tick[], edges: number): void {
  assertEquals(ticks.length, edges);
  const wrong = ticks.findIndex(({ pinName, timeNs, high }, index) =>
    pinName !== "i" || timeNs !== BigInt(index + 1) * NS_PER_EDGE || high !== (index % 2 === 0)
  );
  assertEquals(wrong, -1, "the first tick that is out of place");
}

Deno.test("ticks: a client of the board receives all ticks of 5 s at 10 kHz", async () => {
  const clock = new FakeClock();
  const { board, table, edges } = await bench(clock);
  const client = BoardApi.client(ResourceName.of(BoardApi.name, "b"), memoryChannel(table));
  const leaving = new AbortController();
  const heard: Tick[] = [];
  const ticks = await client.streamTicks(["i"], { signal: leaving.signal });
  const reading = (async () => {
    for await (const tick of ticks) heard.push(tick);
  })();
  const count = 5000 * EDGES_PER_MS;
  for (let ms = 0; ms < 5000; ms++) {
    edges(EDGES_PER_MS);
    await clock.advance(1);
  }
  await until(() => heard.length === count);
  assertWhole(heard, count);
  assertEquals(await client.getDigitalInterruptValue("i"), count);
  leaving.abort();
  await reading;
  await board.close();
});

Deno.test("ticks: a connection that is busy for 1 s delivers every tick afterwards", async () => {
  const clock = new FakeClock();
  const { board, table, edges } = await bench(clock);
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock: new SystemClock() });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock: new SystemClock() });
  const client = BoardApi.client(ResourceName.of(BoardApi.name, "b"), channel);
  const leaving = new AbortController();
  const ticks = (await client.streamTicks(["i"], { signal: leaving.signal }))[Symbol.asyncIterator]();
  const heard: Tick[] = [];
  for (let second = 0; second < 3; second++) {
    const count = heard.length + 1000 * EDGES_PER_MS;
    edges(1000 * EDGES_PER_MS);
    while (heard.length < count) {
      const { value } = await ticks.next();
      assert(value, "the stream goes on");
      heard.push(value);
    }
    assertWhole(heard, count);
  }
  leaving.abort();
  await ticks.return?.();
  channel.close();
  await port.close(0);
  await board.close();
});

Deno.test("ticks: a reader of TickQueue that is never idle gets the ticks in order", async () => {
  const queue = new TickQueue(["i"], () => {});
  let made = 0;
  const push = () => queue.push({ pinName: "i", timeNs: BigInt(++made), high: true });
  push();
  for (let read = 1n; read <= 50_000n; read++) {
    push();
    const { value } = await queue.next();
    assertEquals(value?.timeNs, read);
  }
  queue.end();
});
