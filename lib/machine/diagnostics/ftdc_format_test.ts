import { assertEquals } from "@std/assert";
import { gunzipSync, gzipSync } from "node:zlib";
import { decodeCapture, encodeBlock, type MetricSample } from "./ftdc_format.ts";

function samples(from: number, count: number): MetricSample[] {
  return Array.from({ length: count }, (_, index) => {
    const at = from + index;
    return { timeMs: 1_700_000_000_000 + at * 1000, values: { up: at * 7, "a b": at % 3 ? -at : 0 } };
  });
}

/** The metrics of a capture as plain arrays, `null` for unmeasured values. */
function plain(bytes: Uint8Array) {
  const { timesMs, metrics, damaged } = decodeCapture(bytes);
  const columns = [...metrics].map(([name, values]) => [
    name,
    values.map((value) => Number.isNaN(value) ? null : value),
  ]);
  return {
    times: timesMs.map((ms) => (ms - 1_700_000_000_000) / 1000),
    ...Object.fromEntries(columns),
    damaged,
  };
}

function joined(...parts: Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

Deno.test("encodeBlock: a block is a gzip member with a line of JSON, as documented", () => {
  const block = encodeBlock([
    { timeMs: 1_700_000_000_000, values: { "process.resident_bytes": 100_000, "calls.open": 2 } },
    { timeMs: 1_700_000_001_000, values: { "process.resident_bytes": 104_096 } },
    { timeMs: 1_700_000_002_001, values: { "process.resident_bytes": 104_096, "calls.open": 1.4, late: 5 } },
  ]);
  // Captures of older versions are found by these bytes.
  assertEquals(block.subarray(0, 16).toHex(), "1f8b0804" + "0000000000ff" + "0800" + "53560400");
  assertEquals(
    gunzipSync(block).toString(),
    '{"v":1,"time_ms":[1700000000000,1000,1001],"metrics":{' +
      '"process.resident_bytes":[100000,4096,0],"calls.open":[2,null,-1],"late":[null,null,5]}}\n',
  );
});

Deno.test("decodeCapture: reads consecutive blocks as a single capture, and metrics may come and go", () => {
  const late = [{ timeMs: 1_700_000_003_000, values: { up: 1, late: 9 } }];
  assertEquals(plain(joined(encodeBlock(samples(0, 3)), encodeBlock(late), encodeBlock(samples(4, 1)))), {
    times: [0, 1, 2, 3, 4],
    up: [0, 7, 14, 1, 28],
    "a b": [0, -1, -2, null, -4],
    late: [null, null, null, 9, null],
    damaged: 0,
  });
  assertEquals(plain(new Uint8Array()), { times: [], damaged: 0 });
});

Deno.test("decodeCapture: reads every whole block of a file that is cut at any byte", () => {
  const blocks = [encodeBlock(samples(0, 3)), encodeBlock(samples(3, 3))];
  const whole = joined(...blocks);
  for (let length = 0; length < whole.length; length++) {
    const { times, damaged } = plain(whole.subarray(0, length));
    const kept = length < blocks[0].length ? 0 : 1;
    assertEquals(
      [times.length, damaged > 0],
      [kept * 3, length !== 0 && length !== blocks[0].length],
      `${length}`,
    );
  }
});

Deno.test("decodeCapture: a damaged byte loses only the block that contains it", () => {
  const blocks = [encodeBlock(samples(0, 3)), encodeBlock(samples(3, 3)), encodeBlock(samples(6, 3))];
  const offset = blocks[0].length;
  for (let at = 0; at < blocks[1].length; at++) {
    const bytes = joined(...blocks);
    bytes[offset + at] ^= 0x55;
    const { times, damaged } = plain(bytes);
    const lost = times.filter((time: number) => time >= 3 && time < 6).length === 0;
    assertEquals([times.length, damaged, lost], [6, 1, true], `byte ${at}`);
  }
});

Deno.test("decodeCapture: a file in another format has no samples", () => {
  const nothing = { times: [], damaged: 1 };
  assertEquals(plain(new TextEncoder().encode('{"v":1,"time_ms":[],"metrics":{}}')), nothing);
  assertEquals(plain(gzipSync('{"v":1,"time_ms":[],"metrics":{}}')), nothing);
});
