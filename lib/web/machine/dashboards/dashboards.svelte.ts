/** The dashboards of the machine: named arrangements of cards, the same for everybody who uses its page. */

import { getContext, setContext } from "svelte";
import { type PageLink, useLink } from "../link/page_link.svelte.ts";
import { type PageDashboard, pageServiceOf } from "../link/page_service.ts";
import { poll } from "../link/poll.svelte.ts";

const EVERY_MS = 5000;
const CONTEXT = Symbol("the dashboards");
/** Begins a file of dashboards. */
const FORMAT = "svc-dashboards-1";
const FILE_CHARS_MAX = 1_000_000;
const IMPORTED_MAX = 32;

/** The address of a dashboard: among the cards, or alone on the screen. */
export function dashboardHref(name: string, how: "control" | "screen" = "control"): string {
  return how === "screen"
    ? `#/screen/${encodeURIComponent(name)}`
    : `#/control/dashboard/${encodeURIComponent(name)}`;
}

/** The name of the dashboard in the rest of an address, `dashboard/Drive`. */
export function dashboardIn(rest: string): string | undefined {
  return rest.startsWith("dashboard/") ? rest.slice("dashboard/".length) : undefined;
}

export class Dashboards {
  readonly #link: PageLink = useLink();
  readonly #poll = poll((client) => pageServiceOf(client).getDashboards({}), EVERY_MS);
  readonly all = $derived<readonly PageDashboard[]>(this.#poll.value?.dashboards ?? []);

  get isKnown(): boolean {
    return this.#poll.value !== undefined;
  }

  get problem(): string | undefined {
    return this.#poll.problem;
  }

  named(name: string): PageDashboard | undefined {
    return this.all.find((one) => one.name === name);
  }

  async set(dashboard: PageDashboard, formerName = ""): Promise<void> {
    await this.#service().setDashboard({ dashboard, formerName });
    this.#poll.again();
  }

  async delete(name: string): Promise<void> {
    await this.#service().deleteDashboard({ name });
    this.#poll.again();
  }

  /** Adds the dashboards of a file, under other names where theirs are taken. Returns the names. */
  async add(text: string): Promise<string[]> {
    const names: string[] = [];
    for (const { name, cards } of dashboardsInFile(text)) {
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

/** Dashboards as a file that another machine's page takes. */
export function dashboardFile(dashboards: readonly PageDashboard[]): string {
  const plain = dashboards.map(({ name, cards }) => ({
    name,
    cards: cards.map(({ id, isWide }) => ({ id, isWide })),
  }));
  return `${JSON.stringify({ format: FORMAT, dashboards: plain }, null, 2)}\n`;
}

/** Throws what is wrong with the file. */
export function dashboardsInFile(text: string): PageDashboard[] {
  const wrong = (what: string) => new Error(`this is no file of dashboards: ${what}`);
  if (text.length > FILE_CHARS_MAX) throw wrong(`it has ${text.length} characters`);
  let read: { readonly format?: unknown; readonly dashboards?: unknown };
  try {
    read = JSON.parse(text) ?? {};
  } catch (error) {
    throw wrong((error as Error).message);
  }
  if (read.format !== FORMAT || !Array.isArray(read.dashboards)) throw wrong(`its format is not ${FORMAT}`);
  if (read.dashboards.length > IMPORTED_MAX) throw wrong(`it has ${read.dashboards.length} dashboards`);
  return read.dashboards.map((dashboard: Partial<PageDashboard> | null) => {
    const { name, cards } = dashboard ?? {};
    if (typeof name !== "string" || !Array.isArray(cards)) throw wrong("a dashboard has no name or no cards");
    return {
      name,
      cards: cards.map((card: { id?: unknown; isWide?: unknown } | null) => {
        if (typeof card?.id !== "string") throw wrong(`a card of "${name}" has no id`);
        return { id: card.id, isWide: card.isWide === true };
      }),
    };
  });
}

export function provideDashboards(): Dashboards {
  return setContext(CONTEXT, new Dashboards());
}

/** For the beginning of a component. */
export function useDashboards(): Dashboards {
  return getContext<Dashboards>(CONTEXT);
}
