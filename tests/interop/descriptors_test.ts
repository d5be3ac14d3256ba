/**
 * The contracts of the published Python SDK beside those in `proto/`: the machine's own services have every published
 * method, and every message that both have has the published fields.
 */

import { assertEquals } from "@std/assert";
import {
  type DescFile,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  fromBinary,
} from "../../lib/wire/rpc/proto.ts";
import { needingTest } from "../support/needing.ts";
import { TWO_FORMS } from "../support/two_forms.ts";
import { pythonProgram, run } from "./programs.ts";

const PROGRAM = new URL("python_descriptors.py", import.meta.url).pathname;
const OURS = new URL("../../proto/gen/", import.meta.url);

/** Services of machines. `docs/published_calls.md` is about those of the control plane. */
const MACHINES = /^viam\.(component|service|robot|module)\./;
/** Left out: the sensors service was removed from machines, and `testecho` is for the tests of the publishers. */
const LEFT_OUT = ["viam.service.sensors.v1.SensorsService", "viam.component.testecho.v1.TestEchoService"];
/** `method: input > output` with `stream` before what streams, by service; `name = number: type` by message. */
interface Contracts {
  readonly services: Map<string, string[]>;
  readonly messages: Map<string, string[]>;
}

needingTest(
  "proto/ has the methods and fields of the published Python SDK",
  await pythonProgram(),
  async (python) => {
    const { code, stdout, stderr } = await run([python, PROGRAM]);
    assertEquals(code, 0, stderr);
    const published = contractsOf(stdout.trim().split("\n").map(parsed));
    const own = contractsOf((await ownFiles()).map(({ proto }) => proto));
    const missing: string[] = [];
    for (const [name, methods] of published.services) {
      if (!MACHINES.test(name) || LEFT_OUT.includes(name)) continue;
      const found = own.services.get(name) ?? [];
      missing.push(...methods.filter((one) => !found.includes(one)).map((one) => `${name}.${one}`));
    }
    for (const [name, fields] of published.messages) {
      const found = own.messages.get(name);
      if (TWO_FORMS.includes(name) || !found) continue;
      missing.push(...fields.filter((one) => !found.includes(one)).map((one) => `${name}.${one}`));
    }
    assertEquals(missing, []);
    const compared = [...published.services.keys()].filter((name) => own.services.has(name));
    assertEquals(compared.length > 30, true, `only ${compared.length} services are in both`);
  },
);

function parsed(line: string): FileDescriptorProto {
  return fromBinary(FileDescriptorProtoSchema, Uint8Array.fromBase64(line));
}

async function ownFiles(): Promise<DescFile[]> {
  const files: DescFile[] = [];
  for await (const { name } of Deno.readDir(OURS)) {
    const exported = Object.values(await import(new URL(name, OURS).href)) as { kind?: string }[];
    files.push(...exported.filter(({ kind }) => kind === "file") as DescFile[]);
  }
  return files;
}

function contractsOf(files: readonly FileDescriptorProto[]): Contracts {
  const found: Contracts = { services: new Map(), messages: new Map() };
  const add = (message: FileDescriptorProto["messageType"][number], within: string) => {
    const name = `${within}.${message.name}`;
    const fieldsOf = message.field.map((one) =>
      `${one.name} = ${one.number}: ${one.typeName || one.type} (${one.label})`
    );
    found.messages.set(name, fieldsOf);
    for (const nested of message.nestedType) add(nested, name);
  };
  for (const file of files) {
    for (const message of file.messageType) add(message, file.package);
    for (const { name, method } of file.service) {
      const stream = (streams: boolean, type: string) => `${streams ? "stream " : ""}${type}`;
      const methods = method.map(({ name, inputType, outputType, clientStreaming, serverStreaming }) =>
        `${name}: ${stream(clientStreaming, inputType)} > ${stream(serverStreaming, outputType)}`
      );
      found.services.set(`${file.package}.${name}`, methods);
    }
  }
  return found;
}
