import { assertEquals } from "@std/assert";
import { openOnnx } from "./session.ts";
import { OnnxGraph } from "./writer.ts";

Deno.test("OnnxGraph: ONNX Runtime loads and computes a written graph", async () => {
  const graph = new OnnxGraph();
  const x = graph.input("x", "uint8", [2, 2]);
  const floats = graph.node("Cast", [x], { to: 1 });
  const product = graph.node("MatMul", [floats, graph.floats([1, 10, 100, 1000], [2, 2])]);
  const [values] = graph.pair("TopK", [product, graph.integers([1])], { axis: -1, largest: 1 });
  graph.node("Reshape", [values, graph.integers([-1])], {}, "largest");
  graph.output("largest", "float32", [2]);
  const session = await openOnnx(graph.model("example", "svc", { note: "one\ntwo" }), { threads: 1 });
  try {
    assertEquals(session.inputs, [{ name: "x", type: "uint8", shape: [2, 2] }]);
    assertEquals(session.outputs, [{ name: "largest", type: "float32", shape: [2] }]);
    const { largest } = await session.run({
      x: { type: "uint8", shape: [2, 2], data: new Uint8Array([1, 2, 200, 0]) },
    });
    assertEquals([...largest.data as Float32Array], [2010, 2000]);
  } finally {
    await session.close();
  }
});

Deno.test("OnnxGraph: the same graph gives the same bytes", () => {
  const bytes = () => {
    const graph = new OnnxGraph();
    graph.node("Relu", [graph.input("x", "float32", [1])], {}, "y");
    graph.output("y", "float32", [1]);
    return graph.model("example", "svc", {});
  };
  assertEquals(bytes(), bytes());
});
