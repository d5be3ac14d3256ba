/**
 * Checks an ONNX model before ONNX Runtime sees a byte of it.
 *
 * A model is a program from strangers. Some parts of the format make the runtime read files (external
 * weights, compiled contexts) or addresses in memory, or take settings from the model; this check refuses all
 * of them anywhere in the model. Its reader is stricter than the runtime's, and it accepts only known fields in
 * the form that the format gives them, so it refuses any model that the two readers could
 * read differently. If a field is repeated, the runtime uses the last one; here each must be allowed. Safe on
 * hostile bytes: the work is bounded by their number and `FIELDS_MAX`, the depth by `NESTING_MAX`.
 */

import { SvcError } from "../../base/error.ts";
import { ProtoReader } from "../../base/protobuf/reader.ts";
import { WIRE_TYPE } from "../../base/protobuf/wire_type.ts";

/**
 * Deepest nesting of messages; a graph within a graph is three messages. The runtime's own reader stops at
 * 100.
 */
const NESTING_MAX = 60;
/** Most fields of a model, so that a model made only of fields costs at most a second. */
const FIELDS_MAX = 10_000_000;
/** Longest name of an operator or its domain. */
const NAME_BYTES_MAX = 256;
/** Longest part of a name that an error shows. */
const SHOWN_CHARS_MAX = 80;

/** The domains whose operators may run. Functions that the model defines from these operators may run too. */
const DOMAINS: readonly string[] = ["", "ai.onnx", "ai.onnx.ml", "com.microsoft"];
/** Operators that read files. */
const REFUSED_OPERATORS: readonly string[] = ["EPContext"];
/** Metadata from which the runtime would take its settings, including files to write. */
const REFUSED_METADATA: readonly string[] = ["ort_config"];
/**
 * The mark at byte 4 of a model in the runtime's own format; the runtime recognizes the format by this mark
 * alone.
 */
const OWN_FORMAT = "ORTM";

// The encodings of a field.
const { varint: VARINT, fixed64: FIXED64, bytes: BYTES, fixed32: FIXED32 } = WIRE_TYPE;
const NO_BYTES = new Uint8Array();
const NUMBER: readonly number[] = [VARINT];
const NUMBERS: readonly number[] = [VARINT, BYTES];
const FLOAT: readonly number[] = [FIXED32];
const FLOATS: readonly number[] = [FIXED32, BYTES];
const DOUBLES: readonly number[] = [FIXED64, BYTES];
/** Texts, values, and messages that can contain neither tensors nor operators. */
const PLAIN: readonly number[] = [BYTES];

type MessageName =
  | "ModelProto"
  | "TrainingInfoProto"
  | "FunctionProto"
  | "GraphProto"
  | "NodeProto"
  | "AttributeProto"
  | "TensorProto"
  | "SparseTensorProto"
  | "StringStringEntryProto";

type Fields = { readonly [field: number]: readonly number[] | MessageName };

/** The parts of the published format (onnx.proto, IR version 13) that can lead to a tensor or an operator. */
const MESSAGES: Readonly<Record<MessageName, Fields>> = {
  ModelProto: {
    1: NUMBER,
    2: PLAIN,
    3: PLAIN,
    4: PLAIN,
    5: NUMBER,
    6: PLAIN,
    7: "GraphProto",
    8: PLAIN,
    14: "StringStringEntryProto",
    20: "TrainingInfoProto",
    25: "FunctionProto",
    26: PLAIN,
  },
  TrainingInfoProto: { 1: "GraphProto", 2: "GraphProto", 3: PLAIN, 4: PLAIN },
  FunctionProto: {
    1: PLAIN,
    4: PLAIN,
    5: PLAIN,
    6: PLAIN,
    7: "NodeProto",
    8: PLAIN,
    9: PLAIN,
    10: PLAIN,
    11: "AttributeProto",
    12: PLAIN,
    13: PLAIN,
    14: "StringStringEntryProto",
  },
  GraphProto: {
    1: "NodeProto",
    2: PLAIN,
    5: "TensorProto",
    10: PLAIN,
    11: PLAIN,
    12: PLAIN,
    13: PLAIN,
    14: PLAIN,
    15: "SparseTensorProto",
    16: "StringStringEntryProto",
  },
  NodeProto: {
    1: PLAIN,
    2: PLAIN,
    3: PLAIN,
    4: PLAIN,
    5: "AttributeProto",
    6: PLAIN,
    7: PLAIN,
    8: PLAIN,
    9: "StringStringEntryProto",
    10: PLAIN,
  },
  AttributeProto: {
    1: PLAIN,
    2: FLOAT,
    3: NUMBER,
    4: PLAIN,
    5: "TensorProto",
    6: "GraphProto",
    7: FLOATS,
    8: NUMBERS,
    9: PLAIN,
    10: "TensorProto",
    11: "GraphProto",
    13: PLAIN,
    14: PLAIN,
    15: PLAIN,
    20: NUMBER,
    21: PLAIN,
    22: "SparseTensorProto",
    23: "SparseTensorProto",
  },
  TensorProto: {
    1: NUMBERS,
    2: NUMBER,
    3: PLAIN,
    4: FLOATS,
    5: NUMBERS,
    6: PLAIN,
    7: NUMBERS,
    8: PLAIN,
    9: PLAIN,
    10: DOUBLES,
    11: NUMBERS,
    12: PLAIN,
    13: "StringStringEntryProto",
    14: NUMBER,
    16: "StringStringEntryProto",
  },
  SparseTensorProto: { 1: "TensorProto", 2: "TensorProto", 3: NUMBERS },
  StringStringEntryProto: { 1: PLAIN, 2: PLAIN },
};

