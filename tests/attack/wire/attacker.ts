/**
 * The process of an attacker: `attacker.ts NAME TIMES SEED TARGET`. Prints when it begins, and at its end
 * the toll.
 */

import { ATTACKS } from "./all.ts";
import { Field } from "./attack.ts";

const [name, times, seed, target] = Deno.args;
const attack = ATTACKS.find((one) => one.name === name);
if (!attack) {
  console.error(`attacker: no attack is called "${name}"`);
  Deno.exit(2);
}
const field = new Field(JSON.parse(target), JSON.parse(times), Number(seed));
console.log(JSON.stringify({ begunMs: Date.now() }));
const toll = await field.run(attack);
console.log(JSON.stringify({ endedMs: Date.now(), toll }));
// What hangs in a write to a server that does not read is left to the system.
Deno.exit(0);
