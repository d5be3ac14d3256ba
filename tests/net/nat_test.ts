/**
 * Machines behind NAT, the short form: `deno task net:nat` also cuts the way.
 */

import { needingTest } from "../support/needing.ts";
import { playNat } from "./play.ts";
import { netNeeds } from "./world.ts";

needingTest(
  "two machines behind NAT are called from each other's home, directly and through TURN",
  await netNeeds(["turnserver"]),
  () => playNat({ calls: 20, cutMs: 0, turn: true, tell: () => {} }),
);
