/**
 * ONNX models of an attacker: some read the files of the program that runs them, some never end.
 *
 * Each is otherwise a complete model, with an input `image` and an output `probability`, so that there is no other
 * reason to refuse it.
 */

import { protoField, protoMessage } from "../../lib/learn/onnx/writer.ts";

type Bytes = Uint8Array;

/** Element types by their numbers in the format. */
const [FLOAT32, UINT8, INT64, BOOL] = [1, 2, 7, 9];
/** `data_location`: the values are in another file. */
const EXTERNAL = 1;

/** A model with one hostile property: each reads `location` if the runtime allows it. */
export interface HostileModel {
  readonly name: string;
  readonly model: Uint8Array<ArrayBuffer>;
}

/** `bytes` of the file at `location` as a model's weights, in every place that a tensor can be. */
export function fileReaders(location: string, bytes: number): HostileModel[] {
  const tensor = (...more: Bytes[]) => external("w", location, bytes, ...more);
  const constant = node("Constant", [], ["w"], [attribute("value", 4, protoField(5, tensor()))]);
  const readers: { [name: string]: Bytes } = {
    "an initializer": graph([...use()], [protoField(5, tensor())]),
    "an initializer that says afterwards that it is not": graph([...use()], [
      protoField(5, tensor(protoField(14, 0))),
    ]),
    "an initializer in a graph that is given in two parts": protoMessage([
      graph([...use()]),
      protoField(5, tensor()),
    ]),
    "a constant": graph([constant, ...use()]),
    "a list of tensors": graph([
      node("Constant", [], ["w"], [attribute("values", 9, protoField(10, tensor()))]),
      ...use(),
    ]),
    "a branch of an If": graph([...branching(graph([constant], [output("w")]), 1), ...use("if")]),
    "a branch in a branch": graph([...branching(graph([constant], [output("w")]), 2), ...use("if")]),
    "a sparse initializer": graph([...use()], [
      protoField(15, protoMessage([protoField(1, tensor()), protoField(3, bytes)])),
    ]),
    "the indices of a sparse initializer": graph([...use()], [
      protoField(15, protoMessage([protoField(2, tensor())])),
    ]),
    "a sparse constant": graph([
      node("Constant", [], ["w"], [
        attribute("sparse_value", 11, protoField(22, protoMessage([protoField(1, tensor())]))),
      ]),
      ...use(),
    ]),
  };
  const found = Object.entries(readers).map(([name, graph]) => ({ name, model: model(graph) }));
  const body = protoField(7, protoMessage([constant]));
  const local = protoMessage([
    protoField(1, "Weights"),
    protoField(5, "w"),
    body,
    operators("", 17),
    protoField(10, "mine"),
  ]);
  const called = graph([node("Weights", [], ["w"], [], "mine"), ...use()]);
  const context = node("EPContext", ["w"], ["c"], [
    attribute("ep_cache_context", 3, protoField(4, location)),
  ], "com.microsoft");
  return [
    ...found,
    { name: "a function of its own", model: model(called, [protoField(25, local), operatorsOf("mine", 1)]) },
    {
      name: "what it is trained with",
      model: model(graph([...use()], [protoField(5, inside())]), [
        protoField(20, protoMessage([protoField(1, graph([], [protoField(5, tensor())]))])),
      ]),
    },
    { name: "a compiled context", model: model(graph([context, ...use("c")], [protoField(5, inside())])) },
    {
      name: "settings for the runtime",
      model: model(graph([...use()], [protoField(5, inside())]), [
        protoField(
          14,
          protoMessage([
            protoField(1, "ort_config"),
            protoField(2, '{"session_options":{"enable_profiling":1}}'),
          ]),
        ),
      ]),
    },
    { name: "an address in memory", model: model(graph([...use()], [protoField(5, addressed())])) },
  ];
}

