/**
 * The only file that imports the protobuf runtime.
 */

export {
  create,
  createFileRegistry,
  type DescExtension,
  type DescField,
  type DescFile,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  fromJson,
  getOption,
  isMessage,
  type JsonObject,
  type Message,
  type MessageInitShape,
  type MessageShape,
  ScalarType,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
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
