/**
 * The connections of a port, and which of them ends to make room for a new one.
 *
 * Every newcomer gets in. A connection rises in rank with what it shows: it is silent, then a stranger, then known to
 * make calls, then in the middle of one. The lowest rank gives way first; within a rank, the address with the most
 * connections, and of these the one without progress for longest. Every rank keeps some room, so that a crowd of
 * silent connections crowds out neither a newcomer that is about to speak nor everybody who has spoken. A connection
 * that has just come or progressed is spared while others of its rank have shown no progress for longer.
 *
 * The limit follows from the number of files that the program may open, of which it keeps some for itself. No address
 * has all of it; those of this computer have more, because a proxy there may stand for everybody.
 */

import type { Clock } from "../../base/clock.ts";
import type { ReadFiles } from "../../base/files/files.ts";

/** Connections of one port, whatever the system allows. */
const MAX_CONNECTIONS = 4096;
/** Assumed limit of open files if the system does not reveal it. */
const DEFAULT_FILES = 1024;
/** Files reserved for the program itself: a share, and at least this many. */
const RESERVED_SHARE = 1 / 4;
const RESERVED_FILES = 32;
/**
 * The runtime accepts all waiting connections before it delivers the first one, when nobody has given way for them
 * yet. So files are reserved for twice as many as the system lets wait, because more arrive meanwhile (measured: 83 in
 * a row where 38 may wait). This share of the limit may wait.
 */
const WAITING_SHARE = 1 / 4;
const MAX_WAITING = 511;
/** The share of one address. */
const SHARE = 1 / 2;
const LOCAL_SHARE = 7 / 8;
/** The share that calls under way leave to others, and of that the shares of silent connections and of strangers. */
const OTHERS_SHARE = 1 / 4;
const SILENT_SHARE = 1 / 3;
const STRANGERS_SHARE = 1 / 3;
/**
 * New and progressing connections are spared for one to two beats. A beat is a timer: while the program is too busy to
 * read a newcomer's data, there is no next beat, and nobody's time runs out.
 */
const BEAT_MS = 100;
const SPARED_BEATS = 2;
/** Traffic that counts as progress: a byte now and then does not. */
export const PROGRESS_BYTES = 64 * 1024;

/** The limit of a port's connections. */
export async function connectionLimit(host: ReadFiles): Promise<number> {
  const limits = await host.readTextFile("/proc/self/limits").catch(() => "");
  const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(limits) ?? [];
  return connectionsWith(soft === "unlimited" ? Infinity : Number(soft ?? DEFAULT_FILES));
}

function connectionsWith(files: number): number {
  const left = files - Math.max(RESERVED_FILES, files === Infinity ? 0 : Math.ceil(files * RESERVED_SHARE));
  return Math.max(1, Math.min(MAX_CONNECTIONS, Math.floor(left / (1 + 2 * WAITING_SHARE))));
}

/** How many connections the system may keep waiting for a port with this limit. */
export function waitingWith(connections: number): number {
  return Math.max(1, Math.min(MAX_WAITING, Math.floor(connections * WAITING_SHARE)));
}

export const DEFAULT_CONNECTIONS = connectionsWith(DEFAULT_FILES);

/**
 * The ranks, lowest first: nothing meaningful; a whole request or a frame; an authorized call; an authorized call
 * under way.
 */
const RANKS = ["silent", "stranger", "known", "calling"] as const;
export type Rank = (typeof RANKS)[number];
export type Counts = Readonly<Record<Rank, number>>;

/** The rank that gives way, given the number of connections in each. */
export function rankToLeave({ silent, stranger, known, calling }: Counts): Rank {
  const others = silent + stranger + known;
  if (calling > 0 && others <= OTHERS_SHARE * (others + calling)) return "calling";
  if (silent > SILENT_SHARE * others) return "silent";
  if (stranger > STRANGERS_SHARE * others) return "stranger";
  return "known";
}

/** One connection. */
export class Guest {
  rank: Rank = "silent";
  /** Increases from guest to guest with every progress. */
  progress = 0;
  /** The beat of its last progress. */
  beat = 0;
  #calls = 0;
  #movedBytes = 0;

  /**
   * @param address `undefined` over a socket of the file system
   * @param leave ends the connection; its file is free when this returns
   */
  constructor(
    private readonly guests: Guests,
    readonly address: string | undefined,
    readonly leave: () => void,
  ) {}

  /** A request has arrived, or has been answered. */
  progressed(): void {
    this.guests.rise(this, this.rank === "silent" ? "stranger" : this.rank);
  }

