import { assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { PublishedCapture } from "./published_ftdc.ts";
import type { MetricSample } from "./ftdc_format.ts";

const START_MS = 1_700_000_000_123;

/** Reads a file as the published reader does. */
function read(file: Uint8Array): { timeMs: number; values: Record<string, number> }[] {
  const bytes = Buffer.from(file);
  const found: { timeMs: number; values: Record<string, number> }[] = [];
  let names: string[] = [];
  let values: number[] = [];
  for (let at = 0; at < bytes.length;) {
    if (bytes[at] === 1) {
      const end = bytes.indexOf("\n", at);
      names = JSON.parse(bytes.subarray(at + 1, end).toString());
      values = names.map(() => 0);
      at = end + 1;
      continue;
    }
    const bits = bytes.subarray(at, at += 1 + Math.floor(names.length / 8));
    const timeMs = Number(bytes.readBigInt64BE(at) / 1_000_000n);
    at += 8;
    for (const index of names.keys()) {
      if (((bits[(index + 1) >> 3] >> ((index + 1) & 7)) & 1) === 0) continue;
      values[index] = bytes.readFloatBE(at);
      at += 4;
    }
    found.push({ timeMs, values: Object.fromEntries(names.map((name, index) => [name, values[index]])) });
  }
  return found;
}

function encoded(samples: readonly MetricSample[]): Uint8Array {
  const capture = new PublishedCapture();
  return Buffer.concat(samples.map((sample) => capture.encode(sample)));
}

const sample = (second: number, values: Record<string, number>) => ({
  timeMs: START_MS + second * 1_000,
  values,
});

Deno.test("published captures: values, unchanged ones, metrics that come and go", () => {
  const samples = [
    sample(0, { "b.two": 2, "a.one": 1, "a.zero": 0 }),
    sample(1, { "b.two": 2, "a.one": 5, "a.zero": 0 }),
    sample(2, { "b.two": 0, "a.one": 5, "a.zero": -7 }),
    sample(3, { "b.two": 9 }),
    sample(4, { "b.two": 9, "c.new": 1 }),
  ];
  assertEquals(read(encoded(samples)), samples.map(({ timeMs, values }) => ({ timeMs, values })));
});

Deno.test("published captures: the documents are those of the published example", () => {
  const values = { "gps.lat": 40.75, "gps.long": -74, "motor.pos": 5000, "motor.powerPct": 0.25 };
  const bytes = encoded([sample(0, values), sample(1, { ...values, "gps.long": -75, "motor.pos": 5001 })]);
  const text = `\x01["gps.lat","gps.long","motor.pos","motor.powerPct"]\n`;
  assertEquals(Buffer.from(bytes.subarray(0, text.length)).toString("latin1"), text);
  const [first, second] = [text.length, text.length + 1 + 8 + 4 * 4];
  assertEquals([bytes[first], bytes[second]], [0b11110, 0b01100]);
  assertEquals(bytes.length, second + 1 + 8 + 2 * 4);
});

Deno.test("published captures: any number of metrics, names without a dot, values that are none", () => {
  for (const count of [0, 1, 6, 7, 8, 9, 15, 16, 100]) {
    const values = Object.fromEntries(Array.from({ length: count }, (_, at) => [`m.n${at}`, at + 1]));
    const samples = [sample(0, values), sample(1, { ...values, "m.n0": 77 })];
    assertEquals(read(encoded(samples)).map((one) => one.values), samples.map((one) => one.values));
  }
  const [odd] = read(encoded([sample(0, { plain: 3, "a.b": NaN, "a.c": Infinity, 'q."x"\n': 1 })]));
  assertEquals(odd.values, { "machine.plain": 3, 'q."x"\n': 1 });
});

Deno.test("published captures: a time that a reader stops at needs a file of its own", () => {
  const capture = new PublishedCapture();
  const at = (second: number) => sample(second, { "a.b": 1 });
  assertEquals(capture.needsFile(at(0)), false);
  capture.encode(at(0));
  const needs = [-1, 0, 1, 86_400, 86_401].map((second) => capture.needsFile(at(second)));
  assertEquals(needs, [true, false, false, false, true]);
  capture.startFile();
  assertEquals(capture.needsFile(at(-1)), false);
  assertEquals(read(capture.encode(at(-1))).length, 1);
});
