import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeGenericService } from "./fake.ts";

Deno.test("answers a command with itself", async () => {
  assertEquals(await (await construct(FakeGenericService)).doCommand({ bar: null }), { bar: null });
});
