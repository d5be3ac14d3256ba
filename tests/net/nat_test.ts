/**
 * Machines behind NAT, the short form: `deno task net:nat` also cuts the way.
 */

import { needingTest } from "../support/needing.ts";
import { playNat } from "./play.ts";
import { netNeeds } from "./world.ts";

needingTest(
  "machines behind NAT are reached from another NAT directly and through TURN",
  await netNeeds(["turnserver"]),
  () => playNat({ calls: 20, cutMs: 0, turn: true, tell: () => {} }),
);
