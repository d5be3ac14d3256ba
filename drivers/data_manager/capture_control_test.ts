import { assertEquals, assertStringIncludes } from "@std/assert";
import { type Sensor, SensorApi } from "../../lib/api/sensors/sensor.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { testManager } from "../../tests/support/data_manager.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { BaseComponent, type Resource } from "../../lib/resource/resource.ts";
import type { Captured } from "../../lib/resource/uploader.ts";

const SECOND_MS = 1_000;

class Thermometer extends BaseComponent implements Sensor {
  readings: () => JsonObject = () => ({});

  // deno-lint-ignore require-await
  async getReadings(): Promise<JsonObject> {
    return this.readings();
  }
}

function thermometer(short: string): Thermometer {
  return new Thermometer(ResourceName.of(SensorApi.name, short));
}

/** A data manager that the sensor `control` controls, among these resources with their capture methods. */
async function bench(attributes: JsonObject, ...own: (readonly [Thermometer, ...JsonObject[]])[]) {
  const [clock, host, sent] = [
    new FakeClock(),
    new FakeHost({ env: { SVC_HOME: "/home" } }),
    [] as Captured[],
  ];
  const cloud = { refusal: (_data: Captured): void => {} };
  const control = thermometer("control");
  const resources = new Map<Resource, JsonObject[]>([[control, []]]);
  for (const [one, ...capture_methods] of own) resources.set(one, [{ capture_methods }]);
  const { manager, records } = await testManager({
    attributes: { capture_control_sensor: { name: "control", key: "overrides" }, ...attributes },
    resources,
    find: (_api, name) => [...resources.keys()].find((one) => one.name.short === name)!,
    clock,
    host,
    // deno-lint-ignore require-await
    send: async (data) => {
      cloud.refusal(data);
      sent.push(data);
    },
  });
  await manager.weakDependenciesChanged();
  const captures = async () => {
    const { captures } = await manager.getStatus();
    return (captures as JsonObject[]).map(({ resource, method, frequency_hz: hz }) =>
      `${String(resource).split("/")[1]} ${method} ${hz}`
    ).sort();
  };
  const messages = () => records.map(({ message }) => message);
  return { manager, control, clock, captures, messages, sent, cloud, host };
}

const READINGS = { method: "Readings", capture_frequency_hz: 2 };

Deno.test("a capture control sensor sets frequencies and tags over the configuration, and leaves the rest", async () => {
  const [inside, outside, cellar] = [
    thermometer("inside"),
    thermometer("outside"),
    thermometer("far:cellar"),
  ];
  const { manager, control, clock, captures, sent, messages } = await bench(
    { tags: ["all"], sync_interval_mins: 0 },
    [inside, { ...READINGS, tags: ["own"] }],
    [outside, { ...READINGS, disabled: true }],
    [cellar],
  );
  const says = async (...overrides: JsonObject[]) => {
    control.readings = () => ({ overrides });
    await clock.advance(SECOND_MS);
    return await captures();
  };
  const of = (resource_name: string, more: JsonObject = {}) => ({
    resource_name,
    method: "Readings",
    ...more,
  });
  assertEquals(await says(), ["inside Readings 2"]);
  assertEquals(await says(of("inside", { capture_frequency_hz: 0 })), []);
  assertEquals(await says(of("inside", { capture_frequency_hz: -1 })), []);
  assertEquals(await says(of("outside")), ["inside Readings 2"], "it stays disabled");
  assertEquals(await says(of("outside", { capture_frequency_hz: 5 })), [
    "inside Readings 2",
    "outside Readings 5",
  ]);
  // Without a configuration, and by the name without the remote.
  assertEquals(await says(of("cellar", { capture_frequency_hz: 1 })), [
    "far:cellar Readings 1",
    "inside Readings 2",
  ]);
  assertEquals(await says(of("cellar")), ["inside Readings 2"]);
  const unknown = [
    of("attic", { capture_frequency_hz: 1 }),
    { ...of("inside"), method: "Position", capture_frequency_hz: 1 },
  ];
  assertEquals(await says(...unknown), ["inside Readings 2"]);
  await says();
  assertEquals(await says(...unknown), ["inside Readings 2"]);
  assertEquals(messages().filter((one) => one.includes("names")), [
    "the capture control sensor names attic/Readings: there is no such resource",
    "the capture control sensor names inside/Position: it has no such method to capture",
  ]);
  assertStringIncludes(messages().join("\n"), "capture control sensor enabling capture for outside/Readings");

  await manager.sync();
  sent.length = 0;
  await says(of("inside", { tags: ["event"] }));
  await says();
  await manager.sync();
  assertEquals(sent.map(({ source: { tags } }) => tags.join()).sort(), ["all,own", "event"]);
  await manager.close();
});

