/** The commands that a person has sent to a resource, and the favourites among them, kept in this browser. */

import { storedName } from "../../shared/own_place.ts";

const MAX_RECENT = 20;
const MAX_FAVOURITES = 50;
const MAX_CHARS = 20_000;

interface Stored {
  readonly recent: readonly string[];
  readonly favourites: readonly string[];
}

export class CommandHistory {
  #stored = $state.raw<Stored>({ recent: [], favourites: [] });
  readonly #place: string;

  constructor({ api, name }: { readonly api: string; readonly name: string }) {
    this.#place = storedName(`svc-commands/${api}/${name}`);
    this.#stored = read(this.#place);
  }

  get recent(): readonly string[] {
    return this.#stored.recent;
  }

  get favourites(): readonly string[] {
    return this.#stored.favourites;
  }

  isFavourite(text: string): boolean {
    return this.favourites.includes(text);
  }

  add(text: string): void {
    const recent = [text, ...this.recent.filter((one) => one !== text)].slice(0, MAX_RECENT);
    this.#keep({ ...this.#stored, recent });
  }

  toggle(text: string): void {
    const favourites = this.isFavourite(text)
      ? this.favourites.filter((one) => one !== text)
      : [text, ...this.favourites].slice(0, MAX_FAVOURITES);
    this.#keep({ ...this.#stored, favourites });
  }

  #keep(stored: Stored): void {
    this.#stored = stored;
    try {
      const short = (entries: readonly string[]) => entries.filter((one) => one.length <= MAX_CHARS);
      const kept = { recent: short(stored.recent), favourites: short(stored.favourites) };
      localStorage.setItem(this.#place, JSON.stringify(kept));
    } catch {
      // It holds for this page.
    }
  }
}

function read(place: string): Stored {
  const texts = (list: unknown) => Array.isArray(list) ? list.filter((one) => typeof one === "string") : [];
  try {
    const found = JSON.parse(localStorage.getItem(place) ?? "{}");
    return { recent: texts(found?.recent), favourites: texts(found?.favourites) };
  } catch {
    return { recent: [], favourites: [] };
  }
}
