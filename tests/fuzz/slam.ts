/**
 * Damaged map files: the reader takes each or refuses it with an error for the caller, and nothing else.
 *
 * `deno task fuzz:slam [seeds]` tries 100,000 seeds unless told otherwise. A seed is one damaged file: of every two,
 * one is damaged as it is, and one in a message before that is packed, so that the damage gets past the checksum.
 */

import { gunzipSync, gzipSync } from "node:zlib";
import { SvcError } from "../../lib/base/error.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import { mapFile, readMap } from "../../lib/slam/pbstream/map_file.ts";
import { sampleMap } from "../support/map_states.ts";
import { bytesIn, pieces } from "../support/pieces.ts";
import { damaged, joined } from "./damage.ts";

const SEEDS = 100_000;
const REFUSALS = ["invalid_argument", "resource_exhausted"];
const MAGIC_BYTES = 8;
const LENGTH_BYTES = 8;

/** A small map. */
export function sample(): Promise<Uint8Array> {
  return bytesIn(mapFile(sampleMap(), MAPPER_DEFAULTS));
}

/** What went wrong with the file of that seed: `undefined` is nothing. */
export async function attempt(seed: number, file: Uint8Array): Promise<unknown> {
  try {
    await readMap(pieces(seed % 2 === 0 ? damaged(file, seed) : withDamagedMessage(file, seed)));
  } catch (error) {
    if (!(error instanceof SvcError) || !REFUSALS.includes(error.code)) return error;
  }
  return undefined;
}

function withDamagedMessage(file: Uint8Array, seed: number): Uint8Array {
  const starts: number[] = [];
  const view = new DataView(file.buffer);
  const lengthAt = (at: number) => Number(view.getBigUint64(at, true));
  for (let at = MAGIC_BYTES; at < file.length; at += LENGTH_BYTES + lengthAt(at)) starts.push(at);
  const start = starts[Math.floor(starts.length * randomFrom(seed)())];
  const end = start + LENGTH_BYTES + lengthAt(start);
  const content = gzipSync(damaged(gunzipSync(file.subarray(start + LENGTH_BYTES, end)), seed));
  const length = new Uint8Array(LENGTH_BYTES);
  new DataView(length.buffer).setBigUint64(0, BigInt(content.length), true);
  return joined(file.subarray(0, start), length, content, file.subarray(end));
}

if (import.meta.main) {
  const seeds = Number(Deno.args[0] ?? SEEDS);
  const file = await sample();
  let failed = 0;
  for (let seed = 1; seed <= seeds; seed++) {
    const error = await attempt(seed, file);
    if (error === undefined) continue;
    console.error(`seed ${seed}:`, error);
    if (++failed === 10) break;
  }
  const residentMb = Deno.memoryUsage().rss / 1e6;
  console.log(`${seeds} damaged map files, ${failed} wrong, ${residentMb.toFixed(0)} MB resident`);
  if (failed > 0) Deno.exit(1);
}
