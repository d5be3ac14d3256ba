import { assertEquals, assertThrows } from "@std/assert";
import { FlatTensorsSchema } from "../../../proto/gen/ml_model_pb.ts";
import { SvcError } from "../../base/error.ts";
import { create, fromBinary, type MessageInitShape, toBinary } from "../../wire/rpc/proto.ts";
import { fromTensorsMessage, type Tensors, toTensorsMessage } from "./ml_model.ts";

/** The tensors as they arrive at the other end. */
function sent(message: MessageInitShape<typeof FlatTensorsSchema>): Tensors {
  const bytes = toBinary(FlatTensorsSchema, create(FlatTensorsSchema, message));
  return fromTensorsMessage(fromBinary(FlatTensorsSchema, bytes));
}

Deno.test("tensors: every number type survives the message, at its limits too", () => {
  const big = 2n ** 63n;
  const tensors: Tensors = {
    int8: { shape: [3], data: Int8Array.of(-128, 0, 127) },
    uint8: { shape: [2], data: Uint8Array.of(0, 255) },
    int16: { shape: [3], data: Int16Array.of(-32768, -1, 32767) },
    uint16: { shape: [2], data: Uint16Array.of(0, 65535) },
    int32: { shape: [2], data: Int32Array.of(-(2 ** 31), 2 ** 31 - 1) },
    uint32: { shape: [2], data: Uint32Array.of(0, 2 ** 32 - 1) },
    int64: { shape: [2], data: BigInt64Array.of(-big, big - 1n) },
    uint64: { shape: [2], data: BigUint64Array.of(0n, 2n * big - 1n) },
    float: { shape: [4], data: Float32Array.of(0.1, NaN, -Infinity, 3.4e38) },
    double: { shape: [2], data: Float64Array.of(0.1, Number.MIN_VALUE) },
  };
  assertEquals(sent(toTensorsMessage(tensors)), tensors);
});

Deno.test("tensors: shapes of several, zero and empty dimensions survive the message", () => {
  const tensors: Tensors = {
    picture: { shape: [1, 2, 2, 3], data: new Uint8Array(12).map((_, index) => index) },
    scalar: { shape: [], data: Float32Array.of(7) },
    empty: { shape: [0, 4], data: new Float64Array() },
  };
  assertEquals(sent(toTensorsMessage(tensors)), tensors);
  assertEquals(sent({}), {});
  assertEquals(fromTensorsMessage(undefined), {});
});

Deno.test("tensors: a subarray sends only its own part", () => {
  const data = Int8Array.of(1, 2, 3, 4).subarray(1, 3);
  assertEquals(sent(toTensorsMessage({ part: { shape: [2], data } })).part.data, Int8Array.of(2, 3));
});

Deno.test("tensors: a shape that does not match its data is refused in both directions", () => {
  const bad = { shape: [2, 2], data: Float32Array.of(1, 2, 3) };
  assertThrows(
    () => toTensorsMessage({ bad }),
    SvcError,
    'tensor "bad" has the shape [2, 2] and 3 values, wanted 4',
  );
  const short = { shape: [3n], tensor: { case: "int8Tensor" as const, value: { data: new Uint8Array(2) } } };
  assertThrows(() => sent({ tensors: { short } }), SvcError, 'tensor "short" has the shape [3] and 2 values');
  const none = () => sent({ tensors: { none: { shape: [1n] } } });
  assertEquals(assertThrows(none, SvcError, 'tensor "none" has no data').code, "invalid_argument");
});
