/**
 * Where a person wants the axes of a device: what the sliders show that were moved, until the device has been told and
 * has reported its place. The others follow the device, so that a movement of one axis takes none of the others back
 * to where it was when the card was opened.
 */

/** A report may have been under way when the movement ended; the second one is from afterwards. */
const REPORTS = 2;

interface Goal {
  readonly to: number;
  /** Reports until the device's place counts again; none while the movement has not ended. */
  readonly reports?: number;
}

export class Goals {
  #goals = $state.raw<ReadonlyMap<number, Goal>>(new Map());

  /** The goal of an axis; `undefined` where the device is followed. */
  of(axis: number): number | undefined {
    return this.#goals.get(axis)?.to;
  }

  set(axis: number, to: number): void {
    this.#goals = new Map(this.#goals).set(axis, { to });
  }

  clear(): void {
    this.#goals = new Map();
  }

  /** Keeps the goals of a movement until it ends; those that are set meanwhile stay. */
  async reach(movement: Promise<unknown>): Promise<void> {
    const sent = this.#goals;
    await movement;
    const isSent = (axis: number, goal: Goal) => sent.get(axis) === goal;
    this.#goals = new Map(
      [...this.#goals].map((
        [axis, goal],
      ) => [axis, isSent(axis, goal) ? { ...goal, reports: REPORTS } : goal]),
    );
  }

  /** The device has reported its place. */
  reported(): void {
    if (this.#goals.size === 0) return;
    this.#goals = new Map(
      [...this.#goals]
        .map(([axis, goal]): [number, Goal] => [
          axis,
          goal.reports === undefined ? goal : { ...goal, reports: goal.reports - 1 },
        ])
        .filter(([, { reports }]) => reports !== 0),
    );
  }
}