/** The same initializer in forms that two readers may read differently. */
export function ambiguousModels(location: string): HostileModel[] {
  const tensor = external("w", location, 4);
  const whole = (graphs: Bytes) => model(new Uint8Array(), [graphs]);
  const inGroup = protoMessage([
    graph([...use()]),
    Uint8Array.of(5 << 3 | 3),
    tensor,
    Uint8Array.of(5 << 3 | 4),
  ]);
  const good = graph([...use()], [protoField(5, inside())]);
  // A tag of five bytes, of which a reader with 32 bits sees field 7 and another one field 2^29 + 7.
  const wide = protoMessage([Uint8Array.of(0xba, 0x80, 0x80, 0x80, 0x10), lengthOf(good), good]);
  const own = protoMessage([
    protoField(2, ""),
    Uint8Array.of(0x1a, 8),
    text("ORTM"),
    text("1234"),
    protoField(7, good),
  ]);
  return [
    { name: "a group", model: model(inGroup) },
    { name: "a tag of too many bits", model: protoMessage([head(), wide]) },
    {
      name: "a tag of too many bytes",
      model: whole(protoMessage([Uint8Array.of(0xba, 0), lengthOf(good), good])),
    },
    { name: "an unknown field", model: whole(protoMessage([protoField(7, good), protoField(99, "x")])) },
    {
      name: "an unknown field of a tensor",
      model: model(graph([...use()], [protoField(5, inside(protoField(15, 1)))])),
    },
    {
      name: "a location that is a text",
      model: model(graph([...use()], [protoField(5, inside(protoField(14, "\x01")))])),
    },
    {
      name: "a location of 64 bits",
      model: model(
        graph([...use()], [protoField(5, inside(Uint8Array.of(14 << 3, 0x81, 0x80, 0x80, 0x80, 0x10)))]),
      ),
    },
    { name: "a length beyond its message", model: whole(Uint8Array.of(7 << 3 | 2, 100, 1)) },
    { name: "field 0", model: whole(protoMessage([Uint8Array.of(2, 0), protoField(7, good)])) },
    { name: "the runtime's own format", model: protoMessage([own, head()]) },
    {
      name: "operators of somebody else",
      model: model(graph([node("Read", [], ["w"], [], "evil"), ...use()])),
    },
    {
      name: "graphs within graphs",
      model: model(graph([...branching(graph([], [output("w")]), 40), ...use("if")])),
    },
  ];
}

/** It goes round for 2^62 times, or `times`, doing next to nothing each time: for ever. */
export function endlessModel(times = 2n ** 62n): Uint8Array<ArrayBuffer> {
  const body = protoMessage([
    protoField(1, node("Identity", ["going"], ["still"])),
    protoField(1, node("Identity", ["before"], ["after"])),
    protoField(2, "body"),
    protoField(11, valueInfo("round", INT64, [])),
    protoField(11, valueInfo("going", BOOL, [])),
    protoField(11, valueInfo("before", FLOAT32, undefined)),
    protoField(12, valueInfo("still", BOOL, [])),
    protoField(12, valueInfo("after", FLOAT32, undefined)),
  ]);
  const rounds = new DataView(new ArrayBuffer(8));
  rounds.setBigInt64(0, times, true);
  const loop = node("Loop", ["rounds", "on", "w"], ["last"], [attribute("body", 5, protoField(6, body))]);
  return model(graph([loop, ...use("last")], [
    protoField(5, tensorOf("rounds", INT64, [], new Uint8Array(rounds.buffer))),
    protoField(5, tensorOf("on", BOOL, [], Uint8Array.of(1))),
    protoField(5, inside()),
  ]));
}

/** It asks for `bytes` of memory, and writes to all of them. */
export function greedyModel(bytes: number): Uint8Array<ArrayBuffer> {
  const shape = new DataView(new ArrayBuffer(32));
  [1, 1, 1, bytes / 4].forEach((size, at) => shape.setBigInt64(8 * at, BigInt(size), true));
  return model(graph([
    node("ConstantOfShape", ["shape"], ["many"]),
    node("ReduceMean", ["many"], ["mean"], [attribute("keepdims", 2, protoField(3, 1))]),
    ...use("mean"),
  ], [protoField(5, tensorOf("shape", INT64, [4], new Uint8Array(shape.buffer)))]));
}

function model(graph: Bytes, more: readonly Bytes[] = []): Uint8Array<ArrayBuffer> {
  const graphs = graph.length > 0 ? [protoField(7, graph)] : [];
  return protoMessage([head(), ...graphs, ...more]);
}

function head(): Bytes {
  return protoMessage([
    protoField(1, 8),
    protoField(2, "svc tests"),
    operatorsOf("", 17),
    operatorsOf("com.microsoft", 1),
  ]);
}

function operatorsOf(domain: string, version: number): Bytes {
  return protoField(8, protoMessage([protoField(1, domain), protoField(2, version)]));
}

/** In a function. */
function operators(domain: string, version: number): Bytes {
  return protoField(9, protoMessage([protoField(1, domain), protoField(2, version)]));
}

function graph(nodes: readonly Bytes[], more: readonly Bytes[] = []): Bytes {
  return protoMessage([
    ...nodes.map((one) => protoField(1, one)),
    protoField(2, "graph"),
    ...more,
    ...more.some(isOutput) ? [] : [
      protoField(11, valueInfo("image", UINT8, [1, 4, 6, 3])),
      protoField(12, valueInfo("probability", FLOAT32, undefined)),
    ],
  ]);
}

