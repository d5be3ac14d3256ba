/** Tests of descriptors that are read when something of them is first asked for. */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { create, type DescFile, type DescService } from "@bufbuild/protobuf";
import { SystemClock } from "../lib/base/clock.ts";
import { service, ServiceTable } from "../lib/wire/rpc/service.ts";
import { ArmService, file_arm, GetEndPositionResponseSchema } from "./gen/arm_pb.ts";
import { file_common } from "./gen/common_pb.ts";
import { extDesc, fileDesc, messageDesc, serviceDesc } from "./lazy.ts";

/** Of which nothing can be read. */
const broken = fileDesc("AAAA");

Deno.test("a descriptor is read when something of it is first asked for; kind and a service's name are known before", () => {
  const message = messageDesc(broken, 0);
  const named = serviceDesc(broken, 0, "a.v1.B");
  assertEquals([broken.kind, message.kind, named.kind, named.typeName], [
    "file",
    "message",
    "service",
    "a.v1.B",
  ]);
  assertThrows(() => broken.name);
  assertThrows(() => message.typeName);
  assertThrows(() => named.methods);
  const extension = extDesc(broken, 0);
  assertEquals(extension.kind, "extension");
  assertThrows(() => extension.number);
});

Deno.test("a descriptor is an ordinary object once it is read, and there is one of each file", () => {
  assertEquals(
    create(GetEndPositionResponseSchema).$typeName,
    "viam.component.arm.v1.GetEndPositionResponse",
  );
  assertEquals(Object.getPrototypeOf(GetEndPositionResponseSchema), Object.prototype);
  assert(ArmService.file === file_arm);
  assert(GetEndPositionResponseSchema.file === file_arm);
  assert(file_arm.dependencies.includes(file_common));
});

Deno.test("each service is called what its descriptor says", async () => {
  let services = 0;
  for await (const { name } of Deno.readDir(new URL("gen/", import.meta.url))) {
    const exported = Object.values(await import(`./gen/${name}`)) as (DescFile | DescService | undefined)[];
    for (const desc of exported.filter((one) => one?.kind === "service")) {
      const { typeName, file: { services: declared } } = desc;
      assert(
        declared.some((one) => one.typeName === typeName && one.methods[0] === desc.methods[0]),
        typeName,
      );
      services++;
    }
  }
  assert(services > 40, `${services} services`);
});

Deno.test("a table reads what describes a service when it is first called", () => {
  const table = new ServiceTable(new SystemClock());
  table.add(service(serviceDesc(broken, 0, "a.v1.B"), {}));
  table.add(service(ArmService, {}));
  const path = "/viam.component.arm.v1.ArmService/GetEndPosition";
  assertEquals(table.find(path)?.method.name, "GetEndPosition");
  assert(table.find(path) === table.find(path));
  for (
    const wrong of [
      `${path}/`,
      `${path}/x`,
      path.slice(1),
      "",
      "/",
      "//",
      "/viam.component.arm.v1.ArmService",
    ]
  ) {
    assertEquals(table.find(wrong), undefined, wrong);
  }
  assertThrows(() => table.find("/a.v1.B/C"));
});
