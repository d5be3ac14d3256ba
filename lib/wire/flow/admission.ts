/**
 * Connection admission: a full port evicts a connection for each new one.
 *
 * Every new connection is admitted. Its eviction rank rises as it proves itself: silent, unauthenticated (a whole
 * request or frame), authenticated, with a call under way. The lowest rank is evicted first; within a rank, the address
 * with the most connections loses the one without progress for longest. Every rank keeps a share of the port, so that a
 * crowd of silent connections displaces neither a new one that is about to speak nor those that have spoken. New and
 * progressing connections have a grace period while others of their rank are idle for longer.
 *
 * The limit of connections is the number of files that the program may open, less a reserve for its own files. One
 * address gets only a part of it. Addresses of this computer get a larger part, because a proxy there may serve all
 * callers.
 */

import { type BucketLimits, TokenBucket } from "../../base/async/token_bucket.ts";
import type { Clock } from "../../base/clock.ts";
import type { ReadFiles } from "../../base/files/files.ts";

/** Limit of connections of a port, even if the system allows more, unless its program serves more callers. */
const MAX_CONNECTIONS = 4096;
/** Assumed limit of open files if the system does not reveal it. */
const DEFAULT_FILES = 1024;
/** Files reserved for the program itself: a share, and at least this many. */
const RESERVED_SHARE = 1 / 4;
const RESERVED_FILES = 32;
/**
 * The runtime accepts all waiting connections before it delivers the first one, before any has been evicted for them.
 * So the port reserves files for twice as many connections as may wait in the system, because more arrive meanwhile
 * (measured: 83 in a row where 38 may wait). This share of the limit may wait.
 */
const WAITING_SHARE = 1 / 4;
const MAX_WAITING = 511;
/** The share of one address. */
const SHARE = 1 / 2;
const LOCAL_SHARE = 7 / 8;
/**
 * The share of the port that connections with calls leave to others, and the shares of silent and unauthenticated
 * connections in that.
 */
const OTHERS_SHARE = 1 / 4;
const SILENT_SHARE = 1 / 3;
const UNAUTHENTICATED_SHARE = 1 / 3;
/**
 * The grace period of new and progressing connections: one to two ticks of a timer. While the program is too busy to
 * read a new connection's data, the timer does not tick either, and no grace period runs out.
 */
const TICK_MS = 100;
const GRACE_TICKS = 2;
/**
 * New connections while the program is behind with its work. The others are reset at once: their clients come back
 * later, while a connection that nobody has time for would keep its client waiting, and cost a handshake.
 */
const TAKEN_BEHIND: BucketLimits = { perSecond: 20, burst: 20 };
/** Traffic that counts as progress: a byte now and then does not. */
export const PROGRESS_BYTES = 64 * 1024;

/** The limit of a port's connections: those that the open files of the system leave room for, at most `most`. */
export async function connectionLimit(host: ReadFiles, most = MAX_CONNECTIONS): Promise<number> {
  const limits = await host.readTextFile("/proc/self/limits").catch(() => "");
  const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(limits) ?? [];
  return connectionsWith(soft === "unlimited" ? Infinity : Number(soft ?? DEFAULT_FILES), most);
}

