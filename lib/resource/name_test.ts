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
