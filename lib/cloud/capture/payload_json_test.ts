import { assertEquals } from "@std/assert";
import type { Json, JsonObject } from "../../base/schema/schema.ts";
import { payloadBytes } from "./payload.ts";
import { payloadJson } from "./payload_json.ts";

Deno.test("payloadJson() says of every payload what JSON says of it", () => {
  const payloads: JsonObject[] = [
    {},
    { readings: { celsius: 20.5, on: true, off: false, none: null, "": "", list: [], object: {} } },
    { numbers: [0, -0, 1e300, -5e-324, 1 / 3, 2 ** 53, 1e21] },
    {
      texts: ['"', "\\", "\u0000\u001f\u007f", "ü", "🤖", "a".repeat(300), "</script>"],
      'k"ey\n': { ü: [[["x"]]] },
    },
  ];
  let deep: Json = "end";
  for (let level = 0; level < 50; level++) deep = level % 2 ? [deep] : { deep };
  payloads.push({ deep });
  for (const payload of payloads) {
    assertEquals(JSON.parse(payloadJson(payloadBytes(payload))), JSON.parse(JSON.stringify(payload)));
  }
  const strange = payloadBytes({ a: Number.NaN, b: Number.POSITIVE_INFINITY });
  assertEquals(payloadJson(strange), '{"a":null,"b":null}');
});

Deno.test("payloadJson() reads other forms of the same message", () => {
  const usual = payloadBytes({ a: 1 });
  // An unknown field at the end, and no content at all.
  assertEquals(payloadJson(Uint8Array.of(...usual, 0xf8, 0x01, 0x05)), '{"a":1}');
  assertEquals(payloadJson(new Uint8Array()), "{}");
});
