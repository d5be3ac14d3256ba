import { assertEquals } from "@std/assert";
import type { Json, JsonObject } from "../../base/schema/schema.ts";
import { payloadBytes } from "../capture/payload.ts";
import { fulfils, judge } from "./conditions.ts";
import { operandsOf, type TriggerEvals, triggersIn } from "./settings.ts";

const HOOK = { type: "webhook", value: "https://example.com/hook" };

function problemsOf(triggers: Json): string[] {
  return triggersIn(triggers).problems.map(({ severity, path, message }) =>
    `${severity} ${path}: ${message}`
  );
}

Deno.test("the published forms of triggers are read", () => {
  const { triggers, problems } = triggersIn([
    { name: "on", event: { type: "part_online" }, notifications: [HOOK], notes: "a note" },
    {
      name: "data",
      event: { type: "part_data_ingested", data_ingested: { data_types: ["binary", "tabular"] } },
      notifications: [{ type: "email", value: "you@example.com", seconds_between_notifications: 300 }],
    },
    {
      name: "hot",
      event: {
        type: "conditional_data_ingested",
        conditional: {
          data_capture_method: "sensor:t:Readings",
          conditions: { evals: [{ operator: "gt", value: { cpu: 50 } }] },
        },
      },
      notifications: [{ ...HOOK, auth: { basic: { username: "u", password: "p" } } }],
    },
    {
      name: "older form",
      event: {
        type: "conditional_data_ingested",
        conditional: {
          data_capture_method: "sensor:t:Readings",
          condition: { evals: [{ operator: "eq", value: { event_type: "fed" } }] },
        },
      },
      notifications: [HOOK],
    },
    {
      name: "logs",
      event: { type: "conditional_logs_ingested", log_levels: ["error", "warn"] },
      notifications: [HOOK],
    },
  ]);
  assertEquals(problems, []);
  assertEquals(triggers.map(({ name }) => name), ["on", "data", "hot", "older form", "logs"]);
  assertEquals(triggers[1].event.dataTypes, ["binary", "tabular"]);
  assertEquals(triggers[3].event.conditional?.conditions?.evals.length, 1);
  assertEquals(JSON.stringify(triggers).includes('"p"'), false);
});

Deno.test("each problem of a trigger names its place, and what this control plane cannot do is a warning", () => {
  const of = (event: Json, value: Json = HOOK) => [{ name: "t", event, notifications: [value] }];
  const online = { type: "part_online" };
  assertEquals(problemsOf("x").length, 1);
  assertEquals(problemsOf([7]).length, 1);
  assertEquals(problemsOf(of({ type: "part_gone" })).length, 1);
  assertEquals(
    problemsOf(of({ type: "part_data_ingested" }))[0].includes("event.data_ingested.data_types"),
    true,
  );
  assertEquals(problemsOf(of({ type: "conditional_logs_ingested" })).length, 1);
  assertEquals(problemsOf(of(online, { type: "webhook", value: "file:///etc/passwd" })).length, 1);
  const credentials = problemsOf(of(online, { type: "webhook", value: "https://a:secret@example.com/" }));
  assertEquals(credentials.length === 1 && !credentials[0].includes("secret"), true);
  for (const value of ["a@b, c@d", "a@b\nBcc: c@d", "<a@b>", "nobody"]) {
    assertEquals(problemsOf(of(online, { type: "email", value })).length, 1, value);
  }
  assertEquals(problemsOf([...of(online), ...of(online)])[0].includes("another trigger"), true);
  const regex = (right: Json) => ({
    type: "conditional_data_ingested",
    conditional: {
      data_capture_method: "a:b:c",
      conditions: { evals: [{ operator: "regex", value: { x: right } }] },
    },
  });
  assertEquals(problemsOf(of(regex("(")))[0].startsWith("error triggers.0.event"), true);
  assertEquals(problemsOf(of(regex("a+"))), []);
  assertEquals(problemsOf(of(online, { type: "email", value: "all_machine_owners" })), []);
  const push = { type: "push", value: "x", application: "y" };
  assertEquals(problemsOf(of(online, push))[0].startsWith("warning"), true);
});

Deno.test("conditions compare the values at a path, in readings or beside them", () => {
  const holds = (reading: JsonObject, operator: TriggerEvals[number]["operator"], value: NonNullable<Json>) =>
    fulfils(reading, [{ operator, value }]);
  const cpu = {
    readings: { cpu: 80, name: "hot spot", at: { latitude: 40 }, on: true, list: [{ a: 1 }, { a: 2 }] },
  };
  assertEquals(holds(cpu, "gt", { cpu: 50 }), true);
  assertEquals(holds(cpu, "gt", { "readings.cpu": 50 }), true);
  assertEquals(holds(cpu, "lte", { cpu: 50 }), false);
  assertEquals(holds(cpu, "gte", { cpu: 80 }), true);
  assertEquals(holds(cpu, "lt", { at: { latitude: 50 } }), true);
  assertEquals(holds(cpu, "lt", { "at.latitude": 40 }), false);
  assertEquals(holds(cpu, "eq", { on: true }), true);
  assertEquals(holds(cpu, "neq", { name: "cold" }), true);
  assertEquals(holds(cpu, "regex", { name: "^hot" }), true);
  assertEquals(holds(cpu, "regex", { cpu: "8" }), false);
  assertEquals(holds(cpu, "eq", { "list.a": 2 }), true);
  assertEquals(holds(cpu, "eq", { "list.1.a": 1 }), false);
  // What is not there, or of another type, fulfils nothing.
  assertEquals(holds(cpu, "neq", { gone: 1 }), false);
  assertEquals(holds(cpu, "gt", { name: 1 }), false);
  assertEquals(holds({ readings: { "a.b": 1 } }, "eq", { "a.b": 1 }), true);
  assertEquals(holds({ readings: JSON.parse('{"x": 1}') }, "eq", { __proto__: null, constructor: 1 }), false);
  assertEquals(operandsOf({ a: { b: { c: 1, d: 2 } } }), { path: ["a", "b"], right: { c: 1, d: 2 } });

  const payloads = [10, 60, 70].map((cpu) => payloadBytes({ readings: { cpu } }));
  const evals = (value: number): TriggerEvals => [{ operator: "gt", value: { cpu: value } }];
  assertEquals(judge({ payloads, conditions: [evals(50), evals(90), []] }), [1, -1, 0]);
});