  /** Bytes have arrived, or have been sent. */
  moved(bytes: number): void {
    this.#movedBytes += bytes;
    if (this.#movedBytes < PROGRESS_BYTES) return;
    this.#movedBytes = 0;
    // More meaningless bytes do not raise the rank.
    if (this.rank !== "silent") this.progressed();
  }

  /** An authorized call starts. */
  began(): void {
    this.#calls++;
    this.guests.rise(this, "calling");
  }

  /** An authorized call has ended. */
  ended(): void {
    if (--this.#calls === 0) this.guests.rise(this, "known");
    else this.progressed();
  }
}

/** The rank that a call proves for its connection; none if it is refused. */
export class CallMark {
  #known = false;
  #begun = false;

  constructor(private readonly guest: Pick<Guest, "began" | "ended"> | undefined) {}

  admitted(caller: "known" | "stranger"): void {
    this.#known = caller === "known";
  }

  begun(): void {
    if (!this.#known || this.#begun) return;
    this.#begun = true;
    this.guest?.began();
  }

  /** Idempotent. */
  released(): void {
    if (this.#begun) this.guest?.ended();
    this.#known = this.#begun = false;
  }
}

type Address = string | undefined;

export class Guests {
  /** The guests by rank and address, the one without progress for longest first. */
  readonly #ranks: Readonly<Record<Rank, Map<Address, Set<Guest>>>> = {
    silent: new Map(),
    stranger: new Map(),
    known: new Map(),
    calling: new Map(),
  };
  readonly #counts: Record<Rank, number> = { silent: 0, stranger: 0, known: 0, calling: 0 };
  readonly #here = new Set<Guest>();
  #progress = 0;
  #beat = 0;
  #notedBeat = 0;
  #stopBeat: (() => void) | undefined;

  constructor(private readonly limit: number, private readonly clock: Clock) {}

  get counts(): Counts {
    return this.#counts;
  }

  /** Admits a guest, in place of another one if necessary. */
  admit(address: Address, leave: () => void): Guest {
    if (this.#countsOf(address).total >= this.#shareOf(address)) this.#makeRoom(address);
    else if (this.#here.size >= this.limit) this.#makeRoom();
    const guest = new Guest(this, address, leave);
    this.#here.add(guest);
    this.#enter(guest);
    return guest;
  }

  /** Idempotent. */
  remove(guest: Guest): void {
    if (!this.#here.delete(guest)) return;
    this.#quit(guest);
    if (this.#here.size === 0) {
      this.#stopBeat?.();
      this.#stopBeat = undefined;
    }
    if (this.#countsOf(guest.address).total > 0) return;
    for (const rank of RANKS) this.#ranks[rank].delete(guest.address);
  }

  /** Records a guest's progress, and its rank. */
  rise(guest: Guest, rank: Rank): void {
    if (!this.#here.has(guest)) return;
    if (rank === guest.rank && this.#ranks[rank].get(guest.address)!.size === 1) {
      this.#note(guest);
      return;
    }
    this.#quit(guest);
    guest.rank = rank;
    this.#enter(guest);
  }

  #shareOf(address: Address): number {
    const local = address === undefined || /^(?:::ffff:)?127\.|^::1$/.test(address);
    return Math.max(1, Math.floor(this.limit * (local ? LOCAL_SHARE : SHARE)));
  }

  #countsOf(address: Address) {
    const [silent, stranger, known, calling] = RANKS.map((rank) => this.#ranks[rank].get(address)?.size ?? 0);
    return { silent, stranger, known, calling, total: silent + stranger + known + calling };
  }

  /** Ends a guest, of one address if that has too many. */
  #makeRoom(...only: [] | [Address]): void {
    const longest = (rank: Rank) => {
      const addresses = this.#ranks[rank];
      return only.length > 0 ? first(addresses.get(only[0])) : firstOfMost(addresses);
    };
    const chosen = longest(rankToLeave(only.length > 0 ? this.#countsOf(only[0]) : this.#counts));
    const guest = chosen && this.#isSpared(chosen) ? older(longest("silent"), longest("stranger")) : chosen;
    if (!guest) return;
    this.remove(guest);
    guest.leave();
  }

  /** A guest of a low rank, unless it is spared and an older one can go. */
  #isSpared({ rank, beat }: Guest): boolean {
    return (rank === "silent" || rank === "stranger") && this.#beat - beat < SPARED_BEATS;
  }

  #note(guest: Guest): void {
    guest.progress = ++this.#progress;
    guest.beat = this.#notedBeat = this.#beat;
    this.#awaitBeat();
  }

  /** Beats continue as long as a guest may be spared. */
  #awaitBeat(): void {
    this.#stopBeat ??= this.clock.after(BEAT_MS, () => {
      this.#stopBeat = undefined;
      this.#beat++;
      if (this.#beat - this.#notedBeat < SPARED_BEATS) this.#awaitBeat();
    });
  }

  #enter(guest: Guest): void {
    this.#note(guest);
    const addresses = this.#ranks[guest.rank];
    const guests = addresses.get(guest.address);
    if (guests) guests.add(guest);
    else addresses.set(guest.address, new Set([guest]));
    this.#counts[guest.rank]++;
  }

  #quit(guest: Guest): void {
    this.#ranks[guest.rank].get(guest.address)!.delete(guest);
    this.#counts[guest.rank]--;
  }
}

function older(one: Guest | undefined, other: Guest | undefined): Guest | undefined {
  return one && other ? (one.progress < other.progress ? one : other) : one ?? other;
}

function first(guests: ReadonlySet<Guest> | undefined): Guest | undefined {
  return guests?.values().next().value;
}

/** The first guest of the address with the most; of equal addresses the one without progress for longer. */
function firstOfMost(addresses: ReadonlyMap<Address, ReadonlySet<Guest>>): Guest | undefined {
  let most = 1;
  let found: Guest | undefined;
  for (const guests of addresses.values()) {
    if (guests.size < most) continue;
    const guest = first(guests)!;
    if (!found || guests.size > most || guest.progress < found.progress) found = guest;
    most = guests.size;
  }
  return found;
}
