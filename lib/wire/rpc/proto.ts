/**
 * The only file that imports the protobuf runtime.
 */

import type * as published from "@bufbuild/protobuf";

export {
  create,
  createFileRegistry,
  type DescExtension,
  type DescField,
  type DescFile,
  fromBinary,
  fromJson,
  getOption,
  isMessage,
  type JsonObject,
  type JsonValue,
  ScalarType,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";

// Types of its own, and not exports of the package's: so the reference pages of the library for modules end here. The
// mark `@internal` allows a type to mention one without a page.

/** The description of a service: its methods, and its full name. */
export type DescService = published.DescService;

/** The description of a method: its messages, and which side sends a stream of them. */
export type DescMethod = published.DescMethod;

/** The description of a message: its fields. */
export type DescMessage = published.DescMessage;

/**
 * A message as a client or server receives it.
 *
 * @internal
 */
export type Message<Name extends string = string> = published.Message<Name>;

/**
 * The type of a received message, by its description: every field has a value.
 *
 * @internal
 */
export type MessageShape<D extends DescMessage> = published.MessageShape<D>;

/**
 * The type of a message to send, by its description: an absent field has its zero value.
 *
 * @internal
 */
export type MessageInitShape<D extends DescMessage> = published.MessageInitShape<D>;

export { reflect } from "@bufbuild/protobuf/reflect";
export { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
export { type GenService } from "@bufbuild/protobuf/codegenv2";
export { type FileDescriptorProto, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
export {
  type Any,
  anyPack,
  anyUnpack,
  BoolValueSchema,
  DoubleValueSchema,
  Int64ValueSchema,
  StringValueSchema,
  StructSchema,
  timestampFromMs,
  ValueSchema,
} from "@bufbuild/protobuf/wkt";
