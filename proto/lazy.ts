/**
 * The descriptors that the generated files declare, each read when something of it is first asked for.
 *
 * Reading the descriptors of all that a machine knows takes 40 ms of its start and 10 MB, and most of them describe
 * calls that nobody makes. Promises: a descriptor is an ordinary object from its first use on; its kind, and the name
 * of a service, are known before it.
 */

import type {
  DescEnum,
  DescExtension,
  DescFile,
  DescMessage,
  DescService,
  Message,
} from "@bufbuild/protobuf";
import * as generated from "@bufbuild/protobuf/codegenv2";

type Readers = WeakMap<object, () => object>;
type Typed = { file: DescFile };

const readers: Readers = new WeakMap();

/** What stands behind a descriptor until it is read: whatever is asked for is not there, and comes here. */
const unread = new Proxy(Object.prototype, {
  get: (_, key, descriptor) => Reflect.get(readDescriptor(descriptor), key),
});

function lazy<T extends object>(known: Partial<T>, read: () => T): T {
  const descriptor = Object.assign(Object.create(unread), known);
  readers.set(descriptor, read);
  return descriptor;
}

function readDescriptor(descriptor: object): object {
  const read = readers.get(descriptor)!;
  const found = read();
  Object.setPrototypeOf(descriptor, Object.prototype);
  return Object.defineProperties(descriptor, Object.getOwnPropertyDescriptors(found));
}

export function fileDesc(base64: string, imports?: DescFile[]): DescFile {
  const file: DescFile = lazy<DescFile>({ kind: "file" }, () => {
    const found = generated.fileDesc(base64, imports);
    // There is one of each file, so that those who have seen it know it again.
    for (const type of typesIn(found)) type.file = file;
    return found;
  });
  return file;
}

function typesIn(file: DescFile): Typed[] {
  const inMessage = (message: DescMessage): Typed[] => [
    message,
    ...message.nestedEnums,
    ...message.nestedExtensions,
    ...message.nestedMessages.flatMap(inMessage),
  ];
  return [...file.enums, ...file.extensions, ...file.services, ...file.messages.flatMap(inMessage)];
}

export function messageDesc<Shape extends Message>(
  ...[file, ...path]: Parameters<typeof generated.messageDesc>
): generated.GenMessage<Shape> {
  return lazy<DescMessage>(
    { kind: "message" },
    () => generated.messageDesc(file, ...path),
  ) as generated.GenMessage<Shape>;
}

export function enumDesc<Shape extends number>(
  ...[file, ...path]: Parameters<typeof generated.enumDesc>
): generated.GenEnum<Shape> {
  return lazy<DescEnum>({ kind: "enum" }, () => generated.enumDesc(file, ...path)) as generated.GenEnum<
    Shape
  >;
}

export function extDesc<Extendee extends Message, Value>(
  ...[file, ...path]: Parameters<typeof generated.extDesc>
): generated.GenExtension<Extendee, Value> {
  return lazy<DescExtension>(
    { kind: "extension" },
    () => generated.extDesc(file, ...path),
  ) as generated.GenExtension<Extendee, Value>;
}

export function serviceDesc<T extends generated.GenServiceMethods>(
  file: DescFile,
  index: number,
  typeName: string,
): generated.GenService<T> {
  return lazy<DescService>(
    { kind: "service", typeName },
    () => generated.serviceDesc(file, index),
  ) as generated.GenService<T>;
}
