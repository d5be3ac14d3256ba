/** A dashboard while a person arranges it; nothing of it is kept before the person says so. */

import type { PageDashboard } from "../link/page_service.ts";

const CARDS_MAX = 40;

export class DashboardDraft {
  dashboard = $state.raw<PageDashboard>();
  #name = $state<string>();
  #begun: PageDashboard | undefined;

  begin(dashboard: PageDashboard): void {
    this.#name = dashboard.name;
    this.#begun = dashboard;
    this.dashboard = dashboard;
  }

  end(): void {
    this.#name = undefined;
    this.dashboard = undefined;
  }

  /** Whether this is the draft of the dashboard of a name. */
  isOf(name: string | undefined): boolean {
    return name !== undefined && this.#name === name;
  }

  /** Whether the dashboard as the machine has it now is another one than the person began with. */
  isOvertaken(present: PageDashboard | undefined): boolean {
    return JSON.stringify(present?.cards.map(cardText)) !== JSON.stringify(this.#begun?.cards.map(cardText));
  }

  /** Adds the card at the end, or takes it away. */
  toggle(id: string): void {
    this.#change((cards) => {
      const left = cards.filter((one) => one.id !== id);
      if (left.length < cards.length || cards.length >= CARDS_MAX) return left;
      return [...cards, { id, isWide: false }];
    });
  }

  widen(id: string): void {
    this.#change((cards) => cards.map((one) => one.id === id ? { ...one, isWide: !one.isWide } : one));
  }

  /** Puts the card so many places later, or earlier. */
  move(id: string, by: number): void {
    this.#change((cards) => {
      const from = cards.findIndex((one) => one.id === id);
      const to = Math.min(cards.length - 1, Math.max(0, from + by));
      const card = cards[from];
      return card ? cards.toSpliced(from, 1).toSpliced(to, 0, card) : cards;
    });
  }

  /** Puts the card where another stands. */
  moveTo(id: string, other: string): void {
    const cards = this.dashboard?.cards ?? [];
    const place = (wanted: string) => cards.findIndex((one) => one.id === wanted);
    if (place(other) >= 0) this.move(id, place(other) - place(id));
  }

  #change(next: (cards: PageDashboard["cards"]) => PageDashboard["cards"]): void {
    if (this.dashboard) this.dashboard = { ...this.dashboard, cards: next(this.dashboard.cards) };
  }
}

function cardText({ id, isWide }: PageDashboard["cards"][number]): string {
  return `${id} ${isWide}`;
}
