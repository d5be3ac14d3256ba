/** Reflection and health: what clients learn about the services of a table. */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { Health } from "../../../proto/gen/health_pb.ts";
import { MotorService } from "../../../proto/gen/motor_pb.ts";
import {
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
} from "../../../proto/gen/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../../proto/gen/reflection_v1alpha_pb.ts";
import { client } from "../rpc/channel.ts";
import { all, each, echoTable } from "../../../tests/support/echo.ts";
import { health } from "./health.ts";
import { memoryChannel } from "../rpc/memory.ts";
import { FileDescriptorProtoSchema, fromBinary } from "../rpc/proto.ts";
import { reflection } from "./reflection.ts";
import { service } from "../rpc/service.ts";

type Question = ServerReflectionRequest["messageRequest"];

function table() {
  const { table } = echoTable();
  table.add(service(MotorService, {}));
  table.add(health(table));
  for (const each of reflection(table)) table.add(each);
  return table;
}

async function ask(...questions: Question[]): Promise<ServerReflectionResponse["messageResponse"][]> {
  const asked = questions.map((messageRequest) => ({ host: "here", messageRequest }));
  const channel = memoryChannel(table());
  const answers = await all(client(ServerReflection, channel).serverReflectionInfo(each(...asked)));
  answers.forEach((answer, i) => {
    assertEquals([answer.validHost, answer.originalRequest?.messageRequest.case], [
      "here",
      questions[i].case,
    ]);
  });
  return answers.map(({ messageResponse }) => messageResponse);
}

async function files(question: Question) {
  const [answer] = await ask(question);
  assert(answer.case === "fileDescriptorResponse", `${answer.case}`);
  return answer.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
}

/** Protobuf's field header of option 84260 as a varint, and `true`. */
const SAFETY_OPTION = [0xa0, 0x92, 0x29, 0x01];

function contains(bytes: Uint8Array, part: number[]): boolean {
  return bytes.some((_, at) => part.every((byte, i) => bytes[at + i] === byte));
}

Deno.test("reflection: ListServices returns the services in order", async () => {
  const [answer] = await ask({ case: "listServices", value: "*" });
  assert(answer.case === "listServicesResponse");
  assertEquals(answer.value.service.map(({ name }) => name), [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "proto.rpc.examples.echo.v1.EchoService",
    "viam.component.audioout.v1.AudioOutService",
    "viam.component.motor.v1.MotorService",
  ]);
});

Deno.test("reflection: a file by symbol comes with all its dependencies, each once", async () => {
  for (
    const value of [
      "viam.component.motor.v1.MotorService",
      "viam.component.motor.v1.MotorService.SetPower",
      "viam.component.motor.v1.SetPowerRequest",
    ]
  ) {
    const found = await files({ case: "fileContainingSymbol", value });
    assertEquals(found[0].package, "viam.component.motor.v1");
    const names = found.map(({ name }) => name);
    assertEquals(new Set(names).size, names.length);
    for (const { dependency } of found) for (const name of dependency) assert(names.includes(name), name);
    assert(names.includes("google/protobuf/descriptor.proto"));
  }
});

Deno.test("reflection: a stream sends each dependency once", async () => {
  const question: Question = { case: "fileContainingSymbol", value: "viam.component.motor.v1.MotorService" };
  const answers = await ask(question, question);
  const counts = answers.map(({ value }) =>
    (value as { fileDescriptorProto: unknown[] }).fileDescriptorProto.length
  );
  assert(counts[0] > 1);
  assertEquals(counts[1], 1);
});

Deno.test("reflection: methods keep their safety option", async () => {
  const [answer] = await ask({ case: "fileContainingSymbol", value: "viam.component.motor.v1.MotorService" });
  assert(answer.case === "fileDescriptorResponse");
  assert(contains(answer.value.fileDescriptorProto[0], SAFETY_OPTION));
  const [file] = await files({ case: "fileContainingSymbol", value: "viam.component.motor.v1.MotorService" });
  const carries = file.service[0].method.filter(({ options }) =>
    options?.$unknown?.some(({ no }) => no === 84260)
  );
  assert(carries.some(({ name }) => name === "SetPower"));
  assert(!carries.some(({ name }) => name === "IsMoving"));
});

Deno.test("reflection: finds files by name and by extension, and lists extension numbers", async () => {
  const [motor] = await files({
    case: "fileContainingSymbol",
    value: "viam.component.motor.v1.MotorService",
  });
  const [byName] = await files({ case: "fileByFilename", value: motor.name });
  assertEquals(byName.package, motor.package);
  const containingType = "google.protobuf.MethodOptions";
  const [numbers] = await ask({ case: "allExtensionNumbersOfType", value: containingType });
  assert(numbers.case === "allExtensionNumbersResponse");
  assert(numbers.value.extensionNumber.includes(84260));
  const [extension] = await files({
    case: "fileContainingExtension",
    value: { $typeName: "grpc.reflection.v1.ExtensionRequest", containingType, extensionNumber: 84260 },
  });
  const { name } = extension.extension.find(({ number }) => number === 84260)!;
  const [bySymbol] = await files({ case: "fileContainingSymbol", value: `${extension.package}.${name}` });
  assertEquals(bySymbol.name, extension.name);
});

Deno.test("reflection: an unknown file, symbol or extension is an error response in the stream", async () => {
  const nothing = {
    $typeName: "grpc.reflection.v1.ExtensionRequest",
    containingType: "a.B",
    extensionNumber: 1,
  } as const;
  const answers = await ask(
    { case: "fileByFilename", value: "nothing.proto" },
    { case: "fileContainingSymbol", value: "a.B" },
    { case: "fileContainingExtension", value: nothing },
    { case: "allExtensionNumbersOfType", value: "a.B" },
    { case: undefined },
    { case: "listServices", value: "" },
  );
  const codes = answers.map((answer) => answer.case === "errorResponse" ? answer.value.errorCode : 0);
  assertEquals(codes, [5, 5, 5, 5, 3, 0]);
});

Deno.test("reflection: v1alpha gives the same answers as v1", async () => {
  const channel = memoryChannel(table());
  const asked = { messageRequest: { case: "fileContainingSymbol", value: "grpc.health.v1.Health" } as const };
  const [answer] = await all(client(ServerReflectionAlpha, channel).serverReflectionInfo(each(asked)));
  assert(answer.messageResponse.case === "fileDescriptorResponse");
  assertEquals(answer.originalRequest?.messageRequest.value, "grpc.health.v1.Health");
  assertEquals(answer.messageResponse.value.fileDescriptorProto.length, 1);
});

Deno.test("health: reports the server and its services, and not_found for unknown services", async () => {
  const channel = memoryChannel(table());
  const { check, list, watch } = client(Health, channel);
  for (const service of ["", "viam.component.motor.v1.MotorService"]) {
    assertEquals((await check({ service })).status, 1);
  }
  assertEquals((await assertRejects(() => check({ service: "a.B" }), SvcError)).code, "not_found");
  assertEquals((await list({})).statuses[""].status, 1);
  for (const [service, status] of [["", 1], ["a.B", 3]] as const) {
    for await (const answer of watch({ service })) {
      assertEquals(answer.status, status);
      break;
    }
  }
});
