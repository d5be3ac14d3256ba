/**
 * `deno task attack NAME`: hostile clients against our own programs, on loopback and bounded in time.
 *
 * Exit code 0: they held, 1: an attack succeeded, 2: the command line is wrong.
 */

import { attackCloud } from "./cloud.ts";
import { attackPortal } from "./portal.ts";
import { attackWire } from "./wire.ts";

/** The targets of attacks, and the arguments of each. */
const FIELDS: Readonly<Record<string, (args: readonly string[]) => Promise<number>>> = {
  cloud: attackCloud,
  portal: attackPortal,
  wire: attackWire,
};

const [name = "", ...args] = Deno.args;
const field = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined;
if (!field) {
  console.error(`attack: found "${name}", wanted one of ${Object.keys(FIELDS).join(", ")}`);
  Deno.exit(2);
}
Deno.exit(await field(args));
