/** Secrets: stars wherever they are shown. */

import { assertEquals } from "@std/assert";
import { Place } from "./schema/schema.ts";
import { Secret, secret } from "./secret.ts";

Deno.test("a secret shows itself as stars", () => {
  const one = new Secret("hunter2");
  assertEquals(
    `${one} ${JSON.stringify({ one })} ${Deno.inspect({ one })}`,
    '****** {"one":"******"} { one: ****** }',
  );
  assertEquals(one.reveal(), "hunter2");
});

Deno.test("a setting that is no secret text does not show itself either", () => {
  const at = new Place("key");
  assertEquals(secret().decode(12345, at), undefined);
  assertEquals(at.problems[0].message, "found something else (not shown), wanted a string");
  assertEquals(secret().decode("", at), undefined);
  assertEquals(secret().decode("x", at)?.reveal(), "x");
});
