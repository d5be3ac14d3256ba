import { assertEquals, assertStringIncludes } from "@std/assert";
import { pythonFiles } from "./template_python.ts";

const PLAN = { name: "arms", namespace: "acme", model: "my-arm", extension: "py" };

Deno.test("pythonFiles: a long signature has a line for each parameter, and commas in brackets divide none", () => {
  const text = pythonFiles({ ...PLAN, api: "rdk:component:arm" })["model.py"];
  assertStringIncludes(
    text,
    [
      "    async def get_end_position(",
      "        self,",
      "        *,",
      "        extra: dict[str, Any] | None = None,",
      "        timeout: float | None = None,",
      "        **kwargs,",
      "    ) -> Pose:",
      '        raise NotImplementedError("get_end_position is not written yet")',
    ].join("\n"),
  );
});

Deno.test("pythonFiles: the class has the model's words, and a sensor reads without a change", () => {
  const text = pythonFiles({ ...PLAN, api: "rdk:component:sensor" })["model.py"];
  assertStringIncludes(text, "class MyArmModel(Sensor, EasyResource):");
  assertStringIncludes(text, 'MODEL: ClassVar[str] = "acme:arms:my-arm"');
  assertStringIncludes(text, 'return {"reading": self.reading}');
  assertEquals(text.includes("NotImplementedError"), false);
});
