import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { partsRegistry } from "../../../tests/support/parts.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { MachineConfig } from "../config/config.ts";
import type { ConfigDraft } from "../config/source.ts";
import { ConfigReading } from "../config/reading.ts";
import type { MaintenanceDecision } from "./maintenance.ts";
import { Reconfiguration } from "./reconfiguration.ts";

const registry = partsRegistry();

function draft(json: JsonObject, revision = "r"): ConfigDraft {
  return { json, revision, problems: [] };
}

/** A reconfiguration whose source, machine and window are the test's. */
async function bench(
  first: ConfigDraft | SvcError,
  { showDiffs = false, kept }: { showDiffs?: boolean; kept?: ConfigDraft } = {},
) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const diary: string[] = [];
  const window: { decision: MaintenanceDecision; passUnderWay?: Promise<void> } = {
    decision: { allowed: true },
  };
  /** What throws when it is next done. */
  const faults = new Set<string>();
  let hear: ((news: ConfigDraft | SvcError) => void) | undefined;
  const logs = new Logs(clock, [memorySink(records)]);
  const note = (what: string) => ({ revision }: Pick<MachineConfig, "revision">) => {
    diary.push(`${what} ${revision}`);
    if (faults.delete(what)) throw new Error(`cannot ${what}`);
  };
  const source = {
    name: "m.json",
    first: () => first instanceof SvcError ? Promise.reject(first) : Promise.resolve(first),
    follow: (listener: typeof hear) => {
      hear = listener;
      return () => {
        hear = undefined;
        return Promise.resolve();
      };
    },
    keep: (draft: ConfigDraft) => Promise.resolve(draft).then(note("keep")),
    kept: () => Promise.resolve(kept),
  };
  const logger = logs.logger("rdk.config");
  const reading = new ConfigReading({ source, registry, env: () => undefined, logger });
  const reconfiguration = new Reconfiguration({
    reading,
    first: await reading.first(),
    clock,
    logger,
    adopt: note("adopt"),
    move: note("move"),
    mayChange: () => Promise.resolve(window.decision),
    apply: async (config: MachineConfig) => {
      note("apply")(config);
      await window.passUnderWay;
    },
    showDiffs,
  });
  await reconfiguration.begin();
  return {
    reconfiguration,
    clock,
    window,
    faults,
    records,
    took: () => diary.splice(0),
    logged: () => records.splice(0).map(({ level, message }) => `${level} ${message}`),
    hear: async (news: ConfigDraft | SvcError) => {
      hear!(news);
      await clock.advance(0);
    },
  };
}

Deno.test("Reconfiguration: the first configuration is kept and then applied, regardless of maintenance", async () => {
  const { took, logged, reconfiguration } = await bench(draft({}, "first"));
  assertEquals([took(), logged()], [["keep first", "apply first"], []]);
  assertEquals(reconfiguration.status, undefined);
  await reconfiguration.close();
});

Deno.test("Reconfiguration: an unusable first configuration is an error with every problem", async () => {
  const error = await assertRejects(() => bench(draft({ debug: 1, network: 2 })), SvcError);
  assertEquals(error.message.split("\n"), [
    "the configuration cannot be used:",
    "  m.json: network: found 2, wanted an object",
    "  m.json: debug: found 1, wanted true or false",
  ]);
});

Deno.test("Reconfiguration: starts with the kept configuration when the first is unusable, and logs it", async () => {
  for (const first of [new SvcError("unavailable", "nobody there"), draft({ debug: 1 })]) {
    const { took, logged, hear, reconfiguration } = await bench(first, { kept: draft({}, "kept") });
    assertEquals(took(), ["keep kept", "apply kept"]);
    assertStringIncludes(logged()[0], "warn starting with the last good configuration: ");
    const { state, error, revision } = reconfiguration.status!;
    assertEquals([state, revision], ["unhealthy", "kept"]);
    assertStringIncludes(
      error!,
      first instanceof SvcError ? "nobody there" : "found 1, wanted true or false",
    );
    await hear(draft({}, "back"));
    assertEquals([took(), reconfiguration.status], [
      ["adopt back", "move back", "keep back", "apply back"],
      undefined,
    ]);
    await reconfiguration.close();
  }
  await assertRejects(() => bench(new SvcError("unavailable", "nobody there")), SvcError, "nobody there");
});

Deno.test("Reconfiguration: a revision inside the configuration overrides the source's revision", async () => {
  const { took, hear, reconfiguration } = await bench(draft({ revision: "mine" }, "bytes"));
  await hear(draft({ revision: "" }, "bytes2"));
  assertEquals(took(), [
    "keep bytes",
    "apply mine",
    "adopt bytes2",
    "move bytes2",
    "keep bytes2",
    "apply bytes2",
  ]);
  await reconfiguration.close();
});

