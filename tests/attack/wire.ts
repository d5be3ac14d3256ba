/**
 * `deno task attack wire [NAME…]`: plays every attack on the port, or the named ones, each against a fresh server on
 * loopback, and prints how others fared, what memory it took and what became of the attacker.
 *
 * Compare figures of one run, not of two machines. Ends with 1 if the server did not hold.
 */

import { ATTACKS } from "./wire/all.ts";
import type { Attack, Toll } from "./wire/attack.ts";
import { type Calls, FULL, play, type Result } from "./wire/play.ts";

export async function attackWire(names: readonly string[]): Promise<number> {
  const unknown = names.find((name) => !ATTACKS.some((attack) => attack.name === name));
  if (unknown !== undefined) {
    console.error(`attack wire: no attack is called "${unknown}", there are:`);
    for (const { name, what } of ATTACKS) console.error(`  ${name.padEnd(26)}${what}`);
    return 2;
  }
  const seed = 1 + Math.floor(Math.random() * 1e9);
  console.log(`seed ${seed}; others: calls answered, p50/p99 in ms; memory in MB before, at the peak, after`);
  let broken = 0;
  const chosen = names.length === 0 ? ATTACKS : ATTACKS.filter(({ name }) => names.includes(name));
  for (const attack of chosen) {
    const result = await play(attack, FULL, seed);
    if (result.problems.length > 0) broken++;
    print(attack, result);
  }
  console.log(`${chosen.length} attacks, ${broken === 0 ? "the server held" : `${broken} succeeded`}`);
  return broken === 0 ? 0 : 1;
}

function print({ name, what }: Attack, { rest, during, after, toll, problems, ...memory }: Result): void {
  const { beforeBytes, peakBytes, afterBytes } = memory;
  console.log(`\n${name}: ${what}`);
  console.log(`  others    rest ${calls(rest)}  during ${calls(during)}  after ${calls(after)}`);
  console.log(
    `  memory    ${[beforeBytes, peakBytes, afterBytes].map((bytes) => (bytes / 1e6).toFixed(0)).join("  ")}`,
  );
  console.log(`  attacker  ${fate(toll)}`);
  console.log(`  verdict   ${problems.length === 0 ? "held" : `SUCCEEDED: ${problems.join("; ")}`}`);
}

function calls({ made, answered, p50Ms, p99Ms }: Calls): string {
  return `${answered}/${made} ${p50Ms.toFixed(1)}/${p99Ms.toFixed(1)}`;
}

function fate({ connections, refused, ended, answers, resets, sentBytes }: Toll): string {
  const cuts = Object.entries(ended).map(([how, count]) => `${how} × ${count}`);
  const counts = { answers, resets, "not let in": refused };
  return [
    `${connections} connections`,
    cuts.length > 0 ? `cut off: ${cuts.join(", ")}` : "not cut off",
    ...Object.entries(counts).filter(([, count]) => count > 0).map(([what, count]) => `${what} ${count}`),
    `${(sentBytes / 1e6).toFixed(1)} MB sent`,
  ].join(", ");
}