function connectionsWith(files: number, most = MAX_CONNECTIONS): number {
  const left = files - Math.max(RESERVED_FILES, files === Infinity ? 0 : Math.ceil(files * RESERVED_SHARE));
  return Math.max(1, Math.min(most, Math.floor(left / (1 + 2 * WAITING_SHARE))));
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
const RANKS = ["silent", "unauthenticated", "authenticated", "calling"] as const;
export type Rank = (typeof RANKS)[number];
export type Counts = Readonly<Record<Rank, number>>;

/** The rank that is evicted, given the number of connections in each. */
export function evictionRank({ silent, unauthenticated, authenticated, calling }: Counts): Rank {
  const others = silent + unauthenticated + authenticated;
  if (calling > 0 && others <= OTHERS_SHARE * (others + calling)) return "calling";
  if (silent > SILENT_SHARE * others) return "silent";
  if (unauthenticated > UNAUTHENTICATED_SHARE * others) return "unauthenticated";
  return "authenticated";
}

/** One connection. */
export class AdmittedConnection {
  rank: Rank = "silent";
  /** Increases with every progress of any connection. */
  progress = 0;
  /** The tick of its last progress. */
  progressTick = 0;
  #calls = 0;
  #movedBytes = 0;

  /**
   * @param address `undefined` over a socket of the file system
   * @param evict ends the connection; its file is free when this returns
   */
  constructor(
    private readonly admission: ConnectionAdmission,
    readonly address: string | undefined,
    readonly evict: () => void,
  ) {}

  /** A request has arrived, or has been answered. */
  progressed(): void {
    this.admission.promote(this, this.rank === "silent" ? "unauthenticated" : this.rank);
  }

  /** Bytes have arrived, or have been sent. */
  transferred(bytes: number): void {
    this.#movedBytes += bytes;
    if (this.#movedBytes < PROGRESS_BYTES) return;
    this.#movedBytes = 0;
    // Further meaningless bytes are no progress.
    if (this.rank !== "silent") this.progressed();
  }

  /** An authorized call starts. */
  callStarted(): void {
    this.#calls++;
    this.admission.promote(this, "calling");
  }

  /** An authorized call has ended. */
  callEnded(): void {
    if (--this.#calls === 0) this.admission.promote(this, "authenticated");
    else this.progressed();
  }
}

/** The rank that a call proves for its connection; none if it is refused. */
export class CallMark {
  #known = false;
  #begun = false;

  constructor(
    private readonly connection: Pick<AdmittedConnection, "callStarted" | "callEnded"> | undefined,
  ) {}

  admitted(caller: "authenticated" | "unauthenticated"): void {
    this.#known = caller === "authenticated";
  }

  begun(): void {
    if (!this.#known || this.#begun) return;
    this.#begun = true;
    this.connection?.callStarted();
  }

  /** Idempotent. */
  released(): void {
    if (this.#begun) this.connection?.callEnded();
    this.#known = this.#begun = false;
  }
}

type Address = string | undefined;

export class ConnectionAdmission {
  /** The connections by rank and address, the one without progress for longest first. */
  readonly #ranks: Readonly<Record<Rank, Map<Address, Set<AdmittedConnection>>>> = {
    silent: new Map(),
    unauthenticated: new Map(),
    authenticated: new Map(),
    calling: new Map(),
  };
  readonly #counts: Record<Rank, number> = { silent: 0, unauthenticated: 0, authenticated: 0, calling: 0 };
  readonly #admitted = new Set<AdmittedConnection>();
  readonly #takenBehind: TokenBucket;
  #progress = 0;
  #tick = 0;
  #lastProgressTick = 0;
  #stopTicking: (() => void) | undefined;

  /** `isBehind`: whether the program is behind with its work. */
  constructor(
    private readonly limit: number,
    private readonly clock: Clock,
    private readonly isBehind: () => boolean = () => false,
  ) {
    this.#takenBehind = new TokenBucket(clock, TAKEN_BEHIND);
  }

  /** Whether a new connection may be admitted now. */
  mayEnter(): boolean {
    if (!this.isBehind()) return true;
    // Refused connections take nothing, so that however many come, the same number is taken.
    return this.#takenBehind.left >= 1 && this.#takenBehind.take(1);
  }

  get counts(): Counts {
    return this.#counts;
  }

  /** Admits a connection, and evicts another one if necessary. */
  admit(address: Address, evict: () => void): AdmittedConnection {
    if (this.#countsOf(address).total >= this.#shareOf(address)) this.#evictOne(address);
    else if (this.#admitted.size >= this.limit) this.#evictOne();
    const connection = new AdmittedConnection(this, address, evict);
    this.#admitted.add(connection);
    this.#insert(connection);
    return connection;
  }

  /** Idempotent. */
  remove(connection: AdmittedConnection): void {
    if (!this.#admitted.delete(connection)) return;
    this.#extract(connection);
    if (this.#admitted.size === 0) {
      this.#stopTicking?.();
      this.#stopTicking = undefined;
    }
    if (this.#countsOf(connection.address).total > 0) return;
    for (const rank of RANKS) this.#ranks[rank].delete(connection.address);
  }

  /** Records a connection's progress, and its rank. */
  promote(connection: AdmittedConnection, rank: Rank): void {
    if (!this.#admitted.has(connection)) return;
    if (rank === connection.rank && this.#ranks[rank].get(connection.address)!.size === 1) {
      this.#recordProgress(connection);
      return;
    }
    this.#extract(connection);
    connection.rank = rank;
    this.#insert(connection);
  }

  #shareOf(address: Address): number {
    const local = address === undefined || /^(?:::ffff:)?127\.|^::1$/.test(address);
    return Math.max(1, Math.floor(this.limit * (local ? LOCAL_SHARE : SHARE)));
  }

  #countsOf(address: Address) {
    const countOf = (rank: Rank) => this.#ranks[rank].get(address)?.size ?? 0;
    return {
      silent: countOf("silent"),
      unauthenticated: countOf("unauthenticated"),
      authenticated: countOf("authenticated"),
      calling: countOf("calling"),
      total: RANKS.reduce((sum, rank) => sum + countOf(rank), 0),
    };
  }

  /** Evicts a connection; the address is given if it has too many. */
  #evictOne(...only: [] | [Address]): void {
    const longest = (rank: Rank) => {
      const addresses = this.#ranks[rank];
      return only.length > 0 ? first(addresses.get(only[0])) : firstOfMost(addresses);
    };
    const chosen = longest(evictionRank(only.length > 0 ? this.#countsOf(only[0]) : this.#counts));
    const connection = chosen && this.#isInGracePeriod(chosen)
      ? older(longest("silent"), longest("unauthenticated"))
      : chosen;
    if (!connection) return;
    this.remove(connection);
    connection.evict();
  }

  /** Whether a connection of a low rank is kept while an older one can be evicted. */
  #isInGracePeriod({ rank, progressTick }: AdmittedConnection): boolean {
    return (rank === "silent" || rank === "unauthenticated") && this.#tick - progressTick < GRACE_TICKS;
  }

  #recordProgress(connection: AdmittedConnection): void {
    connection.progress = ++this.#progress;
    connection.progressTick = this.#lastProgressTick = this.#tick;
    this.#startTicking();
  }

  /** The timer ticks as long as a grace period may be open. */
  #startTicking(): void {
    this.#stopTicking ??= this.clock.after(TICK_MS, () => {
      this.#stopTicking = undefined;
      this.#tick++;
      if (this.#tick - this.#lastProgressTick < GRACE_TICKS) this.#startTicking();
    });
  }

  #insert(connection: AdmittedConnection): void {
    this.#recordProgress(connection);
    const addresses = this.#ranks[connection.rank];
    const connections = addresses.get(connection.address);
    if (connections) connections.add(connection);
    else addresses.set(connection.address, new Set([connection]));
    this.#counts[connection.rank]++;
  }

  #extract(connection: AdmittedConnection): void {
    this.#ranks[connection.rank].get(connection.address)!.delete(connection);
    this.#counts[connection.rank]--;
  }
}

function older(
  one: AdmittedConnection | undefined,
  other: AdmittedConnection | undefined,
): AdmittedConnection | undefined {
  if (!one || !other) return one ?? other;
  return one.progress < other.progress ? one : other;
}

function first(connections: ReadonlySet<AdmittedConnection> | undefined): AdmittedConnection | undefined {
  return connections?.values().next().value;
}

/** The first connection of the address with the most; of equal addresses the one without progress for longer. */
function firstOfMost(
  addresses: ReadonlyMap<Address, ReadonlySet<AdmittedConnection>>,
): AdmittedConnection | undefined {
  let most = 1;
  let found: AdmittedConnection | undefined;
  for (const connections of addresses.values()) {
    if (connections.size < most) continue;
    const connection = first(connections)!;
    if (!found || connections.size > most || connection.progress < found.progress) found = connection;
    most = connections.size;
  }
  return found;
}
