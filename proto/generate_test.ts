/**
 * Tests of the wire contracts: the checked-in TypeScript is fresh, known points of the published APIs hold,
 * and every message of the published client library that is declared here has the same fields.
 */
import { assert, assertEquals, assertExists } from "@std/assert";
import { createRegistry, type DescField, type DescFile, getOption, ScalarType } from "@bufbuild/protobuf";
import * as sdk from "@viamrobotics/sdk";
import { CameraService, GetImagesResponseSchema, ImageSchema } from "./gen/camera_pb.ts";
import { GeometrySchema, safety_heartbeat_monitored } from "./gen/common_pb.ts";
import { MotorService } from "./gen/motor_pb.ts";
import { RobotService } from "./gen/robot_pb.ts";
import { staleFiles } from "./generate.ts";
import { TWO_FORMS } from "../tests/support/two_forms.ts";

const genDir = `${import.meta.dirname}/gen`;

/** Every generated file descriptor, found by its export `file_<name>`. */
async function allFiles(): Promise<DescFile[]> {
  const files: DescFile[] = [];
  for await (const entry of Deno.readDir(genDir)) {
    const name = entry.name.replace(/_pb\.ts$/, "");
    const module = await import(`./gen/${entry.name}`);
    assertExists(module[`file_${name}`], `proto/gen/${entry.name} exports file_${name}`);
    files.push(module[`file_${name}`]);
  }
  return files;
}

Deno.test("generating again changes nothing", async () => {
  assertEquals(await staleFiles(), []);
});

Deno.test("calls that a lost session must stop carry the published method option", () => {
  assertEquals(safety_heartbeat_monitored.number, 84260);
  assertEquals(safety_heartbeat_monitored.typeName, "viam.common.v1.safety_heartbeat_monitored");
  assertEquals(MotorService.typeName, "viam.component.motor.v1.MotorService");
  const monitored = MotorService.methods.filter((m) => getOption(m, safety_heartbeat_monitored));
  assertEquals(monitored.map((m) => m.name), ["SetPower", "GoFor", "GoTo", "SetRPM"]);
});

Deno.test("no call is marked deprecated: the published TypeScript library cannot read past that option", async () => {
  const methods = (await allFiles()).flatMap((file) => file.services).flatMap((one) => one.methods);
  assertEquals(methods.filter(({ deprecated }) => deprecated).map(({ name }) => name), []);
});

Deno.test("field numbers that differ from their order are the published ones", () => {
  const numbers = (fields: readonly DescField[]) => Object.fromEntries(fields.map((f) => [f.name, f.number]));
  assertEquals(numbers(ImageSchema.fields), {
    source_name: 1,
    format: 2,
    image: 3,
    mime_type: 4,
    annotations: 5,
  });
  assertEquals(numbers(GetImagesResponseSchema.fields), { images: 1, response_metadata: 84260 });
  const [geometryType] = GeometrySchema.oneofs;
  assertEquals(numbers(geometryType.fields), { sphere: 2, box: 3, capsule: 5, mesh: 6, pointcloud: 7 });
});

Deno.test("streaming kinds are the published ones", () => {
  assertEquals(RobotService.method.tunnel.methodKind, "bidi_streaming");
  assertEquals(RobotService.method.streamStatus.methodKind, "server_streaming");
  assertEquals(CameraService.method.getImages.methodKind, "unary");
});

Deno.test("no two contracts declare the same name", async () => {
  const names = (await allFiles())
    .flatMap((file) => [...file.messages, ...file.enums, ...file.services])
    .map((desc) => desc.typeName);
  assertEquals(new Set(names).size, names.length);
});

/** What this test reads of a message type of the published library. */
interface PublishedMessage {
  typeName: string;
  fields: { list(): readonly PublishedField[] };
}
interface PublishedType {
  kind: string;
  T: ScalarType | PublishedMessage | { typeName: string; values: { no: number; name: string }[] };
}
interface PublishedField extends PublishedType {
  no: number;
  name: string;
  repeated: boolean;
  opt: boolean;
  oneof?: { name: string };
  K?: ScalarType;
  V?: PublishedType;
}

function publishedTypeName({ kind, T }: PublishedType): string {
  if (typeof T === "object" || typeof T === "function") return `${kind} ${T.typeName}`;
  return ScalarType[T];
}

function describePublished(field: PublishedField): string {
  const type = field.V
    ? `map ${ScalarType[field.K!]} ${publishedTypeName(field.V)}`
    : publishedTypeName(field);
  const repeated = field.repeated ? "repeated " : "";
  const optional = field.opt && !field.oneof ? "optional " : "";
  const oneof = field.oneof ? `${field.oneof.name}.` : "";
  return `${repeated}${optional}${type} ${oneof}${field.name} = ${field.no}`;
}

function describeOurs(field: DescField): string {
  const element = field.message
    ? `message ${field.message.typeName}`
    : field.enum
    ? `enum ${field.enum.typeName}`
    : ScalarType[field.scalar!];
  const type = field.fieldKind === "map" ? `map ${ScalarType[field.mapKey]} ${element}` : element;
  const repeated = field.fieldKind === "list" ? "repeated " : "";
  const optional = field.proto.proto3Optional ? "optional " : "";
  const oneof = field.oneof ? `${field.oneof.name}.` : "";
  return `${repeated}${optional}${type} ${oneof}${field.name} = ${field.number}`;
}

/** All message types the published library exports, by name: those in its namespaces and those at its top. */
function publishedMessages(): Map<string, PublishedMessage> {
  const found = new Map<string, PublishedMessage>();
  const groups = [sdk, ...Object.values(sdk).filter((value) => typeof value === "object")];
  for (const value of groups.flatMap((group) => Object.values(group))) {
    const message = value as Partial<PublishedMessage> | null | undefined;
    if (message?.typeName && typeof message.fields?.list === "function") {
      found.set(message.typeName, message as PublishedMessage);
    }
  }
  return found;
}

Deno.test("messages have every field of the published client library", async () => {
  const ours = createRegistry(...await allFiles());
  const differences: string[] = [];
  let compared = 0;
  for (const [typeName, published] of publishedMessages()) {
    const message = ours.getMessage(typeName);
    if (!message || TWO_FORMS.includes(typeName)) continue;
    compared++;
    const fields = new Set(message.fields.map(describeOurs));
    for (const field of published.fields.list().map(describePublished)) {
      if (!fields.has(field)) differences.push(`${typeName}: ${field}`);
    }
  }
  assertEquals(differences, []);
  assert(compared > 300, `compared only ${compared} messages`);
});
