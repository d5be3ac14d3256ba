/**
 * Schemas: decoding, errors, and the published JSON Schema.
 */

import { assert, assertEquals } from "@std/assert";
import {
  any,
  anyObject,
  bool,
  choice,
  type ConfigField,
  DecodeContext,
  duration,
  formatDuration,
  integer,
  list,
  mapOf,
  number,
  object,
  orNothing,
  parseDurationMs,
  respelled,
  show,
  snake,
  text,
  unserved,
} from "./schema.ts";
import { secret } from "../secret.ts";

/** Decodes and returns the value with the problems as lines. */
function decode<T>(field: ConfigField<T>, value: unknown): { value: T; problems: string[]; named: string[] } {
  const at = new DecodeContext();
  const decoded = field.decode(value, at);
  const problems = at.problems.map(({ severity, path, message }) =>
    `${severity === "warning" ? "warning " : ""}${path}: ${message}`
  );
  return { value: decoded, problems, named: at.named.map(({ path, name }) => `${path}=${name}`) };
}

function problemsOf<T>(field: ConfigField<T>, value: unknown): string[] {
  return decode(field, value).problems;
}

const MOTOR = object({
  maxRpm: number("rpm", { above: 0 }).required(),
  board: text("board").names("board"),
  dirFlip: bool().aka("direction_flip").default(false),
  timeoutMs: duration().key("timeout").default(90_000),
  pins: object({ a: text(), b: text() }),
});

Deno.test("object: maps published keys to properties", () => {
  const { value, problems, named } = decode(MOTOR, {
    max_rpm: 100,
    board: "local",
    direction_flip: true,
    timeout: "2s",
    pins: { a: "1" },
  });
  assertEquals(problems, []);
  assertEquals(value, {
    maxRpm: 100,
    board: "local",
    dirFlip: true,
    timeoutMs: 2000,
    pins: { a: "1", b: undefined },
  });
  assertEquals(named, ["board=local"]);
});

Deno.test("object: accepts keys in other letter case, unless the exact key is present", () => {
  const { value, problems } = decode(MOTOR, { MAX_RPM: 100, Pins: { A: "1", B: "2", b: "3" } });
  assertEquals([value?.maxRpm, value?.pins], [100, { a: "1", b: "3" }]);
  assertEquals(problems, [
    'warning MAX_RPM: taken as "max_rpm"',
    'warning Pins: taken as "pins"',
    'warning Pins.A: taken as "a"',
    'warning Pins.B: unknown key, ignored; did you mean "b"?',
  ]);
  assertEquals(problemsOf(MOTOR, { Max_RPM: "fast" }), [
    'warning Max_RPM: taken as "max_rpm"',
    'Max_RPM: found "fast", wanted a number greater than 0',
  ]);
});

Deno.test("object: null counts as absent, and absent settings get their defaults", () => {
  const { value, problems } = decode(MOTOR, { max_rpm: 1, dir_flip: null, pins: null });
  assertEquals(problems, []);
  assertEquals([value?.dirFlip, value?.timeoutMs, value?.pins], [false, 90_000, undefined]);
});

Deno.test("an empty text counts as absent where a field says so, and is missed where the setting is required", () => {
  assertEquals(decode(MOTOR, { max_rpm: 1, timeout: "" }).value?.timeoutMs, 90_000);
  const word = text().emptyIsAbsent();
  assertEquals([decode(word, "").value, decode(word.default("a"), "").value], [undefined, "a"]);
  assertEquals(problemsOf(word.required(), ""), [": missing required field, wanted a string"]);
  assertEquals(decode(text(), "").value, "");
});

Deno.test("a number of 0 counts as absent where a field says so, although the range excludes it", () => {
  const share = number("", { min: 0.06, max: 1 }).zeroIsAbsent();
  assertEquals([decode(share, 0).value, decode(share.default(1), 0).value], [undefined, 1]);
  assertEquals(problemsOf(share, 0), []);
  assertEquals(problemsOf(share, 0.05), [": found 0.05, wanted a number from 0.06 to 1"]);
  assertEquals(decode(number().default(1), 0).value, 0);
});

Deno.test("object: reports every problem with its path", () => {
  assertEquals(problemsOf(MOTOR, { board: 7, pins: { a: [], c: 1 }, dir_flp: true, timeout: "soon" }), [
    'warning dir_flp: unknown key, ignored; did you mean "dir_flip"?',
    "max_rpm: missing required field, wanted a number greater than 0",
    "board: found 7, wanted a string",
    'timeout: found "soon", wanted a duration such as "10s" or "1m30s"',
    "warning pins.c: unknown key, ignored",
    "pins.a: found an empty array, wanted a string",
  ]);
});

