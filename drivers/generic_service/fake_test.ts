import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeGenericService } from "./fake.ts";

Deno.test("fake generic service: DoCommand answers with its command", async () => {
  assertEquals(await (await construct(FakeGenericService)).doCommand({ bar: null }), { bar: null });
});
