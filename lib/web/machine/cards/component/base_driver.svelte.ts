/**
 * Turns keys, a pad and a gamepad into the power of a base. A release stops it, also the loss of the focus, of the
 * window, or of the gamepad.
 */

/** The power is sent again so often while something is held, so that a base with a timeout keeps moving. */
const REPEAT_MS = 200;
const GAMEPAD_DEAD = 0.12;

const DIRECTIONS: Readonly<Record<string, string>> = {
  arrowup: "w",
  arrowleft: "a",
  arrowdown: "s",
  arrowright: "d",
  w: "w",
  a: "a",
  s: "s",
  d: "d",
};

/** The same keys by their place, where a layout of another alphabet or an input method has no Latin letters. */
const PLACES: Readonly<Record<string, string>> = { KeyW: "w", KeyA: "a", KeyS: "s", KeyD: "d" };

export interface DriverParts {
  /** The share of full power, 0 to 1. */
  readonly power: () => number;
  /** Whether the machine may be driven on; not after a stop by somebody else, until what is held was let go. */
  readonly drive: (linear: number, angular: number) => Promise<boolean>;
  /** Something is held from now on, or nothing any more. */
  readonly holds: (holds: boolean) => void;
  readonly stop: () => Promise<unknown>;
}

export class Driver {
  /** Where it is driven: -1 to 1, forward and to the left. */
  linear = $state(0);
  angular = $state(0);
  gamepad = $state("");
  usesGamepad = $state(false);
  /** Directions by the place of their keys: a release may have another letter than its press. */
  #held = $state.raw<ReadonlyMap<string, string>>(new Map());
  /** A finger or button that went down on the pad, and has not been let go or stopped since; where that is the middle. */
  #pointing?: { readonly x: number; readonly y: number };
  #holding = false;
  /** The sticks count again after they have been at rest: what is held since before a stop does not. */
  #awaitsRest = false;
  #driving = false;
  #sending = false;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(private readonly parts: DriverParts) {}

  /** Follows the window and the gamepads; returns the end of it. */
  start(): () => void {
    const stop = () => this.release();
    const seek = () => this.gamepad = firstGamepad()?.id ?? "";
    const hidden = () => document.visibilityState === "hidden" && stop();
    addEventListener("blur", stop);
    document.addEventListener("visibilitychange", hidden);
    addEventListener("gamepadconnected", seek);
    addEventListener("gamepaddisconnected", seek);
    seek();
    this.#timer = setInterval(() => this.#tick(), REPEAT_MS);
    return () => {
      clearInterval(this.#timer);
      removeEventListener("blur", stop);
      document.removeEventListener("visibilitychange", hidden);
      removeEventListener("gamepadconnected", seek);
      removeEventListener("gamepaddisconnected", seek);
      this.release();
    };
  }

  holds(direction: string): boolean {
    return [...this.#held.values()].includes(direction);
  }

  toggleGamepad(): void {
    this.usesGamepad = !this.usesGamepad;
    this.#awaitsRest = true;
    if (!this.usesGamepad) this.release();
  }

  key(event: KeyboardEvent, down: boolean): void {
    // With such a key held, the release of another one may never be told.
    if (event.ctrlKey || event.metaKey || event.altKey) return this.release();
    const place = event.code || event.key.toLowerCase();
    const direction = down ? directionOf(event) : this.#held.get(place);
    if (!direction) return;
    event.preventDefault();
    if (event.repeat) return;
    const held = new Map(this.#held);
    if (down) held.set(place, direction);
    else held.delete(place);
    this.#held = held;
    const sign = (plus: string, minus: string) => Number(this.holds(plus)) - Number(this.holds(minus));
    if (held.size === 0) this.release();
    else this.#steer(sign("w", "s"), sign("a", "d"));
  }

  pointer(event: PointerEvent): void {
    const pad = event.currentTarget as HTMLElement;
    // A second finger steers nothing; another button opens a menu, which takes the release.
    if (!event.isPrimary) return;
    if (event.buttons > 1) return this.release();
    const { left, top, width, height } = pad.getBoundingClientRect();
    if (event.type === "pointerdown") {
      const isFinger = event.pointerType === "touch";
      // A finger elsewhere on the pad scrolls the page.
      if (isFinger && !(event.target as HTMLElement).closest("[data-grip]")) return;
      this.#pointing = isFinger
        ? { x: event.clientX - left, y: event.clientY - top }
        : { x: width / 2, y: height / 2 };
      pad.setPointerCapture(event.pointerId);
    }
    if (event.buttons === 0 || !this.#pointing) return;
    const { x, y } = this.#pointing;
    const share = (value: number) => Math.min(1, Math.max(-1, value));
    this.#steer(
      share(2 * (top + y - event.clientY) / height),
      share(2 * (left + x - event.clientX) / width),
    );
  }

  /** Stops the base as `release` does, and what is still held counts no more until it is let go. */
  stop(always = false): void {
    this.#awaitsRest = true;
    this.release(always);
  }

  /** Stops the base if it is driven, or in any case. */
  release(always = false): void {
    this.#held = new Map();
    this.#pointing = undefined;
    this.#hold(false);
    this.#rest(always);
  }

  #rest(always = false): void {
    this.linear = 0;
    this.angular = 0;
    if (!this.#driving && !always) return;
    this.#driving = false;
    void this.parts.stop();
  }

  #steer(linear: number, angular: number): void {
    if (linear === 0 && angular === 0) return this.#rest();
    this.linear = linear;
    this.angular = angular;
    this.#hold(true);
    this.#driving = true;
    void this.#send();
  }

  #hold(holds: boolean): void {
    if (this.#holding !== holds) this.parts.holds(holds);
    this.#holding = holds;
  }

  #tick(): void {
    if (this.usesGamepad) {
      // A browser tells a page in the background where the sticks were when it was left.
      if (!document.hasFocus() || document.visibilityState === "hidden") {
        this.#awaitsRest = true;
        return this.release();
      }
      const pad = firstGamepad();
      if (!pad) return this.release();
      const axis = (at: number) => {
        const value = pad.axes[at] ?? 0;
        return Math.abs(value) < GAMEPAD_DEAD ? 0 : value;
      };
      const rests = axis(0) === 0 && axis(1) === 0;
      if (rests) this.#awaitsRest = false;
      if (rests && this.#driving) return this.release();
      if (!rests && !this.#awaitsRest) return this.#steer(-axis(1), -axis(0));
    }
    if (this.#driving) void this.#send();
  }

  /** One call at a time: what is held by then is sent by the next tick. */
  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    const power = this.parts.power();
    let mayGoOn = true;
    try {
      mayGoOn = await this.parts.drive(this.linear * power, this.angular * power);
    } finally {
      this.#sending = false;
    }
    if (!mayGoOn) {
      this.#driving = false;
      return this.stop();
    }
    // Released meanwhile: the stop may have arrived before this power.
    if (!this.#driving) void this.parts.stop();
  }
}

function directionOf({ key, code }: KeyboardEvent): string | undefined {
  const isOtherAlphabet = key === "Process" || /^\p{L}$/u.test(key) && !/^\p{Script=Latin}$/u.test(key);
  return DIRECTIONS[key.toLowerCase()] ?? (isOtherAlphabet ? PLACES[code] : undefined);
}

/** Without a secure origin some browsers have no gamepads, and a frame of another page may be refused them. */
function firstGamepad(): Gamepad | undefined {
  try {
    return navigator.getGamepads().find((one) => one !== null) ?? undefined;
  } catch {
    return undefined;
  }
}
