/**
 * Changed inputs of every reader of bytes from outside: each is read, or refused as its callers expect, and nothing else.
 * `deno task fuzz` searches longer, and looks at which code runs.
 */

import { assertEquals } from "@std/assert";
import { search } from "./search.ts";
import type { Target } from "./target.ts";
import { TARGETS } from "./targets.ts";

const SEED = Number(Deno.env.get("SVC_TEST_SEED") ?? 1);
const CASES = 400;
/** Where one case does less, or more: microseconds of a parser, milliseconds of a mapper. */
const OWN_CASES: { readonly [target: string]: number } = {
  "wire/webrtc-peer": 1500,
  "media/jpeg": 1500,
  "media/png": 1500,
  "media/pcd": 1500,
  "config/machine": 150,
  "wire/port": 150,
  "maps/mapper": 40,
  "maps/mcap": 100,
  "maps/bag": 100,
  "same/hpack-exchange": 30,
  "same/http2": 200,
};

Deno.test("readers of bytes from outside read or refuse what they get", async (t) => {
  for (const target of TARGETS) {
    const missing = await target.open?.();
    const name = missing === undefined ? target.name : `${target.name} (not run: ${missing})`;
    await t.step({ name, ignore: missing !== undefined, fn: () => tryCases(target) });
  }
});

async function tryCases(target: Target): Promise<void> {
  const casesMax = OWN_CASES[target.name] ?? CASES;
  try {
    const { faults } = await search(target, { seed: SEED, isOver: (cases) => cases >= casesMax });
    assertEquals(faults.map(({ bytes, error }) => ({ input: JSON.stringify([...bytes]), error })), []);
  } finally {
    await target.close?.();
  }
}
