/** Which cards are open, in their order, kept for the tab. */

import { storedName } from "../../../shared/own_place.ts";

const STORED = "svc-open-cards";
/** More open cards than a person looks at would ask the machine for nothing. */
const MAX_OPEN = 100;

export class OpenCards {
  #ids = $state.raw<readonly string[]>(stored() ?? []);
  /** The person has chosen: no card opens by itself any more. */
  #chosen = stored() !== undefined;

  get ids(): readonly string[] {
    return this.#ids;
  }

  has(id: string): boolean {
    return this.#ids.includes(id);
  }

  /** Opens the first cards of a machine that the person has not chosen any of. */
  begin(ids: readonly string[]): void {
    if (!this.#chosen && this.#ids.length === 0) this.#ids = ids;
  }

  /** A new card comes first, where it is seen. */
  open(id: string): void {
    if (!this.has(id)) this.#keep([id, ...this.#ids].slice(0, MAX_OPEN));
  }

  close(id: string): void {
    this.#keep(this.#ids.filter((one) => one !== id));
  }

  closeAll(): void {
    this.#keep([]);
  }

  #keep(ids: readonly string[]): void {
    this.#chosen = true;
    this.#ids = ids;
    try {
      sessionStorage.setItem(storedName(STORED), JSON.stringify(ids));
    } catch {
      // It holds for this page.
    }
  }
}

function stored(): readonly string[] | undefined {
  try {
    const found = JSON.parse(sessionStorage.getItem(storedName(STORED)) ?? "null");
    return Array.isArray(found)
      ? found.filter((one) => typeof one === "string").slice(0, MAX_OPEN)
      : undefined;
  } catch {
    return undefined;
  }
}