/** A tensor while the reader is in it. */
interface Tensor {
  name: string;
  /** True if the model says that the values are elsewhere. */
  external: boolean;
  location: string;
  /** Key of the entry that is being read. */
  key: string;
}

/**
 * Throws `invalid_argument` unless the model contains everything it needs, and this reader and ONNX Runtime
 * read it alike.
 */
export function checkModel(bytes: Uint8Array): void {
  new Check(bytes).run();
}

class Check {
  readonly #bytes: Uint8Array;
  readonly #reader: ProtoReader;
  readonly #foreign = new Set<string>();
  readonly #defined = new Set<string>();
  #fields = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#reader = new ProtoReader(bytes, () => refused("it is broken or cut off. Is it an ONNX file?"));
  }

  run(): void {
    if (textOf(this.#bytes.subarray(4, 4 + OWN_FORMAT.length)) === OWN_FORMAT) {
      throw refused("it is in ONNX Runtime's own format (.ort), wanted a plain .onnx file");
    }
    this.#message("ModelProto", 1);
    for (const domain of this.#foreign) {
      if (this.#defined.has(domain)) continue;
      const wanted = `only operators of ${DOMAINS.filter((one) => one !== "").join(", ")} are run`;
      throw refused(`it uses operators of "${shown(domain)}"; ${wanted}`);
    }
  }

  /** Reads a message to its end; `tensor` is the tensor around it. */
  #message(name: MessageName, depth: number, tensor?: Tensor): void {
    if (depth > NESTING_MAX) throw refused(`it is nested more than ${NESTING_MAX} deep`);
    const fields = MESSAGES[name];
    const own: Tensor | undefined = name === "TensorProto"
      ? { name: "", external: false, location: "", key: "" }
      : undefined;

    const reader = this.#reader;
    while (!reader.ended) {
      if (++this.#fields > FIELDS_MAX) throw refused(`it has more than ${FIELDS_MAX} fields`);
      const { number, wire } = reader.tag();
      const known = fields[number];
      const forms = typeof known === "string" ? PLAIN : known;
      if (!forms?.includes(wire)) {
        throw refused(`it has an unknown field (${number} of form ${wire} in ${name}). Is it an ONNX file?`);
      }

      let value = 0;
      let content: Uint8Array = NO_BYTES;
      if (typeof known === "string") reader.within(known, () => this.#message(known, depth + 1, own));
      else if (wire === VARINT) value = reader.number();
      else if (wire === BYTES) content = reader.content();
      else reader.skip(wire);
      this.#judge(name, number, value, content, own ?? tensor);
    }

    if (own?.external) {
      const where = own.location === "" ? "" : ` ("${shown(own.location)}")`;
      const remedy = "save it with its weights inside (in Python: onnx.save(onnx.load(path), path))";
      throw refused(`the values of "${shown(own.name)}" are in another file${where}; ${remedy}`);
    }
  }

  /** Judges a field after reading it; `tensor` is the tensor around it or around its entry. */
  #judge(
    name: MessageName,
    field: number,
    value: number,
    content: Uint8Array,
    tensor: Tensor | undefined,
  ): void {
    if (name === "TensorProto" && tensor) {
      if (field === 8) tensor.name = beginningOf(content);
      // Some exporters state explicitly that the values are in their usual place.
      if (field === 13 || field === 14 && value !== 0) tensor.external = true;
    }

    if (name === "StringStringEntryProto") this.#judgeEntry(field, beginningOf(content), tensor);
    if (name === "NodeProto" && field === 4) {
      const operator = nameOf(content);
      if (REFUSED_OPERATORS.includes(operator)) {
        throw refused(
          `it has an operator ${operator}, which reads files; export it without a compiled context`,
        );
      }
    }

    if (name === "NodeProto" && field === 7) {
      const domain = nameOf(content);
      if (!DOMAINS.includes(domain)) this.#foreign.add(domain);
    }

    if (name === "FunctionProto" && field === 10) this.#defined.add(nameOf(content));
  }

  #judgeEntry(field: number, text: string, tensor: Tensor | undefined): void {
    if (tensor && field === 1) tensor.key = text;
    if (tensor?.key === "location" && field === 2) tensor.location = text;
    if (field === 1 && REFUSED_METADATA.includes(text)) {
      throw refused(`its metadata has "${text}", settings for the runtime; remove them`);
    }
  }
}

function nameOf(content: Uint8Array): string {
  if (content.length <= NAME_BYTES_MAX) return textOf(content);
  throw refused(`an operator or its domain has a name of ${content.length} bytes, wanted ${NAME_BYTES_MAX}`);
}

function beginningOf(content: Uint8Array): string {
  return textOf(content.subarray(0, NAME_BYTES_MAX));
}

/** One character for each byte, so that different bytes give different texts. */
function textOf(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

function shown(text: string): string {
  const plain = text.replace(/[^\x20-\x7e]/g, "?");
  return plain.length > SHOWN_CHARS_MAX ? `${plain.slice(0, SHOWN_CHARS_MAX)}…` : plain;
}

function refused(why: string): SvcError {
  return new SvcError("invalid_argument", `cannot load the ONNX model: ${why}`);
}