function isOutput(one: Bytes): boolean {
  return one[0] === (12 << 3 | 2);
}

function output(name: string): Bytes {
  return protoField(12, valueInfo(name, FLOAT32, undefined));
}

/** The last nodes: what `from` holds begins the answer, which is not worked out before there is an image. */
function use(from = "w"): Bytes[] {
  return [
    node("Cast", ["image"], ["values"], [attribute("to", 2, protoField(3, FLOAT32))]),
    node("ReduceMax", ["values"], ["brightest"], [attribute("keepdims", 2, protoField(3, 1))]),
    node("Concat", [from, "brightest"], ["probability"], [attribute("axis", 2, protoField(3, 3))]),
  ];
}

/** Nodes that end in an If whose branches, or theirs, are the graph; its answer is `if`. */
function branching(branch: Bytes, depth: number): Bytes[] {
  let inner = branch;
  for (let level = 1; level < depth; level++) {
    const value = attribute("value", 4, protoField(5, tensorOf("true", BOOL, [], Uint8Array.of(1))));
    const names = [`true${level}`, `if${level}`];
    const truth = node("Constant", [], [names[0]], [value]);
    const nodes = [truth, node("If", [names[0]], [names[1]], branches(inner))];
    inner = graph(nodes, [output(names[1])]);
  }
  const condition = node("Cast", ["size"], ["true"], [attribute("to", 2, protoField(3, BOOL))]);
  const size = node("Size", ["image"], ["size"]);
  return [size, condition, node("If", ["true"], ["if"], branches(inner))];
}

/** The other branch is a plain one. */
function branches(then: Bytes): Bytes[] {
  const value = attribute("value", 4, protoField(5, inside()));
  const other = graph([node("Constant", [], ["other"], [value])], [output("other")]);
  return [
    attribute("then_branch", 5, protoField(6, then)),
    attribute("else_branch", 5, protoField(6, other)),
  ];
}

function node(
  operator: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: readonly Bytes[] = [],
  domain = "",
): Bytes {
  return protoMessage([
    ...inputs.map((one) => protoField(1, one)),
    ...outputs.map((one) => protoField(2, one)),
    protoField(4, operator),
    ...attributes.map((one) => protoField(5, one)),
    protoField(7, domain),
  ]);
}

function attribute(name: string, kind: number, value: Bytes): Bytes {
  return protoMessage([protoField(1, name), value, protoField(20, kind)]);
}

function tensorOf(name: string, type: number, shape: readonly number[], raw: Bytes, ...more: Bytes[]): Bytes {
  const sizes = shape.map((size) => protoField(1, size));
  return protoMessage([...sizes, protoField(2, type), protoField(8, name), protoField(9, raw), ...more]);
}

/** A good tensor `w` with one value. */
function inside(...more: Bytes[]): Bytes {
  return tensorOf("w", FLOAT32, [1, 1, 1, 1], new Uint8Array(4), ...more);
}

function external(name: string, location: string, bytes: number, ...more: Bytes[]): Bytes {
  const entry = (key: string, value: string) =>
    protoField(13, protoMessage([protoField(1, key), protoField(2, value)]));
  return protoMessage([
    ...[1, 1, 1, bytes / 4].map((size) => protoField(1, size)),
    protoField(2, FLOAT32),
    protoField(8, name),
    entry("location", location),
    entry("offset", "0"),
    entry("length", String(bytes)),
    protoField(14, EXTERNAL),
    ...more,
  ]);
}

/** The runtime's own form of tensors in memory: the offset is an address. */
function addressed(): Bytes {
  return external("w", "*/_ORT_MEM_ADDR_/*", 4);
}

function valueInfo(name: string, type: number, shape: readonly number[] | undefined): Bytes {
  const sizes = shape &&
    protoField(2, protoMessage(shape.map((size) => protoField(1, protoMessage([protoField(1, size)])))));
  const tensor = protoMessage([protoField(1, type), ...sizes ? [sizes] : []]);
  return protoMessage([protoField(1, name), protoField(2, protoMessage([protoField(1, tensor)]))]);
}

function lengthOf(bytes: Bytes): Bytes {
  // Of field 1 with the same bytes, without its tag and content.
  const whole = protoField(1, bytes);
  return whole.subarray(1, whole.length - bytes.length);
}

function text(value: string): Bytes {
  return new TextEncoder().encode(value);
}
