import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { openWhenAlone } from "./alone.ts";

function scene() {
  const clock = new FakeClock(), logged: LogRecord[] = [];
  const world = { error: undefined as SvcError | undefined, signs: 0, closed: 0 };
  const control = { close: () => Promise.resolve(void world.closed++) };
  const parts = {
    open: () => world.error ? Promise.reject(world.error) : Promise.resolve(control),
    alive: () => void world.signs++,
    clock,
    logger: new Logs(clock, [memorySink(logged)]).logger("agent"),
  };
  return { clock, logged, world, control, parts, stop: new AbortController() };
}

const OTHER = new SvcError("already_exists", "another svc-agent works in this folder already");

Deno.test("openWhenAlone: a service waits until the other agent has ended, and gives signs of life", async () => {
  const { clock, logged, world, control, parts, stop } = scene();
  world.error = OTHER;
  const opened = openWhenAlone(parts, stop.signal);
  await clock.advance(3_600_000);
  assertEquals([logged.length, world.signs], [1, 721]);
  world.error = undefined;
  await clock.advance(5_000);
  assertEquals(await opened, control);
});

Deno.test("openWhenAlone: a stop ends the wait, and other failures are failures", async () => {
  const { clock, world, parts, stop } = scene();
  world.error = OTHER;
  const opened = openWhenAlone(parts, stop.signal);
  await settle();
  stop.abort();
  assertEquals([await opened, clock.pending], [undefined, 0]);
  world.error = new SvcError("permission_denied", "not yours");
  await assertRejects(() => openWhenAlone(parts, new AbortController().signal), SvcError, "not yours");
});
