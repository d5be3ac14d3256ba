import { assertEquals } from "@std/assert";
import type { LogRecord } from "../../lib/base/log/log.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeButton } from "./fake.ts";

Deno.test("fake button: each push is logged and counted", async () => {
  const logged: LogRecord[] = [];
  const button = await construct(FakeButton, {}, { logged });
  await button.push();
  await button.push();
  assertEquals(logged.map(({ message }) => message), ["pushed button", "pushed button"]);
  assertEquals(await button.getStatus(), { pushes: 2 });
});
