/** The boards of the machine: named arrangements of cards, the same for everybody who uses its page. */

import { getContext, setContext } from "svelte";
import { type PageLink, useLink } from "../link/page_link.svelte.ts";
import { type PageBoard, pageServiceOf } from "../link/page_service.ts";
import { poll } from "../link/poll.svelte.ts";

const EVERY_MS = 5000;
const CONTEXT = Symbol("the boards");
/** Begins a file of boards. */
const FORMAT = "svc-boards-1";
const FILE_CHARS_MAX = 1_000_000;
const IMPORTED_MAX = 32;

/** The address of a board: among the cards, or alone on the screen. */
export function boardHref(name: string, how: "control" | "screen" = "control"): string {
  return how === "screen"
    ? `#/screen/${encodeURIComponent(name)}`
    : `#/control/board/${encodeURIComponent(name)}`;
}

/** The name of the board in the rest of an address, `board/Drive`. */
export function boardIn(rest: string): string | undefined {
  return rest.startsWith("board/") ? rest.slice("board/".length) : undefined;
}

export class Boards {
  readonly #link: PageLink = useLink();
  readonly #poll = poll((client) => pageServiceOf(client).getBoards({}), EVERY_MS);
  readonly all = $derived<readonly PageBoard[]>(this.#poll.value?.boards ?? []);

  get isKnown(): boolean {
    return this.#poll.value !== undefined;
  }

  get problem(): string | undefined {
    return this.#poll.problem;
  }

  named(name: string): PageBoard | undefined {
    return this.all.find((one) => one.name === name);
  }

  async set(board: PageBoard, formerName = ""): Promise<void> {
    await this.#service().setBoard({ board, formerName });
    this.#poll.again();
  }

  async delete(name: string): Promise<void> {
    await this.#service().deleteBoard({ name });
    this.#poll.again();
  }

  /** Adds the boards of a file, under other names where theirs are taken. Returns the names. */
  async add(text: string): Promise<string[]> {
    const names: string[] = [];
    for (const { name, cards } of boardsInFile(text)) {
      const free = this.#freeName(name, names);
      await this.set({ name: free, cards });
      names.push(free);
    }
    return names;
  }

  #freeName(name: string, others: readonly string[]): string {
    let free = name;
    for (let number = 2; this.named(free) || others.includes(free); number++) free = `${name} ${number}`;
    return free;
  }

  #service() {
    const { client } = this.#link;
    if (!client) throw new Error("the machine is not connected");
    return pageServiceOf(client);
  }
}

/** Boards as a file that another machine's page takes. */
export function boardFile(boards: readonly PageBoard[]): string {
  const plain = boards.map(({ name, cards }) => ({
    name,
    cards: cards.map(({ id, isWide }) => ({ id, isWide })),
  }));
  return `${JSON.stringify({ format: FORMAT, boards: plain }, null, 2)}\n`;
}

/** Throws what is wrong with the file. */
export function boardsInFile(text: string): PageBoard[] {
  const wrong = (what: string) => new Error(`this is no file of boards: ${what}`);
  if (text.length > FILE_CHARS_MAX) throw wrong(`it has ${text.length} characters`);
  let read: { readonly format?: unknown; readonly boards?: unknown };
  try {
    read = JSON.parse(text) ?? {};
  } catch (error) {
    throw wrong((error as Error).message);
  }
  if (read.format !== FORMAT || !Array.isArray(read.boards)) throw wrong(`its format is not ${FORMAT}`);
  if (read.boards.length > IMPORTED_MAX) throw wrong(`it has ${read.boards.length} boards`);
  return read.boards.map((board: Partial<PageBoard> | null) => {
    const { name, cards } = board ?? {};
    if (typeof name !== "string" || !Array.isArray(cards)) throw wrong("a board has no name or no cards");
    return {
      name,
      cards: cards.map((card: { id?: unknown; isWide?: unknown } | null) => {
        if (typeof card?.id !== "string") throw wrong(`a card of "${name}" has no id`);
        return { id: card.id, isWide: card.isWide === true };
      }),
    };
  });
}

export function provideBoards(): Boards {
  return setContext(CONTEXT, new Boards());
}

/** For the beginning of a component. */
export function useBoards(): Boards {
  return getContext<Boards>(CONTEXT);
}