Deno.test("Reconfiguration: a bad configuration changes nothing, and its error is logged once and shown", async () => {
  const { took, logged, hear, clock, reconfiguration } = await bench(draft({}, "good"));
  took();
  await clock.advance(1_000);
  for (let n = 0; n < 3; n++) await hear(draft({ debug: 1 }, "bad"));
  assertEquals(took(), []);
  const [line, ...more] = logged();
  assertEquals(line.split("\n"), [
    "error the configuration cannot be used:",
    "  m.json: debug: found 1, wanted true or false",
    "  the configuration in force stays",
  ]);
  assertEquals(more, []);
  const { name, state, error, revision, updatedMs } = reconfiguration.status!;
  assertEquals([name.full, state, revision], ["rdk-internal:service:config/builtin", "unhealthy", "good"]);
  assertStringIncludes(error!, "debug: found 1");
  assertEquals(updatedMs, clock.nowMs());

  await hear(new SvcError("not_found", 'cannot read "m.json": it does not exist'));
  assertEquals(reconfiguration.status!.error, 'cannot read "m.json": it does not exist');
  assertEquals(logged().length, 1);
  await hear(draft({}, "good again"));
  assertEquals(reconfiguration.status, undefined);
  assertEquals(logged(), ["info m.json can be used again"]);
  assertEquals(took(), ["adopt good again", "move good again", "keep good again", "apply good again"]);
  await reconfiguration.close();
});

Deno.test("Reconfiguration: logs a warning once while it persists", async () => {
  const { logged, hear, reconfiguration } = await bench(draft({ typo: 1 }));
  const warning = "warn m.json: typo: warning: unknown key, ignored";
  assertEquals(logged(), [warning]);
  await hear(draft({ typo: 1, debug: false }));
  assertEquals(logged(), []);
  await hear(draft({}));
  await hear(draft({ typo: 1 }));
  assertEquals(logged(), [warning]);
  await reconfiguration.close();
});

Deno.test("Reconfiguration: does not log resource errors, which the machine reports", async () => {
  const api = "rdk:component:generic";
  const components: JsonObject[] = [
    { name: "g", api, model: "none" },
    { name: "h", api, model: "fake", depends_on: 7 },
  ];
  const { logged, reconfiguration } = await bench(draft({ components }));
  assertEquals(logged(), []);
  await reconfiguration.close();
});

Deno.test("Reconfiguration: without maintenance holds back the newest configuration, but adopts logs and keys", async () => {
  const { took, logged, hear, clock, window, reconfiguration } = await bench(draft({}, "1"));
  took();
  window.decision = { allowed: false, reason: "the door is open" };
  await hear(draft({}, "2"));
  assertEquals([took(), logged()], [["adopt 2"], [
    "info a new configuration is held back: the door is open",
  ]]);
  await clock.advance(7_000);
  await hear(draft({}, "3"));
  await clock.advance(60_000);
  assertEquals([took(), logged()], [["adopt 3"], []]);
  const { state, revision } = reconfiguration.status!;
  assertEquals([state, revision], ["configuring", "3"]);

  window.decision = { allowed: false, reason: "the sensor is gone" };
  await clock.advance(5_000);
  assertEquals(logged(), ["info a new configuration is held back: the sensor is gone"]);
  window.decision = { allowed: true };
  await clock.advance(5_000);
  assertEquals(took(), ["move 3", "keep 3", "apply 3"]);
  assertEquals(logged(), ["info maintenance is allowed, the configuration changes now"]);
  assertEquals([reconfiguration.status, clock.pending], [undefined, 0]);
  await reconfiguration.close();
});

Deno.test("Reconfiguration: close drops a configuration that is held back", async () => {
  const { took, hear, clock, window, reconfiguration } = await bench(draft({}, "1"));
  window.decision = { allowed: false, reason: "not now" };
  await hear(draft({}, "2"));
  took();
  await reconfiguration.close();
  window.decision = { allowed: true };
  await clock.advance(60_000);
  assertEquals([took(), clock.pending], [[], 0]);
});

Deno.test("Reconfiguration: warns when maintenance is allowed because the sensor is missing", async () => {
  const { logged, hear, window, reconfiguration } = await bench(draft({}));
  window.decision = { allowed: true, reason: "maintenance is allowed, there is no sensor to ask" };
  await hear(draft({}));
  assertEquals(logged(), ["warn maintenance is allowed, there is no sensor to ask"]);
  await reconfiguration.close();
});

Deno.test("Reconfiguration: a newer configuration does not wait for an unfinished apply", async () => {
  const { took, hear, window, reconfiguration } = await bench(draft({}, "1"));
  took();
  window.passUnderWay = new Promise(() => {});
  await hear(draft({}, "2"));
  await hear(draft({}, "3"));
  assertEquals(took(), ["adopt 2", "move 2", "keep 2", "apply 2", "adopt 3", "move 3", "keep 3", "apply 3"]);
  await reconfiguration.close();
});

Deno.test("Reconfiguration: after a failing step, the next configuration is still applied", async () => {
  const { took, logged, hear, faults, reconfiguration } = await bench(draft({}, "1"));
  for (const fault of ["keep", "apply", "adopt"]) {
    took();
    logged();
    faults.add(fault);
    await hear(draft({}, "2"));
    assertStringIncludes(logged().join(), `cannot ${fault}`);
    assertEquals(took().includes("apply 2"), fault !== "adopt");
    await hear(draft({}, "3"));
    assertEquals([took(), logged()], [["adopt 3", "move 3", "keep 3", "apply 3"], []]);
  }
  await reconfiguration.close();
});

Deno.test("logs configuration changes on request, at any level", async () => {
  const part = (speed: number) => {
    return {
      components: [{ name: "a", api: "rdk:component:generic", model: "part", attributes: { speed } }],
    };
  };
  const { records, hear, reconfiguration } = await bench(draft(part(1)), { showDiffs: true });
  await hear(draft(part(2)));
  assertEquals(records.map(({ level, message }) => `${level} ${message}`), [
    "info the configuration changes:\n~ resources.rdk:component:generic/a.attributes.speed: 1 -> 2",
  ]);
  await reconfiguration.close();
});
