/**
 * `deno task net:nat`: machines behind NAT, called from each other's home over a bad network and a cut of 30 s, and as
 * a remote that is killed; with `--turn` also without a direct way, through coturn.
 */

import { netNeeds } from "./world.ts";
import { playNat } from "./play.ts";

const turn = Deno.args.includes("--turn");
const needed = await netNeeds(turn ? ["turnserver"] : []);
if ("missing" in needed) {
  console.error(`not run: ${needed.missing}`);
  Deno.exit(1);
}
await playNat({ calls: 200, cutMs: 30_000, turn, tell: (line) => console.log(line) });
