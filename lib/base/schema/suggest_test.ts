/**
 * suggest(): a table of typed words, known words and suggestions.
 */

import { assertEquals } from "@std/assert";
import { suggest } from "./suggest.ts";

const FLAGS = ["config", "debug", "disable-mdns", "dump-resources", "no-tls", "version", "webrtc"];

const CASES: [word: string, known: string[], want: string | undefined][] = [
  ["confg", FLAGS, "config"],
  ["cnofig", FLAGS, "config"],
  ["CONFIG", FLAGS, "config"],
  ["no_tls", FLAGS, "no-tls"],
  ["verison", FLAGS, "version"],
  ["dump", FLAGS, "dump-resources"],
  ["d", FLAGS, undefined],
  ["zebra", FLAGS, undefined],
  ["", FLAGS, undefined],
  ["config", [], undefined],
  ["ab", ["cd"], undefined],
  ["ssid_", ["ssid", "psk"], "ssid"],
  ["mod", ["model", "mode"], "mode"],
  ["component", ["components_a", "components_b"], "components_a"],
  ["mini", ["minimum_x_value", "minimum_y_value"], undefined],
  ["x".repeat(101), ["x".repeat(100)], undefined],
];

Deno.test("suggest: returns the nearest word or undefined", () => {
  for (const [word, known, want] of CASES) assertEquals(suggest(word, known), want, `suggest("${word}")`);
});
