import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { parseApi, parseModel, ResourceName } from "./name.ts";

Deno.test("ResourceName.parse: full names of local and remote resources, and no others", () => {
  for (const full of ["rdk:component:motor/left", "acme:service:gizmo/far:left"]) {
    assertEquals(String(ResourceName.parse(full)), full);
  }
  assertEquals(ResourceName.parse("rdk:component:motor/far:left").isRemote, true);
  const wanted = "is not the full name of a resource, wanted <api>/<name>";
  for (
    const wrong of ["", "left", "rdk:component:motor", "rdk:component:motor/", "rdk:component:motor/a b"]
  ) {
    const { code, message } = assertThrows(() => ResourceName.parse(wrong), SvcError);
    assertEquals([code, message.startsWith(`"${wrong}" ${wanted}`)], ["invalid_argument", true], message);
  }
});

Deno.test("parseApi: a namespace, a kind and a type", () => {
  assertEquals(parseApi("acme:service:gizmo"), { namespace: "acme", kind: "service", type: "gizmo" });
  for (const wrong of ["", "motor", "rdk:motor", "rdk:thing:motor", "rdk:component:", "a:component:b:c"]) {
    assertThrows(() => parseApi(wrong), SvcError, "wanted rdk:component:<type> or rdk:service:<type>");
  }
  for (const namespace of ["", "a b", "a/b"]) {
    assertThrows(() => parseApi(`${namespace}:component:motor`), SvcError, `bad namespace "${namespace}"`);
  }
});

Deno.test("parseModel: a word means a model of ours, three words one of somebody", () => {
  assertEquals(parseModel("fake"), "rdk:builtin:fake");
  assertEquals(parseModel("acme:weather:thermo-1"), "acme:weather:thermo-1");
  for (const wrong of ["", "acme:weather", "a:b:c:d", "acme::thermo", "acme:weather:", "a b"]) {
    const { code } = assertThrows(() => parseModel(wrong), SvcError, `"${wrong}" is not the name of a model`);
    assertEquals(code, "invalid_argument");
  }
});

Deno.test("ResourceName.farOf and nearOf: other resources of the same machine, by their names there and here", () => {
  const of = (short: string, far?: string) => ResourceName.of("rdk:service:vision", short, far);
  const prefixed = of("far:r_v", "v");
  const names = ["r_cam", "far:r_cam", "cam", "other:r_cam", ""];
  assertEquals(names.map((name) => prefixed.farOf(name)), ["cam", "cam", "cam", "other:r_cam", ""]);
  assertEquals(prefixed.nearOf("cam"), "r_cam");
  assertEquals(["cam", "far:cam"].map((name) => of("far:v", "v").farOf(name)), ["cam", "cam"]);
  assertEquals(of("far:v", "v").nearOf("cam"), "cam");
  // What lives here, and what is only named so.
  for (const name of [of("v"), of("far:v")]) {
    assertEquals([name.farOf("far:cam"), name.nearOf("cam")], ["far:cam", "cam"]);
  }
});
