/**
 * A person who scrolls changes no value on the way, because a value may move a machine: neither with a finger that
 * begins on a slider, nor with the wheel over a number field that has the focus.
 */

/** A finger that goes so far along a slider drags it. */
const DRAG_PX = 6;
/** Browsers report a slider's change after its finger has left; a busy page hears of both later, but at once. */
const LATE_MS = 300;

/** A finger on a slider. */
interface Touch {
  /** The slider's value before. */
  readonly value: string;
  readonly x: number;
  isDragged: boolean;
  /** The browser took the finger for scrolling or for zooming. */
  isCancelled: boolean;
  endMs?: number;
}

/** For the page's start. Works for all fields that the page ever has. */
export function takeInputWithCare(): void {
  const touches = new WeakMap<EventTarget, Touch>();
  const ends = (event: PointerEvent) => {
    const touch = touches.get(event.target!);
    if (!touch || event.pointerType !== "touch") return;
    touch.isCancelled = event.type === "pointercancel";
    touch.endMs = performance.now();
  };

  addEventListener("pointerdown", ({ target, pointerType, clientX }) => {
    if (!isField(target, "range")) return;
    touches.delete(target);
    if (pointerType !== "touch") return;
    touches.set(target, { value: target.value, x: clientX, isDragged: false, isCancelled: false });
  }, true);
  addEventListener("pointermove", ({ target, clientX }) => {
    const touch = touches.get(target!);
    if (touch && Math.abs(clientX - touch.x) >= DRAG_PX) touch.isDragged = true;
  }, true);
  addEventListener("pointerup", ends, true);
  addEventListener("pointercancel", ends, true);

  const takes = (event: Event) => {
    const { target } = event;
    const touch = isField(target, "range") && touches.get(target);
    if (!touch) return;
    const isOver = touch.endMs !== undefined && performance.now() - touch.endMs > LATE_MS;
    if (isOver || touch.isDragged && !touch.isCancelled) return;
    event.stopImmediatePropagation();
    target.value = touch.value;
    if (!touch.isDragged) return;

    // Whoever has followed the slider follows it back.
    touches.delete(target);
    target.dispatchEvent(new Event("input", { bubbles: true }));
  };
  addEventListener("input", takes, true);
  addEventListener("change", takes, true);

  addEventListener("wheel", ({ target }) => {
    if (isField(target, "number") && target === document.activeElement) target.blur();
  }, { capture: true, passive: true });
}

function isField(target: EventTarget | null, type: "range" | "number"): target is HTMLInputElement {
  return target instanceof HTMLInputElement && target.type === type;
}
