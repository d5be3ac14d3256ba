/**
 * The uncertainty of one submap's place relative to another: the length of the shortest path between them along the
 * robot's path and the loops closed so far.
 */

import type { MapSubmap } from "./map/parts.ts";

/** The length of a loop closure in a path, in metres. */
const CLOSURE_M = 1;

export class Drift {
  /** Submaps that loop closures connect. */
  readonly #ties = new Map<MapSubmap, Set<MapSubmap>>();

  tie(a: MapSubmap, b: MapSubmap): void {
    this.#tiesOf(a).add(b);
    this.#tiesOf(b).add(a);
  }

  untie(a: MapSubmap, b: MapSubmap): void {
    this.#ties.get(a)?.delete(b);
    this.#ties.get(b)?.delete(a);
  }

  forget(submap: MapSubmap): void {
    for (const other of this.#ties.get(submap) ?? []) this.#ties.get(other)?.delete(submap);
    this.#ties.delete(submap);
  }

  #tiesOf(submap: MapSubmap): Set<MapSubmap> {
    const ties = this.#ties.get(submap) ?? new Set();
    this.#ties.set(submap, ties);
    return ties;
  }

  /** The length of the shortest path from a submap to each other; unreachable submaps are missing. */
  from(start: MapSubmap, submaps: readonly MapSubmap[]): ReadonlyMap<MapSubmap, number> {
    const places = new Map(submaps.map((submap, place) => [submap, place]));
    const lengths = new Float64Array(submaps.length).fill(Infinity);
    const done = new Uint8Array(submaps.length);
    const first = places.get(start);
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
      const reach = (place: number, way: number) => {
        if (length + way < lengths[place]) lengths[place] = length + way;
      };
      for (const place of [nearest - 1, nearest + 1]) {
        const other = submaps[place];
        if (other?.trajectory === own.trajectory) reach(place, Math.abs(other.pathM - own.pathM));
      }
      for (const other of this.#ties.get(own) ?? []) {
        const place = places.get(other);
        if (place !== undefined) reach(place, CLOSURE_M);
      }
    }
    return new Map(submaps.flatMap((submap, k) => Number.isFinite(lengths[k]) ? [[submap, lengths[k]]] : []));
  }
}
