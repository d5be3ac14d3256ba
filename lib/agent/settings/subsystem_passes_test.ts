import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { decideSettings } from "./settings.ts";
import { SubsystemPasses } from "./subsystem_passes.ts";

const { signal } = new AbortController();
const { settings } = decideSettings({ cloud: {} });

Deno.test("SubsystemPasses: settings are applied at a change, and every five minutes", async () => {
  const clock = new FakeClock(), logged: LogRecord[] = [];
  const applied: string[] = [];
  let failure: SvcError | undefined;
  const subsystemOf = (name: string, fails: boolean) => ({
    name,
    apply: () => {
      applied.push(name);
      return fails && failure ? Promise.reject(failure) : Promise.resolve();
    },
    close: () => Promise.resolve(),
  });
  const passes = new SubsystemPasses(
    [subsystemOf("journal", true), subsystemOf("networks", false)],
    clock,
    new Logs(clock, [memorySink(logged)]).logger("agent"),
  );
  const appliedNow = async () => {
    passes.begin(() => settings, signal);
    await passes.idle();
    return applied.splice(0);
  };
  assertEquals(await appliedNow(), ["journal", "networks"]);
  assertEquals(await appliedNow(), []);
  await clock.advance(299_999);
  assertEquals(await appliedNow(), []);
  await clock.advance(1);
  failure = new SvcError("permission_denied", "not allowed");
  assertEquals(await appliedNow(), ["journal", "networks"]);
  assertEquals(passes.problems, ["journal: not allowed"]);
  passes.expire();
  assertEquals(await appliedNow(), ["journal", "networks"]);
  assertEquals(logged.map(({ message }) => message), ["journal: not allowed"], "told once");
  failure = undefined;
  passes.expire();
  await appliedNow();
  assertEquals(passes.problems, []);
  failure = new SvcError("permission_denied", "not allowed");
  passes.expire();
  await appliedNow();
  assertEquals(logged.length, 2, "and again when it comes back");
});

Deno.test("SubsystemPasses: a pass that takes long is the only one", async () => {
  const clock = new FakeClock(), slow = Promise.withResolvers<void>();
  let count = 0;
  const apply = () => (count++, slow.promise);
  const subsystem = { name: "upgrades", apply, close: () => Promise.resolve() };
  const passes = new SubsystemPasses([subsystem], clock, new Logs(clock, []).logger("agent"));
  passes.begin(() => settings, signal);
  await clock.advance(600_000);
  passes.begin(() => settings, signal);
  await settle();
  assertEquals(count, 1);
  slow.resolve();
  await passes.idle();
  passes.begin(() => settings, signal);
  await passes.idle();
  assertEquals(count, 2);
});
