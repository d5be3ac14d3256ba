import { assert, assertEquals } from "@std/assert";
import type { InputEvent } from "../../lib/api/sensors/input_controller.ts";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeInputController } from "./fake.ts";

const STARTED_MS = 1_000_000;

async function controller(attributes = {}) {
  const clock = new FakeClock(STARTED_MS);
  return { clock, controller: await construct(FakeInputController, attributes, { clock }) };
}

/** Reads events until the stream ends. */
async function collect(events: AsyncIterable<InputEvent>, into: InputEvent[]): Promise<void> {
  for await (const event of events) into.push(event);
}

Deno.test("fake input controller: it has two controls and an event of the first control", async () => {
  const { controller: fake } = await controller({ event_value: 0.7 });
  assertEquals(await fake.getControls(), ["AbsoluteX", "ButtonStart"]);
  const event = { timeMs: STARTED_MS, event: "PositionChangeAbs", control: "AbsoluteX", value: 0.7 };
  assertEquals(await fake.getEvents(), [event]);
  await fake.close();
});

Deno.test("fake input controller: it sends the events of a stream's filters after each delay", async () => {
  const { controller: fake, clock } = await controller({ event_value: 0.7, callback_delay_sec: 0.2 });
  const heard: InputEvent[] = [];
  const filters = [
    { control: "ButtonStart", events: ["ButtonPress", "ButtonRelease"] },
    { control: "AbsoluteX", events: ["PositionChangeAbs"] },
  ];
  const stop = new AbortController();
  const reading = collect(fake.streamEvents(filters, { signal: stop.signal }), heard);
  await clock.advance(199);
  assertEquals(heard, []);
  await clock.advance(1);
  assertEquals(heard.map(({ control, event }) => `${control} ${event}`), [
    "ButtonStart ButtonPress",
    "ButtonStart ButtonRelease",
    "AbsoluteX PositionChangeAbs",
  ]);
  assert(heard.every(({ timeMs, value }) => timeMs === STARTED_MS + 200 && value === 0.7));
  await clock.advance(400);
  assertEquals(heard.length, 9);
  stop.abort();
  await reading;
  await clock.advance(400);
  assertEquals(heard.length, 9);
  await fake.close();
});

Deno.test("fake input controller: two streams of the same event each receive it once", async () => {
  const { controller: fake, clock } = await controller({ callback_delay_sec: 1 });
  const heard: InputEvent[][] = [[], []];
  const filters = [{ control: "ButtonStart", events: ["ButtonPress"] }];
  const reading = heard.map((into) => collect(fake.streamEvents(filters), into));
  await clock.advance(1000);
  assertEquals(heard.map(({ length }) => length), [1, 1]);
  await fake.close();
  await Promise.all(reading);
});

Deno.test("fake input controller: default delays are 1 to 2 s and default values 0 to 1, at random", async () => {
  const { controller: fake, clock } = await controller();
  const heard: InputEvent[] = [];
  const reading = collect(fake.streamEvents([{ control: "AbsoluteX", events: ["Connect"] }]), heard);
  await clock.advance(999);
  assertEquals(heard.length, 0);
  await clock.advance(1001);
  assert(heard.length === 1 || heard.length === 2);
  assert(heard.every(({ value }) => value >= 0 && value < 1));
  await fake.close();
  await reading;
});

Deno.test("fake input controller: a triggered event becomes its control's state and reaches streams", async () => {
  const { controller: fake } = await controller();
  const heard: InputEvent[] = [];
  const reading = collect(fake.streamEvents([{ control: "ButtonStart", events: ["AllEvents"] }]), heard);
  const event = { timeMs: 5, event: "ButtonHold", control: "ButtonStart", value: 1 };
  await fake.triggerEvent(event);
  await settle();
  assertEquals(heard, [event]);
  assertEquals((await fake.getEvents()).map(({ control }) => control), ["AbsoluteX", "ButtonStart"]);
  await fake.close();
  await reading;
});

Deno.test("fake input controller: close() ends the streams and the timer", async () => {
  const { controller: fake, clock } = await controller();
  const reading = collect(fake.streamEvents([]), []);
  await fake.close();
  await fake.close();
  await reading;
  assertEquals(clock.pending, 0);
});

Deno.test("fake input controller: a callback_delay_sec below 0 is refused", () => {
  assertEquals(problemsOf(FakeInputController, { callback_delay_sec: -1 }), [
    "callback_delay_sec: found -1, wanted a number of at least 0",
  ]);
});
