/** Secrets: stars wherever they are shown. */

import { assertEquals } from "@std/assert";
import { DecodeContext } from "./schema/schema.ts";
import { Secret, secret } from "./secret.ts";

Deno.test("Secret: prints as stars in strings, JSON and inspect", () => {
  const one = new Secret("hunter2");
  assertEquals(
    `${one} ${JSON.stringify({ one })} ${Deno.inspect({ one })}`,
    '****** {"one":"******"} { one: ****** }',
  );
  assertEquals(one.reveal(), "hunter2");
});

Deno.test("secret: an invalid value is not shown in its error", () => {
  const at = new DecodeContext("key");
  assertEquals(secret().decode(12345, at), undefined);
  assertEquals(at.problems[0].message, "found something else (not shown), wanted a string");
  assertEquals(secret().decode("", at), undefined);
  assertEquals(secret().decode("x", at)?.reveal(), "x");
});
