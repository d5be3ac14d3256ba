/**
 * The process of an attacker: `attacker.ts NAME MILLISECONDS ENOUGH SEED TARGET`. Prints when it begins, and at its end
 * the toll.
 */

import { ATTACKS } from "./all.ts";
import { Field } from "./attack.ts";

const [name, ms, enoughMs, seed, target] = Deno.args;
const attack = ATTACKS.find((one) => one.name === name);
if (!attack) {
  console.error(`attacker: no attack is called "${name}"`);
  Deno.exit(2);
}
const field = new Field(JSON.parse(target), Number(ms), Number(seed));
console.log(JSON.stringify({ begunMs: Date.now() }));
const toll = await field.run(attack, Number(enoughMs));
console.log(JSON.stringify({ endedMs: Date.now(), toll }));
// What hangs in a write to a server that does not read is left to the system.
Deno.exit(0);