Deno.test("object: lists the first ten unknown keys and counts the rest", () => {
  const keys = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`k${index}`, 1]));
  const problems = problemsOf(object({}), keys);
  assertEquals([problems.length, problems.at(-1)], [11, "warning : 990 more unknown keys, ignored"]);
});

const WRONG: readonly [field: ConfigField<unknown>, value: unknown, problem: string][] = [
  [text(), 1, ": found 1, wanted a string"],
  [text("", { pattern: /^a$/, wanted: "an a" }), "b", ': found "b", wanted an a'],
  [bool(), "true", ': found "true", wanted true or false'],
  [number(), "1", ': found "1", wanted a number'],
  [number(), NaN, ": found NaN, wanted a number"],
  [number("", { min: 0, max: 1 }), 2, ": found 2, wanted a number from 0 to 1"],
  [number("", { min: 0 }), -1, ": found -1, wanted a number of at least 0"],
  [number("", { max: 0 }), 1, ": found 1, wanted a number of at most 0"],
  [integer("", { exact: true }), 1.5, ": found 1.5, wanted an integer"],
  [integer("", { min: 1 }), 0.5, ": found 0.5, wanted an integer of at least 1"],
  [integer(), 2 ** 60, ": found 1152921504606847000, wanted an integer"],
  [choice("", ["on", "off"]), "of", ': found "of", wanted one of "on", "off"; did you mean "off"?'],
  [choice("", ["on"]), 3, ': found 3, wanted "on"'],
  [duration(), 10, ': found 10, wanted a duration such as "10s" or "1m30s"'],
  [anyObject(), [1], ": found an array, wanted an object"],
  [object({}), "x", ': found "x", wanted an object'],
  [list(text()), {}, ": found an object, wanted an array"],
  [list(text()), ["a", null], "1: missing required field, wanted a string"],
  [mapOf(number()), { a: "x" }, 'a: found "x", wanted a number'],
  [any().required(), undefined, ": missing required field, wanted a value"],
];

Deno.test("schema: each problem contains the found and the wanted value", () => {
  for (const [field, value, problem] of WRONG) assertEquals(problemsOf(field, value), [problem]);
});

Deno.test("integer: takes the whole part of a fraction, with a warning", () => {
  const cases: [number, number][] = [[800.5, 800], [100.999, 100], [-1.5, -1], [-0.5, 0], [1e3, 1000]];
  for (const [written, taken] of cases) {
    const { value, problems } = decode(integer(), written);
    assertEquals([value, problems.length], [taken, taken === written ? 0 : 1]);
  }
  assertEquals(problemsOf(integer("", { max: 10 }), 10.5), [
    "warning : found 10.5, taken as 10: wanted an integer of at most 10",
  ]);
});

Deno.test("in attributes, the zero value of a kind is the default unless it is as good as any other", () => {
  const field = object({
    format: choice("", ["yuyv", "mjpeg"]).default("mjpeg"),
    model: text().default("ur5e"),
    word: text("", { pattern: /^a$/ }),
    rate: number("", { above: 0 }).default(5),
    count: integer("", { min: 2 }).default(7),
    level: number("", { min: 0 }).default(9),
    power: number("", { min: 0.06, max: 1 }).zeroCounts().default(1),
    names: list(text()).default(["x"]),
  });
  const zeros = { format: "", model: "", word: "", rate: 0, count: 0, level: 0, names: [""] };
  const at = new DecodeContext().ofAttributes;
  assertEquals(field.decode(zeros, at), {
    format: "mjpeg",
    model: "ur5e",
    word: undefined,
    rate: 5,
    count: 7,
    level: 0,
    power: 1,
    names: [""],
  });
  assertEquals(at.problems, []);
  const outside = decode(field, { format: "", rate: 0, power: 0 });
  assertEquals(outside.problems.map((problem) => problem.split(":")[0]), ["format", "rate", "power"]);
  const required = object({ pin: text().required(), width: integer("", { min: 1 }).required() });
  const strict = new DecodeContext("attributes").ofAttributes;
  required.decode({ pin: "", width: 0 }, strict);
  field.decode({ power: 0 }, strict);
  assertEquals(strict.problems.map(({ path, message }) => `${path}: ${message}`), [
    "attributes.pin: missing required field, wanted a string",
    "attributes.width: found 0, wanted an integer of at least 1",
    "attributes.power: found 0, wanted a number from 0.06 to 1",
  ]);
});

