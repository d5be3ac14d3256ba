/**
 * The uncertainty of one submap's place relative to another: the length of the shortest path between them along the
 * robot's path and the loops closed so far.
 */

import type { MapSubmap } from "./map/parts.ts";

/** The length of a loop closure in a path, in metres. */
const CLOSURE_M = 1;

export class Drift {
  /** Submaps that loop closures connect. */
  readonly #connected = new Map<MapSubmap, Set<MapSubmap>>();

  connect(a: MapSubmap, b: MapSubmap): void {
    this.#connectedTo(a).add(b);
    this.#connectedTo(b).add(a);
  }

  disconnect(a: MapSubmap, b: MapSubmap): void {
    this.#connected.get(a)?.delete(b);
    this.#connected.get(b)?.delete(a);
  }

  forget(submap: MapSubmap): void {
    for (const other of this.#connected.get(submap) ?? []) this.#connected.get(other)?.delete(submap);
    this.#connected.delete(submap);
  }

  #connectedTo(submap: MapSubmap): Set<MapSubmap> {
    const connected = this.#connected.get(submap) ?? new Set();
    this.#connected.set(submap, connected);
    return connected;
  }

  /** The length of the shortest path from a submap to each other; unreachable submaps are missing. */
  from(start: MapSubmap, submaps: readonly MapSubmap[]): ReadonlyMap<MapSubmap, number> {
    const indices = new Map(submaps.map((submap, index) => [submap, index]));
    const lengths = new Float64Array(submaps.length).fill(Infinity);
    const done = new Uint8Array(submaps.length);
    const first = indices.get(start);
    if (first === undefined) return new Map();
    lengths[first] = 0;
    for (;;) {
      let nearest = -1, length = Infinity;
      for (let k = 0; k < lengths.length; k++) {
        const one = lengths[k] ?? Infinity;
        if (!done[k] && one < length) [nearest, length] = [k, one];
      }
      const own = submaps[nearest];
      if (!own) break;
      done[nearest] = 1;
      const reach = (index: number, pathM: number) => {
        lengths[index] = Math.min(lengths[index] ?? Infinity, length + pathM);
      };
      for (const index of [nearest - 1, nearest + 1]) {
        const other = submaps[index];
        if (other?.trajectory === own.trajectory) reach(index, Math.abs(other.pathM - own.pathM));
      }
      for (const other of this.#connected.get(own) ?? []) {
        const index = indices.get(other);
        if (index !== undefined) reach(index, CLOSURE_M);
      }
    }
    const all = submaps.map((submap, k) => [submap, lengths[k] ?? Infinity] as const);
    return new Map(all.filter(([, length]) => Number.isFinite(length)));
  }
}
