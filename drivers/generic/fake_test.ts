import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeGeneric } from "./fake.ts";

Deno.test("fake generic component: DoCommand answers with its command", async () => {
  assertEquals(await (await construct(FakeGeneric)).doCommand({ bar: ["baz", 1] }), { bar: ["baz", 1] });
});
