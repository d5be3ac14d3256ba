/** The address behind `#`: which view is open, and what it shows. */

import { followAddress } from "../shared/unsaved.svelte.ts";

export class PageRoute {
  #hash = $state(location.hash);

  constructor() {
    followAddress((hash) => this.#hash = hash);
  }

  /** The first name of the address, or nothing. */
  get view(): string {
    return this.#parts[0];
  }

  get rest(): string {
    return this.#parts[1];
  }

  get #parts(): [string, string] {
    const text = this.#hash.replace(/^#\/?/, "");
    const at = text.indexOf("/");
    return at < 0 ? [decoded(text), ""] : [decoded(text.slice(0, at)), decoded(text.slice(at + 1))];
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
