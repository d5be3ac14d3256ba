/** Messages cut from bytes, time limits, status texts and metadata. */

import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { SvcError } from "../../base/error.ts";
import { all } from "../../../tests/support/echo.ts";
import {
  decodeStatusText,
  encodeStatusText,
  fieldsOf,
  formatTimeout,
  framed,
  isGrpc,
  metadataOf,
  parseTimeoutMs,
} from "./message.ts";
import { MessageReader } from "./message_reader.ts";
import { Metadata } from "./metadata.ts";

function texts(messages: Uint8Array[]): string[] {
  return messages.map((message) => Buffer.from(message).toString());
}

Deno.test("MessageReader: yields whole messages, whatever the size of the pieces", async () => {
  const stream = Buffer.concat(["", "a", "hello", "x".repeat(1000)].map((text) => framed(Buffer.from(text))));
  for (const size of [1, 2, 4, 5, 6, 7, 100, 10_000]) {
    const reader = new MessageReader();
    const read = all(reader);
    for (let at = 0; at < stream.length; at += size) reader.push(stream.subarray(at, at + size));
    reader.end();
    assertEquals(texts(await read), ["", "a", "hello", "x".repeat(1000)], `in pieces of ${size}`);
  }
});

Deno.test("MessageReader: returns window as messages are read, and at once during a partial message", async () => {
  let taken = 0;
  const reader = new MessageReader({ taken: (bytes) => void (taken += bytes) });
  reader.push(Buffer.concat([framed(Buffer.from("one")), framed(Buffer.from("two"))]));
  assertEquals(taken, 0);
  await reader.next();
  assertEquals(taken, 8);
  await reader.next();
  assertEquals(taken, 16);
  const large = framed(Buffer.alloc(100));
  const next = reader.next();
  reader.push(large.subarray(0, 50));
  assertEquals(taken, 66);
  reader.push(large.subarray(50));
  assertEquals((await next).value?.length, 100);
  assertEquals(taken, 16 + 105);
});

Deno.test("MessageReader: end comes after the queued messages, and abort at once", async () => {
  const ended = new MessageReader();
  ended.push(framed(Buffer.from("last")));
  ended.end(new SvcError("aborted", "after"));
  assertEquals((await ended.next()).done, false);
  await assertRejects(() => ended.next(), SvcError, "after");
  const aborted = new MessageReader();
  aborted.push(framed(Buffer.from("never read")));
  aborted.abort(new SvcError("canceled", "now"));
  await assertRejects(() => aborted.next(), SvcError, "now");
});

Deno.test("parseTimeoutMs: reads every grpc-timeout unit and refuses malformed values", () => {
  const cases: [string, number][] = [
    ["1H", 3_600_000],
    ["2M", 120_000],
    ["3S", 3000],
    ["4m", 4],
    ["5000u", 5],
    ["6000000n", 6],
    ["0m", 0],
  ];
  for (const [text, ms] of cases) assertEquals(parseTimeoutMs(text), ms);
  for (const text of ["", "1", "1s", "-1m", "1.5S", "123456789m", "1m "]) {
    assertThrows(() => parseTimeoutMs(text), SvcError, "grpc-timeout");
  }
  assertEquals([formatTimeout(1500.2), formatTimeout(-5), formatTimeout(1e9)], ["1501m", "0m", "1000000S"]);
});

Deno.test("encodeStatusText and decodeStatusText: round-trip any text", () => {
  for (const text of ["", "plain", "100 %", "grüß\n\t…", "\u{1f916}", "%zz", "\ud800"]) {
    const encoded = encodeStatusText(text);
    assertEquals(/^[ -~]*$/.test(encoded), true);
    assertEquals(decodeStatusText(encoded), text.toWellFormed());
  }
  assertEquals(encodeStatusText("é%"), "%C3%A9%25");
  assertEquals(decodeStatusText("50% off %4"), "50% off %4");
});

Deno.test("decodeStatusText: UTF-8 that a server has not encoded, alone and beside encoded letters", () => {
  const raw = (text: string) => Buffer.from(text).toString("latin1");
  assertEquals(decodeStatusText(raw("缺少请求参数: channel")), "缺少请求参数: channel");
  assertEquals(decodeStatusText(raw("caf\u00e9")), "caf\u00e9");
  assertEquals(decodeStatusText(`${raw("grüß")} %F0%9F%A4%96 100%`), "grüß \u{1f916} 100%");
});

Deno.test("isGrpc: the published forms of the content type, and no other type", () => {
  const good = ["", "+proto", "+json", ";charset=utf-8", " ; charset=utf-8", "+proto; charset=utf-8", " "];
  for (const end of good) assertEquals(isGrpc(`application/grpc${end}`), true, end);
  assertEquals(isGrpc("Application/gRPC"), true);
  for (const type of [undefined, "", "application/grpcx", "application/grpc-web", "text/plain"]) {
    assertEquals(isGrpc(type), false, type);
  }
});

Deno.test("metadataOf and fieldsOf: drop transport fields and invalid names", () => {
  const metadata = metadataOf([
    [":path", "/a"],
    ["content-type", "application/grpc"],
    ["grpc-timeout", "1S"],
    ["authorization", "Bearer x"],
    ["x-bin", "AA==,AQ=="],
    ["x-text", "a, b"],
  ]);
  assertEquals([...metadata], [["authorization", "Bearer x"], ["x-bin", "AA=="], ["x-bin", "AQ=="], [
    "x-text",
    "a, b",
  ]]);
  const outgoing = Metadata.from([["ok", "yes"], ["grpc-status", "0"], ["bad name", "x"], [
    "ctl",
    "a\r\nb: ü",
  ]]);
  assertEquals(fieldsOf(outgoing), [["ok", "yes"], ["ctl", "a??b: ?"]]);
});

Deno.test("fieldsOf: binary metadata is base64, also where it came as bytes", () => {
  const kept = ["", "AQI", "AQI=", "AAEC/w==", "hello, world", "\x01\x02", "a,b", "AQIDB", "ü"];
  const fields = fieldsOf(metadataOf(kept.map((value) => ["x-bin", value])));
  assertEquals(fields.map(([, value]) => value), [
    ...kept.slice(0, 4),
    ...["aGVsbG8sIHdvcmxk", "AQI", "YSxi", "QVFJREI", "w7w"],
  ]);
});

Deno.test("Metadata: the time to wait is what a server can mean, and bounded", () => {
  const times = [
    "0",
    "1",
    "2500",
    "99999999999999999999999",
    "-1",
    "NaN",
    "Infinity",
    "1e3",
    "1.5",
    "",
    " 5",
    "0x10",
  ]
    .map((text) => Metadata.from([["grpc-retry-pushback-ms", text]]).retryPushbackMs);
  const none = Array(8).fill(undefined);
  assertEquals(times, [0, 1, 2500, 300_000, ...none]);
  assertEquals(new Metadata().retryPushbackMs, undefined);
});
