/**
 * Watches the wheels of a base that goes on after its call has ended.
 *
 * A motor may end its movement by itself: its shaft is blocked, its encoder, module or machine is lost. The base would
 * drive on in a circle by its other wheels, without a caller to tell.
 */

import type { Motor } from "../../lib/api/actuators/motor.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import { feedback } from "../../lib/resource/feedback.ts";

const LOOK_MS = 250;
/** A motor that has turned has failed after so many consecutive looks in which it stands or does not answer. */
const LOOKS_MAX = 2;
/** Commands that follow a failure without a pause of this length are refused: nobody has seen that the base stands. */
const PAUSE_MS = 1000;

/** What a command asks of a wheel: `direction` is -1, 0 (to stand) or 1. */
export interface WheelMotion {
  readonly motor: Motor;
  readonly direction: number;
}

export class WheelWatch {
  #wheels: readonly WatchedWheel[] = [];
  #watching?: AbortController;
  #failure?: { readonly why: SvcError; readonly refusedUntilMs: number };

  /** `failed` is called at most once after each `begin`. */
  constructor(private readonly clock: Clock, private readonly failed: (why: SvcError) => void) {}

  /**
   * For the beginning of a command: goes on watching the wheels that keep their direction. Throws why a wheel has failed
   * while commands follow each other without a pause, as from a held key: the base would drive on in a circle.
   */
  keep(motions: readonly WheelMotion[]): void {
    const nowMs = this.clock.monotonicMs();
    if (this.#failure && nowMs < this.#failure.refusedUntilMs) {
      const { why } = this.#failure;
      this.#failure = { why, refusedUntilMs: nowMs + PAUSE_MS };
      throw new SvcError(why.code, `the base stands because ${chainOf(why)}; stop, and try again`, {
        cause: why,
      });
    }
    this.#failure = undefined;
    this.#wheels = this.#wheels.filter((wheel) => motions.some((motion) => wheel.is(motion)));
  }

  /** Watches motors that have just got their commands; of those that do not begin to turn nothing is known. */
  begin(motions: readonly WheelMotion[]): void {
    this.#wheels = motions.filter(({ direction }) => direction !== 0).map((motion) =>
      this.#wheels.find((wheel) => wheel.is(motion)) ?? new WatchedWheel(motion, this.clock)
    );
    if (this.#watching) return;

    const { signal } = this.#watching = new AbortController();
    this.#watch(signal).catch((error) => {
      if (signal.aborted) return;
      this.end();
      const why = SvcError.from(error);
      this.#failure = { why, refusedUntilMs: this.clock.monotonicMs() + PAUSE_MS };
      this.failed(why);
    });
  }

  end(): void {
    this.#watching?.abort();
    this.#watching = undefined;
    this.#wheels = [];
  }

  /** The next command is no longer refused. */
  forgive(): void {
    this.#failure = undefined;
  }

  async #watch(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.clock.sleep(LOOK_MS, signal);
      await Promise.all(this.#wheels.map((wheel) => wheel.look(signal, () => this.#wheels.includes(wheel))));
    }
  }
}

class WatchedWheel {
  #hasTurned = false;
  #failures = 0;

  constructor(private readonly motion: WheelMotion, private readonly clock: Clock) {}

  is({ motor, direction }: WheelMotion): boolean {
    return motor === this.motion.motor && direction === this.motion.direction;
  }

  /** Throws when the wheel has failed and is still watched. */
  async look(signal: AbortSignal, isWatched: () => boolean): Promise<void> {
    const { motor } = this.motion;
    try {
      const turns = await feedback(motor.name, this.clock, signal, (signal) => isTurning(motor, signal));
      if (!turns) throw new SvcError("failed_precondition", "it stands");
      this.#hasTurned = true;
      this.#failures = 0;
    } catch (cause) {
      if (!isWatched() || !this.#hasTurned || ++this.#failures < LOOKS_MAX) return;
      const { code } = SvcError.from(cause);
      throw new SvcError(code, `${motor.name} no longer turns`, { cause });
    }
  }
}

/** Also true while a motor has no power for a moment because its control wants none. */
async function isTurning(motor: Motor, signal: AbortSignal): Promise<boolean> {
  return (await motor.isPowered({ signal })).isOn || await motor.isMoving({ signal });
}
