import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { InputEvents } from "./input_events.ts";

const event = (event: string, control = "ButtonStart") => ({ timeMs: 0, event, control, value: 1 });

Deno.test("InputEvents: a stream receives the events of its filters, and every kind with AllEvents", async () => {
  const cases: [filter: string, event: string, heard: boolean][] = [
    ["ButtonPress", "ButtonPress", true],
    ["ButtonPress", "ButtonRelease", false],
    ["ButtonChange", "ButtonPress", true],
    ["ButtonChange", "ButtonRelease", true],
    ["ButtonChange", "ButtonHold", false],
    ["AllEvents", "Disconnect", true],
  ];
  for (const [filter, happened, heard] of cases) {
    const events = new InputEvents();
    const stream = events.stream([{ control: "ButtonStart", events: [filter] }]);
    const next = stream[Symbol.asyncIterator]().next();
    events.tell(event(happened, "ButtonMenu"));
    events.tell(event(happened));
    events.close();
    assertEquals(!(await next).done, heard, `${filter} ${happened}`);
  }
});

Deno.test("InputEvents: a slow reader's stream ends with resource_exhausted", async () => {
  const events = new InputEvents();
  const stream = events.stream([{ control: "ButtonStart", events: ["AllEvents"] }])[Symbol.asyncIterator]();
  for (let count = 0; count < 1025; count++) events.tell(event("ButtonPress"));
  const error = await assertRejects(() => stream.next(), SvcError, "wanted a faster reader");
  assertEquals(error.code, "resource_exhausted");
  assertEquals(events.wanted, []);
});

Deno.test("InputEvents: wanted lists each event of open streams once", () => {
  const events = new InputEvents();
  const filters = [{ control: "ButtonStart", events: ["ButtonPress", "ButtonHold"] }];
  events.stream(filters);
  events.stream(filters);
  assertEquals(events.wanted.map(({ event }) => event), ["ButtonPress", "ButtonHold"]);
  events.close();
  assertEquals(events.wanted, []);
});

Deno.test("InputEvents: a controller has at most 256 controls, which keep their events", () => {
  const events = new InputEvents();
  for (let k = 0; k < 256; k++) events.happened(event("ButtonPress", `Button${k}`));
  const found = "an input controller has at most 256 controls";
  const { code } = assertThrows(() => events.happened(event("ButtonPress", "one more")), SvcError, found);
  assertEquals(code, "resource_exhausted");
  events.happened(event("ButtonRelease", "Button255"));
  assertEquals([events.latest.length, events.latest.at(-1)?.event], [256, "ButtonRelease"]);
});
