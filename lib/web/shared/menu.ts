/** A `<details>` that is a menu: it closes with Escape and with a press outside, as other menus do. */

/** An attachment of the element. */
export function menu(element: HTMLDetailsElement): () => void {
  const onkeydown = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !element.open) return;
    event.preventDefault();
    element.open = false;
    element.querySelector("summary")?.focus();
  };
  const onpointerdown = ({ target }: PointerEvent) => {
    if (element.open && target instanceof Node && !element.contains(target)) element.open = false;
  };
  element.addEventListener("keydown", onkeydown);
  document.addEventListener("pointerdown", onpointerdown, true);
  return () => {
    element.removeEventListener("keydown", onkeydown);
    document.removeEventListener("pointerdown", onpointerdown, true);
  };
}
