/**
 * The keyboard's focus when its element goes away or is disabled for a while: a browser then gives it to nothing, and a
 * person without a pointer begins anew at the top of the page.
 */

/** What can take the focus in place of an element within it. */
const PLACES = "[tabindex], section, form, fieldset, dialog, main";

/** Follows the focus on the page until the answer is called. */
export function keepFocus(): () => void {
  let last: HTMLElement | undefined;
  /** Around it, the nearest first: what has gone no longer knows where it was. */
  let around: readonly HTMLElement[] = [];
  /** Has the focus in its place, until it is there again. */
  let stand: HTMLElement | undefined;

  const onfocusin = ({ target }: FocusEvent) => {
    if (!(target instanceof HTMLElement) || target === stand) return;
    stand = undefined;
    last = target;
    around = placesAround(target);
  };
  // A person with a pointer may give the focus to nothing.
  const onpointerdown = () => last = stand = undefined;
  const look = () => {
    const active = document.activeElement;
    if (!last || active !== document.body && active !== stand) return;
    const isShown = last.isConnected && last.checkVisibility();
    if (isShown && !last.matches(":disabled")) {
      last.focus({ preventScroll: true });
    } else if (active === document.body) {
      stand = around.find((one) => one.isConnected && one.checkVisibility()) ??
        document.querySelector<HTMLElement>("main") ?? undefined;
      if (stand && !stand.hasAttribute("tabindex")) stand.tabIndex = -1;
      stand?.focus({ preventScroll: true });
    }
  };

  const observer = new MutationObserver(look);
  observer.observe(document.body, {
    childList: true,
    subtree: true,
    attributes: true,
    attributeFilter: ["disabled", "hidden"],
  });
  document.addEventListener("focusin", onfocusin);
  document.addEventListener("pointerdown", onpointerdown, true);

  return () => {
    observer.disconnect();
    document.removeEventListener("focusin", onfocusin);
    document.removeEventListener("pointerdown", onpointerdown, true);
  };
}

function placesAround(element: HTMLElement): HTMLElement[] {
  const found: HTMLElement[] = [];
  let place = element.parentElement?.closest<HTMLElement>(PLACES);
  while (place) {
    found.push(place);
    place = place.parentElement?.closest<HTMLElement>(PLACES);
  }
  return found;
}
