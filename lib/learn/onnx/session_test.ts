import { assertEquals, assertRejects } from "@std/assert";
import { boxesModel, doubleModel, unknownOperatorModel } from "../../../tests/support/onnx_models.ts";
import { endlessModel } from "../../../tests/attack/hostile_models.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type Code, SvcError } from "../../base/error.ts";
import { CLOSE_MS, openOnnx, RUNS_WAITING_MAX } from "./session.ts";
import type { OnnxTensors } from "./tensors.ts";
import { OnnxGraph } from "./writer.ts";

function rows(...values: number[]): OnnxTensors {
  return { a: { type: "float32", shape: [2, 4], data: Float32Array.from(values) } };
}

const EIGHT = rows(1, 2, 3, 4, 5, 6, 7, -8);

async function refuses(code: Code, message: string, work: () => Promise<unknown>): Promise<void> {
  const error = await assertRejects(work, SvcError, message);
  assertEquals(error.code, code);
}

Deno.test("OnnxSession: lists inputs and outputs, and computes the result", async () => {
  const session = await openOnnx(doubleModel());
  assertEquals(session.inputs, [{ name: "a", type: "float32", shape: [2, 4] }]);
  assertEquals(session.outputs, [{ name: "b", type: "float32", shape: [2, 4] }]);
  const { b } = await session.run(EIGHT);
  assertEquals(b, { type: "float32", shape: [2, 4], data: Float32Array.of(2, 4, 6, 8, 10, 12, 14, -16) });
  assertEquals(EIGHT.a.data.length, 8, "what was given is still the caller's");
  await session.close();
});

Deno.test("OnnxSession: tensors of 16-bit floats come and go as float32", async () => {
  const graph = new OnnxGraph();
  const half = graph.input("half", "float16", [2, 4]), whole = graph.input("whole", "float32", [1]);
  graph.output(graph.node("Add", [half, half], {}, "sum"), "float16", [2, 4]);
  graph.output(graph.node("Add", [whole, whole], {}, "twice"), "float32", [1]);
  const session = await openOnnx(graph.model("halves", "test", {}));
  assertEquals(session.inputs.map(({ type }) => type), ["float32", "float32"]);
  assertEquals(session.outputs.map(({ type }) => type), ["float32", "float32"]);
  const values = Float32Array.of(0, 1, -2.5, 0.333251953125, 65504, 40_000, NaN, Infinity);
  const inputs: OnnxTensors = {
    half: { type: "float32", shape: [2, 4], data: values },
    whole: { type: "float32", shape: [1], data: Float32Array.of(0.1) },
  };
  const { sum, twice } = await session.run(inputs);
  const doubled = Float32Array.of(0, 2, -5, 0.66650390625, Infinity, Infinity, NaN, Infinity);
  assertEquals(sum, { type: "float32", shape: [2, 4], data: doubled });
  assertEquals(twice.data, Float32Array.of(0.2));
  await refuses("invalid_argument", 'input "half" is float64 [2, 4], wanted float32 [2, 4]', () => {
    const half = { type: "float64", shape: [2, 4], data: Float64Array.from(values) } as const;
    return session.run({ ...inputs, half });
  });
  await session.close();
});

Deno.test("OnnxSession: runs finish in order, and two sessions are independent", async () => {
  const [one, two] = await Promise.all([openOnnx(doubleModel(), { threads: 1 }), openOnnx(doubleModel())]);
  const answers = await Promise.all(
    [1, 2, 3, 4].map((value) => (value % 2 ? one : two).run(rows(value, 0, 0, 0, 0, 0, 0, 0))),
  );
  assertEquals(answers.map(({ b }) => b.data[0]), [2, 4, 6, 8]);
  await Promise.all([one.close(), two.close()]);
});

Deno.test("openOnnx: refuses files that are not a runnable model, with the reason", async () => {
  const text = new TextEncoder().encode("not a model at all");
  await refuses("invalid_argument", "Is it an ONNX file?", () => openOnnx(text));
  await refuses("invalid_argument", "it has 0 bytes", () => openOnnx(new Uint8Array()));
  await refuses("invalid_argument", "cannot load the ONNX model", () => openOnnx(boxesModel().slice(0, 100)));
  await refuses(
    "invalid_argument",
    "No Op registered for Frobnicate",
    () => openOnnx(unknownOperatorModel()),
  );
});

