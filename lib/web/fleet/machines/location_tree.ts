/** The tree of an organization's locations, as a list. Pure. */

export interface TreeLocation {
  readonly id: string;
  readonly name: string;
  readonly parentLocationId: string;
}

export interface TreeRow<L> {
  readonly location: L;
  /** 0 at the top. */
  readonly depth: number;
}

/** Each location before those below it, neighbours by name. A location whose parent is not among them is at the top. */
export function treeRows<L extends TreeLocation>(locations: readonly L[]): TreeRow<L>[] {
  const known = new Set(locations.map(({ id }) => id));
  const children = Map.groupBy(
    locations,
    ({ parentLocationId }) => known.has(parentLocationId) ? parentLocationId : "",
  );
  const below = (id: string, depth: number): TreeRow<L>[] =>
    (children.get(id) ?? []).toSorted((a, b) => a.name < b.name ? -1 : 1).flatMap((location) => [
      { location, depth },
      ...below(location.id, depth + 1),
    ]);
  return below("", 0);
}

/** A location and all that are below it: it cannot move into any of these. */
export function withThoseBelow(locations: readonly TreeLocation[], id: string): Set<string> {
  const found = new Set([id]);
  for (let before = 0; before !== found.size;) {
    before = found.size;
    for (const one of locations) if (found.has(one.parentLocationId)) found.add(one.id);
  }
  return found;
}
