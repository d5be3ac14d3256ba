import { assertEquals, assertRejects } from "@std/assert";
import type { InputController, InputEvent } from "../../lib/api/sensors/input_controller.ts";
import { settle } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { MuxInputController } from "./mux.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import { WebgamepadInputController } from "./webgamepad.ts";

async function bench() {
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const sources: InputController[] = [];
  for (const name of ["a", "b"]) sources.push(await construct(WebgamepadInputController, {}, { name }));
  const mux = await construct(MuxInputController, { sources: ["a", "b"] }, {
    dependencies: sources,
    clock,
    logged,
  });
  const press = (source: number, timeMs: number, value: number) =>
    sources[source].triggerEvent({
      timeMs,
      event: value ? "ButtonPress" : "ButtonRelease",
      control: "ButtonMenu",
      value,
    });
  return { sources, mux, press, clock, logged };
}

Deno.test("mux: it has the controls of all sources, and the latest event of each control", async () => {
  const { mux, press } = await bench();
  assertEquals((await mux.getControls()).length, 19);
  await press(0, 5, 1);
  await press(1, 3, 0);
  assertEquals((await mux.getEvents()).map(({ timeMs, value }) => [timeMs, value]), [[5, 1]]);
  await assertRejects(() => mux.triggerEvent({ timeMs: 0, event: "", control: "", value: 0 }), SvcError);
});

Deno.test("mux: a stream has the events of all sources until its call ends or the controller closes", async () => {
  const { sources, mux, press } = await bench();
  const heard: InputEvent[][] = [[], []];
  const stop = new AbortController();
  const filters = [{ control: "ButtonMenu", events: ["ButtonChange"] }];
  const reading = [{ signal: stop.signal }, {}].map(async (call, index) => {
    for await (const event of mux.streamEvents(filters, call)) heard[index].push(event);
  });
  await settle();
  await press(0, 1, 1);
  await press(1, 2, 0);
  await settle();
  assertEquals(heard[0].map(({ timeMs }) => timeMs), [1, 2]);
  stop.abort();
  await reading[0];
  await sources[0].close();
  await press(1, 3, 1);
  await settle();
  assertEquals(heard.map((one) => one.length), [2, 3]);
  await mux.close();
  await reading[1];
});

Deno.test("mux: a source that fails leaves the others; if none answers, the call fails", async () => {
  const { sources, mux, press } = await bench();
  const gone = () => Promise.reject(new SvcError("unavailable", "gone"));
  Object.assign(sources[0], { getEvents: gone, getControls: gone });
  await press(1, 1, 1);
  assertEquals([(await mux.getEvents()).length, (await mux.getControls()).length], [1, 19]);
  Object.assign(sources[1], { getEvents: gone });
  await assertRejects(() => mux.getEvents(), SvcError, "no source of");
});

for (const fails of [true, false]) {
  const how = fails ? "fails" : "ends";
  Deno.test(`mux: what a source held is disconnected when its stream ${how}, and it is listened to again`, async () => {
    const { sources, mux, press, clock, logged } = await bench();
    const begin = sources[0].streamEvents.bind(sources[0]);
    let lose = new AbortController();
    sources[0].streamEvents = async function* (filters, call) {
      const lost = lose.signal;
      yield* begin(filters, { signal: AbortSignal.any([lost, call!.signal!]) });
      if (lost.aborted && fails) throw new SvcError("unavailable", "the link is lost");
    };
    const heard: Record<"wanting" | "other", string[]> = { wanting: [], other: [] };
    const reading = (["wanting", "other"] as const).map(async (who) => {
      const events = ["ButtonChange", ...who === "wanting" ? ["Disconnect"] : []];
      const filters = [{ control: "ButtonMenu", events }, { control: "ButtonStart", events }];
      for await (const { event, control } of mux.streamEvents(filters)) {
        heard[who].push(`${event} ${control}`);
      }
    });
    await settle();
    await press(0, 1, 1);
    await settle();
    lose.abort();
    lose = new AbortController();
    await settle();
    await press(1, 2, 0);
    await clock.advance(1_000);
    await press(0, 3, 1);
    await settle();
    const around = ["ButtonRelease ButtonMenu", "ButtonPress ButtonMenu"];
    assertEquals(heard.wanting, ["ButtonPress ButtonMenu", "Disconnect ButtonMenu", ...around]);
    assertEquals(heard.other, ["ButtonPress ButtonMenu", ...around]);
    const reason = fails ? ": the link is lost" : "";
    assertEquals(logged[0]?.message, `rdk:component:input_controller/a gives no more events${reason}`);

    for (const source of sources) await source.close();
    await Promise.all(reading);
    assertEquals(clock.pending, 0, "it ends with the last of them");
    await mux.close();
  });
}

Deno.test("mux: the sources are its dependencies, and one at least is needed", () => {
  assertEquals(namedBy(MuxInputController, { sources: ["a", "b"] }), ["a", "b"]);
  assertEquals(problemsOf(MuxInputController, { sources: [] }).length, 1);
});
