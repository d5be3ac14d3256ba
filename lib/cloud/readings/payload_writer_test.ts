import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/schema/schema.ts";
import { payloadBytes } from "../capture/payload.ts";
import { PayloadWriter } from "./payload_writer.ts";

Deno.test("contents have the bytes of their messages", () => {
  const writer = new PayloadWriter();
  const contents: JsonObject[] = [
    {},
    { readings: { celsius: 20.5, negative: -1e300, nothing: null, "": "", yes: true, no: false } },
    {
      text: "ä€😀\u0000",
      long: "x".repeat(20_000),
      list: [1, [2, []], {}, "a", null, { deep: { deeper: [{}] } }],
    },
    { many: Array.from({ length: 3_000 }, (_, index) => ({ [`name${index}`]: index })) },
    JSON.parse('{"__proto__": 1, "b": {"constructor": "c"}}'),
  ];
  for (const content of contents) assertEquals(writer.bytesOf(content), payloadBytes(content));
});
