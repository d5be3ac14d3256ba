/**
 * `deno task attack cloud`: a control plane with two tenants, one of which wants what belongs to the other.
 *
 * Starts svc-cloud in a process of its own on loopback and plays the matrix over every call that the descriptors
 * know; prints how many calls were tried and every leak that was found. Exit code 1 where there is one.
 */

import { serveCloud } from "../cloud/program.ts";
import { type MatrixReport, playMatrix } from "./cloud/matrix.ts";

export interface CloudAttack {
  /** Plays only one of so many requests; all where left out. */
  readonly oneIn?: number;
  readonly seed?: number;
  readonly say?: (line: string) => void;
}

export async function playCloud(
  { oneIn = 1, seed = 1, say = () => {} }: CloudAttack,
): Promise<MatrixReport> {
  const folder = await Deno.makeTempDir({ prefix: "svc-attack-" });
  try {
    const server = await serveCloud(["--data", folder, "--training", "embedded"]);
    try {
      const place = { address: new URL(server.url).host, flags: ["--data", folder] };
      return await playMatrix({ place, databaseFile: `${folder}/cloud.db`, oneIn, seed, say });
    } finally {
      await server.stop();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Prints what was found; gives the exit code. */
export async function attackCloud(words: readonly string[]): Promise<number> {
  const [seed = "1", oneIn = "1"] = words;
  console.log(`seed ${seed}, one in ${oneIn} requests`);
  const report = await playCloud({ seed: Number(seed), oneIn: Number(oneIn), say: console.log });
  console.log(
    `${report.methods} methods known, ${report.served} served, ${report.telling} of them show things to their owner`,
  );
  console.log(`${report.calls} calls tried, ${report.leaks.length} leaks found`);
  return report.leaks.length === 0 ? 0 : 1;
}
