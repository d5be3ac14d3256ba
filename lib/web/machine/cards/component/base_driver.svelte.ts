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
  readonly drive: (linear: number, angular: number) => Promise<unknown>;
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
    this.#steer(sign("w", "s"), sign("a", "d"));
  }

  pointer(event: PointerEvent): void {
    const pad = event.currentTarget as HTMLElement;
    // A second finger steers nothing; another button opens a menu, which takes the release.
    if (!event.isPrimary) return;
    if (event.buttons > 1) return this.release();
    if (event.type === "pointerdown") pad.setPointerCapture(event.pointerId);
    if (event.buttons === 0) return;
    const { left, top, width, height } = pad.getBoundingClientRect();
    const share = (value: number) => Math.min(1, Math.max(-1, value));
    this.#steer(share(1 - 2 * (event.clientY - top) / height), share(1 - 2 * (event.clientX - left) / width));
  }

  /** Stops the base if it is driven, or in any case. */
  release(always = false): void {
    this.#held = new Map();
    this.linear = 0;
    this.angular = 0;
    if (!this.#driving && !always) return;
    this.#driving = false;
    void this.parts.stop();
  }

  #steer(linear: number, angular: number): void {
    if (linear === 0 && angular === 0) return this.release();
    this.linear = linear;
    this.angular = angular;
    this.#driving = true;
    void this.#send();
  }

  #tick(): void {
    if (this.usesGamepad) {
      // A browser tells a page in the background where the sticks were when it was left.
      if (!document.hasFocus() || document.visibilityState === "hidden") return this.release();
      const pad = firstGamepad();
      if (!pad) return this.release();
      const axis = (at: number) => {
        const value = pad.axes[at] ?? 0;
        return Math.abs(value) < GAMEPAD_DEAD ? 0 : value;
      };
      if (axis(0) !== 0 || axis(1) !== 0 || this.#driving) return this.#steer(-axis(1), -axis(0));
    }
    if (this.#driving) void this.#send();
  }

  /** One call at a time: what is held by then is sent by the next tick. */
  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    const power = this.parts.power();
    try {
      await this.parts.drive(this.linear * power, this.angular * power);
    } finally {
      this.#sending = false;
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
