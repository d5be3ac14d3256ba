import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeDiscovery } from "./fake.ts";

Deno.test("fake discovery: it finds a movement sensor and a camera, and echoes commands", async () => {
  const discovery = await construct(FakeDiscovery);
  assertEquals((await discovery.discoverResources()).map(({ name, api, model }) => [name, api, model]), [
    ["fake1", "rdk:component:movement_sensor", "rdk:builtin:fake"],
    ["fake2", "rdk:component:camera", "rdk:builtin:fake"],
  ]);
  assertEquals(await discovery.doCommand({ a: 1 }), { a: 1 });
});
