/**
 * A list of items in the order in which they came. Any of them can be taken out in constant time.
 *
 * For items that come and go thousands of times a second: a `Set` holds on to what was deleted from it until the next
 * full garbage collection (see `BriefMap`), while a link that was taken out holds neither its item nor other links.
 */

/** An item's place in a list. Once it is taken out, the link has no item. */
export interface ListLink<T> {
  readonly item: T | undefined;
}

interface Place<T> extends ListLink<T> {
  list: LinkedList<T> | undefined;
  item: T | undefined;
  before: Place<T> | undefined;
  after: Place<T> | undefined;
}

export class LinkedList<T> {
  #first: Place<T> | undefined;
  #last: Place<T> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    return this.#first?.item;
  }

  /** Adds an item behind the others. */
  add(item: T): ListLink<T> {
    const place: Place<T> = { list: this, item, before: this.#last, after: undefined };
    if (this.#last) this.#last.after = place;
    else this.#first = place;
    this.#last = place;
    this.#size++;
    return place;
  }

  /** Takes an item out. Returns false if it was taken out before, or belongs to another list. */
  delete(link: ListLink<T>): boolean {
    const place = link as Place<T>;
    if (place.list !== this) return false;
    const { before, after } = place;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
    place.list =
      place.item =
      place.before =
      place.after =
        undefined;
    this.#size--;
    return true;
  }

  /** The present items: those that come or go meanwhile change nothing in it. */
  values(): T[] {
    const items: T[] = [];
    for (let place = this.#first; place; place = place.after) items.push(place.item!);
    return items;
  }

  /** Takes the first item out; `undefined` if there is none. */
  shift(): T | undefined {
    const { first } = this;
    if (this.#first) this.delete(this.#first);
    return first;
  }
}