Deno.test("without a usable answer of the capture control sensor the configuration counts", async () => {
  const inside = thermometer("inside");
  const { manager, control, clock, captures, messages } = await bench({}, [inside, READINGS]);
  const off = { resource_name: "inside", method: "Readings", capture_frequency_hz: 0 };
  const answers: (() => JsonObject)[] = [
    () => {
      throw new SvcError("unavailable", "it is broken");
    },
    () => ({ overrides: "x" }),
    () => ({ overrides: [{ ...off, capture_frequency_hz: "fast" }] }),
    () => ({ overrides: [off, { method: "Readings" }] }),
    () => ({ overrides: [{ ...off, capture_frequency_hz: 1e9 }] }),
    () => ({ overrides: Array.from({ length: 1_001 }, () => off) }),
    () => ({ other: [] }),
  ];
  for (const answer of answers) {
    control.readings = () => ({ overrides: [off] });
    await clock.advance(SECOND_MS);
    assertEquals(await captures(), []);
    control.readings = answer;
    const before = messages().length;
    await clock.advance(SECOND_MS);
    assertEquals(await captures(), ["inside Readings 2"]);
    const warnings = messages().slice(before).filter((one) =>
      one.startsWith('capture control sensor "control": ')
    );
    assertEquals(warnings.length, 1, "it is logged once");
  }
  await manager.close();
});

Deno.test("recordings of a capture control sensor become sequences, also when the program ends", async () => {
  const inside = thermometer("inside");
  const { manager, control, clock, sent, cloud, host } = await bench({ sync_interval_mins: 0 }, [
    inside,
    READINGS,
  ]);
  const resources = [{ resource_name: "inside", method: "Readings" }];
  const run = (...sequence_tags: string[]) => ({ resources, sequence_tags });
  const says = async (...sequences: JsonObject[]) => {
    control.readings = () => ({ sequences });
    await clock.advance(SECOND_MS);
  };
  const made = () =>
    sent.flatMap((one) => one.kind === "sequence" ? [one] : []).map(({ source, startMs, endMs }) => {
      return `${source.tags.join()} ${Math.round((endMs - startMs) / SECOND_MS)}`;
    });
  await says(run("a"));
  await says(run("b"), run("a"), { resources: [], sequence_tags: ["empty"] });
  await says(run("b"));
  await says();
  // The key may upload data and must not make sequences: the data arrive all the same.
  cloud.refusal = ({ kind }) => {
    if (kind === "sequence") throw new SvcError("permission_denied", "no sequences");
  };
  assertEquals(
    await manager.sync().then(() => "sent", (error) => SvcError.from(error).code),
    "permission_denied",
  );
  assertEquals([made(), sent.some(({ kind }) => kind === "readings")], [[], true]);
  cloud.refusal = () => {};
  await manager.sync();
  assertEquals(made().sort(), ["a 2", "b 2"]);
  const [first] = sent.filter(({ kind }) => kind === "sequence");
  assertEquals(first?.kind === "sequence" && first.resources, [{
    resourceName: "inside",
    methodName: "Readings",
  }]);

  await says(run("c"));
  await manager.close();
  const waiting = await Promise.all(
    (await host.filesAt("/home/capture")).map(({ path }) => host.readTextFile(path)),
  );
  assertEquals(waiting.filter((one) => one.includes('"kind":"sequence"') && one.includes('["c"]')).length, 1);
});
