/**
 * The sticks and buttons of an input controller that a person holds on the page.
 *
 * Events go to the machine one at a time: calls overtake each other, and a release that arrives before the last
 * movement of its stick would leave the stick deflected, and what it drives in motion.
 */

const MOVED = "PositionChangeAbs";
/** A finger that has not begun to scroll the page after this time presses the button below it. */
const TOUCH_MS = 120;

export interface ControlEvent {
  readonly control: string;
  readonly event: string;
  readonly value: number;
}

export class HeldControls {
  /** What was moved or pressed is let go once, however the page hears of it. */
  readonly #moved = new Set<string>();
  readonly #pressed = new Set<string>();
  /** Buttons below a finger that may still begin to scroll, with what presses them. */
  readonly #touched = new Map<string, ReturnType<typeof setTimeout>>();
  #waiting: ControlEvent[] = [];
  #sending = false;
  /** What is held since before a STOP counts no more. */
  #stopped = false;

  /** `send` says whether the machine has taken the event. */
  constructor(private readonly send: (event: ControlEvent) => Promise<boolean>) {}

  /** A stick or button is taken anew. */
  take(): void {
    this.#stopped = false;
  }

  move(axis: string, value: number): void {
    if (this.#stopped) return;
    this.#moved.add(axis);
    this.#tell(axis, MOVED, value);
  }

  center(axis: string): void {
    if (this.#moved.delete(axis)) this.#tell(axis, MOVED, 0);
  }

  press(button: string): void {
    this.take();
    this.#pressed.add(button);
    this.#tell(button, "ButtonPress", 1);
  }

  touch(button: string): void {
    this.#forgetTouch(button);
    this.#touched.set(
      button,
      setTimeout(() => {
        this.#touched.delete(button);
        this.press(button);
      }, TOUCH_MS),
    );
  }

  /** The finger or the mouse leaves a button that it meant: a short touch counts as a press, too. */
  lift(button: string): void {
    if (this.#forgetTouch(button)) this.press(button);
    this.letGo(button);
  }

  letGo(button: string): void {
    this.#forgetTouch(button);
    if (this.#pressed.delete(button)) this.#tell(button, "ButtonRelease", 0);
  }

  letGoAll(): void {
    for (const button of [...this.#touched.keys()]) this.#forgetTouch(button);
    for (const axis of this.#moved) this.#tell(axis, MOVED, 0);
    for (const button of this.#pressed) this.#tell(button, "ButtonRelease", 0);
    this.#moved.clear();
    this.#pressed.clear();
  }

  /** Lets everything go, and takes nothing of what the person still holds. */
  stop(): void {
    this.#stopped = this.#moved.size > 0;
    this.letGoAll();
  }

  #forgetTouch(button: string): boolean {
    clearTimeout(this.#touched.get(button));
    return this.#touched.delete(button);
  }

  #tell(control: string, event: string, value: number): void {
    // Of a stick only its present place counts.
    this.#waiting = this.#waiting.filter((one) => event !== MOVED || one.control !== control);
    this.#waiting.push({ control, event, value });
    if (!this.#sending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#sending = true;
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      const isTaken = await this.send(next);
      // As when the connection is lost: what was held then must not begin later.
      if (!isTaken) this.#waiting = this.#waiting.filter(({ value }) => value === 0);
    }
    this.#sending = false;
  }
}
