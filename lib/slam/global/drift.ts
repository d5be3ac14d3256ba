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
      let nearest = -1;
      for (let k = 0; k < lengths.length; k++) {
        if (!done[k] && lengths[k] < (nearest < 0 ? Infinity : lengths[nearest])) nearest = k;
      }
      if (nearest < 0) break;
      done[nearest] = 1;
      const own = submaps[nearest], length = lengths[nearest];
      const reach = (index: number, pathM: number) => {
        if (length + pathM < lengths[index]) lengths[index] = length + pathM;
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
    return new Map(submaps.flatMap((submap, k) => Number.isFinite(lengths[k]) ? [[submap, lengths[k]]] : []));
  }
}