Deno.test("orNothing: a mistake costs the value, with a warning", () => {
  const field = object({
    frame: orNothing(object({ x: number().required() }), "the frame is ignored"),
    n: number(),
  });
  const { value, problems } = decode(field, { frame: { x: "far" }, n: 1 });
  assertEquals(value, { frame: undefined, n: 1 });
  assertEquals(problems, [
    'warning frame.x: found "far", wanted a number (the frame is ignored)',
  ]);
  assertEquals(decode(field, { frame: { x: 1 } }).value, { frame: { x: 1 }, n: undefined });
});

Deno.test("unserved: a published setting without effect is known, and a warning unless it asks for nothing", () => {
  const field = object({ logFilePath: unserved("there is no such file") });
  assertEquals(decode(field, { log_file_path: "x" }).problems, [
    "warning log_file_path: not served: there is no such file",
  ]);
  for (const nothing of ["", 0, false, null]) {
    assertEquals(decode(field, { log_file_path: nothing }).problems, []);
  }
});

Deno.test("respelled: gives keys the field's letter case, and leaves others alone", () => {
  const field = object({ maxRpm: number(), name: text() });
  assertEquals(respelled({ MAX_RPM: 1, Name: "a", other: 2 }, field), { max_rpm: 1, name: "a", other: 2 });
  assertEquals(respelled({ NAME: "a", name: "b" }, field), { NAME: "a", name: "b" });
  assertEquals(respelled("text", field), {});
});

Deno.test("with: converts and checks decoded values and defaults, and skips invalid values", () => {
  const length = text().with((value) => value.length);
  assertEquals(decode(length, "abc").value, 3);
  assertEquals(decode(length, undefined).value, undefined);
  assertEquals(decode(length, 5).value, undefined);
  assertEquals(decode(text().default("four").with((value) => value.length), null).value, 4);
  const pair = object({ low: number().default(0), high: number().default(1) })
    .with((value, at) => value.low <= value.high ? value : at.at("low").error("above high"));
  assertEquals(problemsOf(pair, { low: 2 }), ["low: above high"]);
  assertEquals(problemsOf(pair, { low: "x" }), ['low: found "x", wanted a number']);
});

Deno.test("default: a setting with a default is never undefined after decoding", () => {
  const rows: ConfigField<unknown>[] = [
    text().default(""),
    bool().default(false),
    integer("", { min: 0 }).default(1),
    choice("", ["on"]).default("on"),
    duration().default(1000),
    list(text()).default([]),
    mapOf(number()).default({}),
    anyObject().default({}),
    text().default("a").with((value, at) => value === "a" ? value : at.error("no a")),
    text().with((value, at) => value === "a" ? value : at.error("no a")).default("a"),
    object({ a: text(), b: object({ c: bool().default(true) }).orEmpty() }).orEmpty(),
    object({ a: bool().default(true) }).with((value, at) => value.a ? value : at.error("no a")).orEmpty(),
  ];
  for (const field of rows) {
    const usual = field.decode(undefined, new DecodeContext());
    assert(usual !== undefined);
    for (
      const wrong of [-1, 1.5, "x", false, [], [1], {}, { a: 1 }, { a: false }, { b: 1 }, { b: { c: 1 } }]
    ) {
      const { value, problems } = decode(field, wrong);
      assert(value !== undefined, `${field.spec.wanted}: ${JSON.stringify(wrong)}`);
      if (problems.length > 0 && field.spec.wanted !== "an object") assertEquals(value, usual);
    }
  }
  const section = object({
    limit: number().default(5),
    deep: object({ on: bool().default(true) }).orEmpty(),
  });
  assertEquals(decode(section.orEmpty(), undefined), {
    value: { limit: 5, deep: { on: true } },
    problems: [],
    named: [],
  });
  assertEquals(decode(section.orEmpty(), { limit: "x", deep: 7 }), {
    value: { limit: 5, deep: { on: true } },
    problems: ['limit: found "x", wanted a number', "deep: found 7, wanted an object"],
    named: [],
  });
});

Deno.test("jsonSchema: shows a default in its written form", () => {
  const port = text().with((value) => ({ port: Number(value) }));
  assertEquals(port.default({ port: 80 }, "80").jsonSchema(), { type: "string", default: "80" });
  assertEquals(port.default({ port: 80 }).jsonSchema(), { type: "string" });
});

Deno.test("names: collects names of other resources, including defaults", () => {
  const field = object({ left: list(text()).names("motor"), board: text().default("local").names("board") });
  assertEquals(decode(field, { left: ["a", "", "b"] }).named, ["left=a", "left=b", "board=local"]);
});

Deno.test("mapOf: keys such as __proto__ and constructor are data", () => {
  const { value } = decode(mapOf(text()), JSON.parse('{"__proto__": "a", "constructor": "b"}'));
  assertEquals(Object.entries(value!), [["__proto__", "a"], ["constructor", "b"]]);
  const { value: empty } = decode(object({ constructor: text() }), {});
  assertEquals(empty?.constructor, undefined);
});