Deno.test("openOnnx: opens a model by its path", async () => {
  const session = await openOnnx("tests/data/ml_model/colors/model.onnx");
  assertEquals(session.inputs.map(({ name }) => name), ["image"]);
  await session.close();
  await refuses(
    "invalid_argument",
    "Is it an ONNX file?",
    () => openOnnx("tests/data/ml_model/colors/labels.txt"),
  );
});

Deno.test("OnnxSession.run: refuses wrong inputs before it runs", async () => {
  const session = await openOnnx(doubleModel());
  const refused = (inputs: OnnxTensors, message: string) =>
    refuses("invalid_argument", message, () => session.run(inputs));
  await refused({}, 'input "a" is missing, wanted float32 [2, 4]');
  await refused({ ...EIGHT, c: EIGHT.a }, 'no input "c"; its inputs are a');
  await refused({ a: { ...EIGHT.a, shape: [4, 2] } }, 'input "a" is float32 [4, 2], wanted float32 [2, 4]');
  await refused(
    { a: { type: "uint8", shape: [2, 4], data: new Uint8Array(8) } },
    "is uint8 [2, 4], wanted float32",
  );
  await refused({ a: { ...EIGHT.a, data: new Float32Array(7) } }, "has 7 values, wanted 8");
  await refused({ a: { ...EIGHT.a, data: new Float64Array(8) } }, "wanted 8 of float32");
  assertEquals((await session.run(EIGHT)).b.data[0], 2, "it still runs");
  await session.close();
});

Deno.test("OnnxSession.run: refuses runs beyond RUNS_WAITING_MAX", async () => {
  const session = await openOnnx(doubleModel());
  const asked = await Promise.allSettled(
    Array.from({ length: RUNS_WAITING_MAX + 2 }, () => session.run(EIGHT)),
  );
  const refused = asked.filter((one) => one.status === "rejected");
  assertEquals(refused.map(({ reason }) => reason.code), ["resource_exhausted", "resource_exhausted"]);
  await session.close();
});

Deno.test("OnnxSession.run: an aborted caller rejects, and the session continues", async () => {
  const session = await openOnnx(doubleModel());
  const abort = new AbortController();
  const asked = session.run(EIGHT, abort.signal);
  abort.abort(new SvcError("canceled", "enough"));
  await refuses("canceled", "enough", () => asked);
  assertEquals((await session.run(rows(3, 0, 0, 0, 0, 0, 0, 0))).b.data[0], 6);
  await session.close();
  await assertRejects(() => openOnnx(doubleModel(), { signal: abort.signal }), SvcError, "enough");
});

Deno.test("OnnxSession.close: refuses later runs, and a second close has no effect", async () => {
  const session = await openOnnx(doubleModel());
  const waiting = session.run(EIGHT);
  await session.close();
  await session.close();
  assertEquals((await waiting).b.data[0], 2, "what was asked for before is answered");
  await refuses("failed_precondition", "the ONNX session is closed", () => session.run(EIGHT));
});

Deno.test("OnnxSession.close: ends a session with an endless run, without delaying others", async () => {
  const clock = new FakeClock();
  // Runs long enough for this test, then leaves the processor to others.
  const session = await openOnnx(endlessModel(40_000_000n), { clock, threads: 1 });
  const image = { type: "uint8", shape: [1, 4, 6, 3], data: new Uint8Array(72) } as const;
  const running = session.run({ image });
  const over = assertRejects(() => running, SvcError, "it was closed while a run took more than 5 s");
  const other = await openOnnx(doubleModel());
  assertEquals((await other.run(EIGHT)).b.data[0], 2);
  await other.close();
  const closing = session.close();
  await clock.advance(CLOSE_MS);
  await closing;
  assertEquals((await over).code, "unavailable");
});
