import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { ResourceName } from "../../resource/name.ts";
import { BaseComponent } from "../../resource/resource.ts";
import { stopBeforeClosing } from "./stop.ts";

/** An actuator that notes its stop, which ends as `outcome` says. */
class Actuator extends BaseComponent {
  constructor(short: string, private readonly diary: string[], private readonly outcome = Promise.resolve()) {
    super(ResourceName.of("rdk:component:motor", short));
  }

  stop(): Promise<void> {
    this.diary.push(this.name.short);
    return this.outcome;
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(true);
  }
}

/** Nothing that moves. */
class Thing extends BaseComponent {}

function bench() {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("rdk");
  const diary: string[] = [];
  const logged = () => records.map(({ level, message }) => `${level} ${message}`);
  return { clock, logger, diary, logged };
}

const refused = (code: "unimplemented" | "unavailable") => {
  const outcome = Promise.reject(new SvcError(code, "no power"));
  outcome.catch(() => {});
  return outcome;
};

Deno.test("stopBeforeClosing: stops the machine's own actuators and leaves those of remotes alone", async () => {
  const { clock, logger, diary, logged } = bench();
  const resources = [
    new Actuator("m", diary),
    new Actuator("far:m", diary),
    new Thing(ResourceName.of("rdk:component:generic", "g")),
    new Actuator("n", diary),
  ];
  await stopBeforeClosing(resources, clock, logger);
  assertEquals([diary, logged(), clock.pending], [["m", "n"], [], 0]);
});

Deno.test("stopBeforeClosing: warns of what cannot stop, but not of what has no Stop", async () => {
  const { clock, logger, diary, logged } = bench();
  const resources = [
    new Actuator("broken", diary, refused("unavailable")),
    new Actuator("stopless", diary, refused("unimplemented")),
  ];
  await stopBeforeClosing(resources, clock, logger);
  assertEquals(logged(), ["warn cannot stop rdk:component:motor/broken: no power"]);
});

Deno.test("stopBeforeClosing: waits 2 s for an actuator that hangs, and still warns of it later", async () => {
  const { clock, logger, diary, logged } = bench();
  const stopping = stopBeforeClosing(
    [new Actuator("hung", diary, new Promise(() => {})), new Actuator("m", diary)],
    clock,
    logger,
  );
  let ended = false;
  void stopping.then(() => ended = true);
  await clock.advance(1_999);
  assertEquals([ended, diary], [false, ["hung", "m"]]);
  await clock.advance(1);
  assertEquals([ended, logged()], [true, []]);

  await clock.advance(8_000);
  await settle();
  const reason = "it did not stop within 10000 ms";
  assertEquals(logged(), [`warn cannot stop rdk:component:motor/hung: ${reason}`]);
  assertEquals(clock.pending, 0);
});
