/** The transforms that a world state store holds, each with the frames that lead from it to one of the machine. Pure. */

/** The part of a transform that says where it is. */
export interface StoredTransform {
  readonly referenceFrame: string;
  readonly poseInObserverFrame?: { readonly referenceFrame: string };
}

const WORLD = "world";
/** Longer chains of parents are taken for a ring. */
const CHAIN_MAX = 16;

/**
 * The transforms of the same store between this one and a frame that the machine knows, the nearest first; `undefined`
 * if they lead nowhere. A name that the machine knows means its own frame.
 */
export function parentsInStore<T extends StoredTransform>(
  transform: T,
  stored: ReadonlyMap<string, T>,
  isKnown: (frame: string) => boolean,
): readonly T[] | undefined {
  const parents: T[] = [];
  for (let frame = parentOf(transform); !isKnown(frame) && frame !== WORLD;) {
    const parent = stored.get(frame);
    if (!parent || parents.length === CHAIN_MAX) return undefined;
    parents.push(parent);
    frame = parentOf(parent);
  }
  return parents;
}

export function parentOf({ poseInObserverFrame }: StoredTransform): string {
  return poseInObserverFrame?.referenceFrame || WORLD;
}
