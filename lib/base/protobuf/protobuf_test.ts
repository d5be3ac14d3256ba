import { assert, assertEquals, assertThrows } from "@std/assert";
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { SvcError } from "../error.ts";
import { IntList, ProtoReader } from "./reader.ts";
import { varint64Bytes, VARINT_BYTES_MAX, varintBytes, WIRE_TYPE } from "./wire_type.ts";
import { ProtoWriter } from "./writer.ts";

const NUMBERS = [0, 1, 127, 128, 16_383, 16_384, 2 ** 21 - 1, 2 ** 21, 2 ** 28 - 1, 2 ** 28, 2 ** 31 - 1];
const LARGE = [0n, 1n, -1n, 2n ** 32n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)];

Deno.test("ProtoWriter: writes what the published library reads, and the same bytes as it", () => {
  const [ours, theirs] = [new ProtoWriter(), new BinaryWriter()];
  for (const value of [...NUMBERS, -1, -(2 ** 31)]) {
    ours.tag(1, WIRE_TYPE.varint);
    ours.int32(value);
    theirs.tag(1, WireType.Varint).int32(value);
  }
  for (const value of LARGE) {
    ours.tag(2, WIRE_TYPE.varint);
    ours.int64(value);
    theirs.tag(2, WireType.Varint).int64(value);
  }
  for (const length of [0, 1, 127, 128, 20_000]) {
    ours.tag(3, WIRE_TYPE.bytes);
    ours.within(() => {
      ours.tag(4, WIRE_TYPE.bytes);
      ours.content(new Uint8Array(length).fill(7));
    });
    theirs.tag(3, WireType.LengthDelimited).fork();
    theirs.tag(4, WireType.LengthDelimited).bytes(new Uint8Array(length).fill(7)).join();
  }
  ours.tag(5, WIRE_TYPE.fixed64);
  ours.double(Math.PI);
  ours.tag(6, WIRE_TYPE.fixed32);
  ours.float(0.1);
  ours.tag(7, WIRE_TYPE.bytes);
  ours.text("größer");
  theirs.tag(5, WireType.Bit64).double(Math.PI).tag(6, WireType.Bit32).float(0.1);
  theirs.tag(7, WireType.LengthDelimited).string("größer");
  assertEquals(ours.finish(), theirs.finish() as Uint8Array<ArrayBuffer>);
});

Deno.test("ProtoWriter: a writer of the measured size hands out its own buffer", () => {
  for (const value of [...NUMBERS.map(BigInt), ...LARGE]) {
    const writer = new ProtoWriter(varint64Bytes(value));
    writer.int64(value);
    const bytes = writer.finish();
    assertEquals([bytes.length, bytes.buffer.byteLength], Array(2).fill(varint64Bytes(value)));
    const reader = new ProtoReader(bytes);
    assertEquals([reader.int64(), reader.ended], [value, true]);
    if (value >= 0n && value < 2n ** 32n) assertEquals(varintBytes(Number(value)), bytes.length);
  }
});

Deno.test("ProtoReader.number: is exact up to 53 bits, and zero only for zero", () => {
  for (const value of [...NUMBERS, 2 ** 53 - 1]) {
    const writer = new ProtoWriter();
    writer.int64(BigInt(value));
    assertEquals(new ProtoReader(writer.finish()).number(), value);
  }
  const low = new ProtoReader(Uint8Array.of(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1));
  assert(low.number() > 0);
});

Deno.test("ProtoReader: tags and lengths that another reader could take for something else are errors", () => {
  const refused: readonly [readonly number[], string][] = [
    [[0x88, 0x00], "a tag with needless bytes"],
    [[0x88, 0x80, 0x00], "a tag with needless bytes"],
    [[0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "a tag or a length of more than 31 bits"],
    [[0x88, 0x80, 0x80, 0x80, 0x10], "a tag or a length of more than 31 bits"],
    [[0x02], "a field with the number 0"],
    [[0x88], "too few bytes"],
    [[], "too few bytes"],
  ];
  for (const [bytes, problem] of refused) {
    assertThrows(() => new ProtoReader(Uint8Array.from(bytes)).tag(), SvcError, problem);
  }
  const long = [0xff, 0xff, 0xff, 0xff, 0x0f];
  assertThrows(() => new ProtoReader(Uint8Array.from(long)).content(), SvcError, "more than 31 bits");
  // Some writers fill up a length that they did not know before.
  assertEquals(new ProtoReader(Uint8Array.of(0x81, 0x80, 0, 9)).content(), Uint8Array.of(9));
  const endless = new Uint8Array(VARINT_BYTES_MAX + 1).fill(0x80);
  for (const read of ["int32", "int64", "number"] as const) {
    assertThrows(() => new ProtoReader(endless)[read](), SvcError, "a number of more than 10 bytes");
  }
});

Deno.test("ProtoReader: nothing reads beyond the field around it, and errors name the path", () => {
  const read = (...bytes: number[]) => {
    const reader = new ProtoReader(Uint8Array.from(bytes));
    reader.tag();
    reader.within("outer", () => {
      reader.tag();
      reader.within("inner", () => reader.int64());
    });
  };
  const [tag, inner] = [0x0a, 0x12];
  assertThrows(() => read(tag, 2, inner, 0x80, 1), SvcError, "outer.inner: found too few bytes");
  assertThrows(() => read(tag, 3, inner, 1, 0x80, 1), SvcError, "outer.inner: found too few bytes");
  const problem = "outer.inner: found a field of 2 bytes where 1 are left";
  assertThrows(() => read(tag, 3, inner, 2, 0x80, 1), SvcError, problem);
  read(tag, 4, inner, 2, 0x80, 1);

  const own = new ProtoReader(
    Uint8Array.of(1),
    (found, path) => new SvcError("data_loss", `${found}${path}`),
  );
  assertThrows(() => own.double(), SvcError, "too few bytes");
});

Deno.test("ProtoReader: reads what the published library writes, list by list within a limit", () => {
  const writer = new BinaryWriter().fork();
  for (const value of [...NUMBERS, -5]) writer.int32(value);
  const bytes = writer.join().finish();
  const list = new IntList(NUMBERS.length + 1);
  new ProtoReader(bytes).packedInt32(list);
  assertEquals([...list.finish()], [...NUMBERS, -5]);
  const short = new IntList(NUMBERS.length);
  assertThrows(() => new ProtoReader(bytes).packedInt32(short), SvcError, "wanted at most");
  const ours = new ProtoWriter();
  ours.packedInt32(list.finish());
  assertEquals(new BinaryReader(ours.finish()).bytes().length + 1, bytes.length);
  assertEquals(ours.finish(), bytes as Uint8Array<ArrayBuffer>);
});