Deno.test("jsonSchema: describes the values that the field accepts", () => {
  assertEquals(MOTOR.jsonSchema(), {
    type: "object",
    properties: {
      max_rpm: { type: "number", exclusiveMinimum: 0, description: "rpm" },
      board: { type: "string", description: "board" },
      dir_flip: { type: "boolean", default: false },
      direction_flip: { type: "boolean", default: false },
      timeout: {
        type: "string",
        pattern: "^(?:0|[+-]?(?:(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:ns|us|µs|ms|s|m|h))+)$",
        default: "1m30s",
      },
      pins: { type: "object", properties: { a: { type: "string" }, b: { type: "string" } } },
    },
    required: ["max_rpm"],
  });
  const either = object({ name: text().required().aka("label") }).jsonSchema();
  assertEquals(either.allOf, [{
    anyOf: [
      { properties: { name: {} }, required: ["name"] },
      { properties: { label: {} }, required: ["label"] },
    ],
  }]);
  const converted = text().with((value) => value.length).default(3).jsonSchema();
  assertEquals(converted, { type: "string" });
});

Deno.test("parseDurationMs and formatDuration: follow Go's duration format", () => {
  const cases: [string, number | undefined][] = [
    ["0", 0],
    ["10s", 10_000],
    ["1m30s", 90_000],
    ["1.5h", 5_400_000],
    [".5s", 500],
    ["2us", 0.002],
    ["2µs", 0.002],
    ["-1s", -1000],
    ["+1s", 1000],
    ["1h0m0s", 3_600_000],
    ["10", undefined],
    ["s", undefined],
    ["1 s", undefined],
    ["1d", undefined],
    ["", undefined],
    [`${"1".repeat(100_000)}`, undefined],
  ];
  for (const [written, ms] of cases) assertEquals(parseDurationMs(written), ms, written);
  for (const ms of [0, 5, 500, 1000, 90_000, 3_600_000, 3_661_000, -1500]) {
    assertEquals(parseDurationMs(formatDuration(ms)), ms);
  }
});

Deno.test("show: shortens a found value to a readable length", () => {
  assertEquals([show({ a: 1 }), show([1]), show([]), show(null)], [
    "an object",
    "an array",
    "an empty array",
    "null",
  ]);
  assert(show("x".repeat(10_000)).length <= 80);
});

Deno.test("snake: converts a property name to its published form", () => {
  assertEquals([snake("maxRpm"), snake("a"), snake("encABoard")], ["max_rpm", "a", "enc_a_board"]);
});

Deno.test("with: an error of a further check names the value as it is written, unless it is secret", () => {
  const field = object({
    window: duration().with((ms, at) => ms >= 30 ? ms : at.error("wanted a duration of at least 30ms")),
    size: integer().with((size, at) => size % 2 === 0 ? size : at.error("an odd size cannot be shown")),
    file: text().with((file, at) => file.endsWith(".pcd") ? file : at.error(`"${file}" is not a .pcd file`)),
    sides: list(number()).with((sides, at) => sides.length === 3 ? sides : at.error("wanted three sides")),
    passphrase: secret().with((phrase, at) =>
      phrase.reveal().length > 7 ? phrase : at.error("wanted 8 letters")
    ),
  }).required();
  const at = new DecodeContext();
  field.decode({ window: "20ms", size: 3, file: "a.ply", sides: [1], passphrase: "short" }, at);
  assertEquals(at.problems.map(({ path, message }) => `${path}: ${message}`), [
    'window: found "20ms", wanted a duration of at least 30ms',
    "size: found 3: an odd size cannot be shown",
    'file: "a.ply" is not a .pcd file',
    "sides: wanted three sides",
    "passphrase: wanted 8 letters",
  ]);
});

Deno.test("show: no error shows the password or the signature in an address", () => {
  const field = object({
    address: text().with((address, at) => address.startsWith("https:") ? address : at.error("wanted https")),
    path: text().with((path, at) => path.startsWith("/") ? path : at.error("wanted a path")),
    port: integer(),
  });
  const at = new DecodeContext();
  const path = "s3://bucket/a?X-Amz-Signature=hunter2hunter2";
  field.decode({ address: "http://ann:hunter2@host/a", path, port: "rtsp://ann:hunter2@camera/1" }, at);
  assertEquals(at.problems.map(({ path }) => path), ["address", "path", "port"]);
  for (const { message } of at.problems) assert(!message.includes("hunter2"), message);
});
