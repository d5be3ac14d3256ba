/**
 * Who is connected to a port, and who gives way when there is no room: the connection that has been idle for longest.
 *
 * The limit follows from how many files the program may have open, of which it keeps some for itself. No one address
 * has all of it; those of this computer have more, as a proxy may stand there for everybody.
 */

import type { Host } from "../base/host.ts";

/** Connections of one port, whatever the system allows. */
const MAX_CONNECTIONS = 4096;
/** Where the system does not say how many files a program may have open. */
const DEFAULT_FILES = 1024;
/** Files that stay free for the program itself: a share, and no fewer than these. */
const RESERVED_SHARE = 1 / 4;
const RESERVED_FILES = 32;
/** Of the limit, what one address may have. */
const SHARE = 1 / 2;
const LOCAL_SHARE = 7 / 8;

/** How many connections a port may have. */
export async function connectionLimit(host: Pick<Host, "readTextFile">): Promise<number> {
  const limits = await host.readTextFile("/proc/self/limits").catch(() => "");
  const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(limits) ?? [];
  return connectionsWith(soft === "unlimited" ? Infinity : Number(soft ?? DEFAULT_FILES));
}

export function connectionsWith(files: number): number {
  const left = files - Math.max(RESERVED_FILES, files === Infinity ? 0 : Math.ceil(files * RESERVED_SHARE));
  return Math.max(1, Math.min(MAX_CONNECTIONS, left));
}

export const DEFAULT_CONNECTIONS = connectionsWith(DEFAULT_FILES);

export interface Guest {
  /** `undefined` over a socket of the file system. */
  readonly address: string | undefined;
  /** When it was last of use. */
  usedMs: number;
  /** Of HTTP/1.1, that have not been answered. */
  requests: number;
  isIdle: () => boolean;
  /** Ends it. */
  leave: () => void;
}

export class Guests {
  readonly #guests = new Set<Guest>();
  readonly #byAddress = new Map<string | undefined, number>();

  constructor(private readonly limit: number) {}

  /** Takes in a guest, in the place of an idle one if need be; false where all are busy. */
  admit(guest: Guest): boolean {
    const { address } = guest;
    const local = address === undefined || /^(?:::ffff:)?127\.|^::1$/.test(address);
    const share = Math.max(1, Math.floor(this.limit * (local ? LOCAL_SHARE : SHARE)));
    if ((this.#byAddress.get(address) ?? 0) >= share) {
      if (!this.#makeRoom((other) => other.address === address)) return false;
    } else if (this.#guests.size >= this.limit && !this.#makeRoom(() => true)) return false;
    this.#guests.add(guest);
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1);
    return true;
  }

  /** Idempotent. */
  remove(guest: Guest): void {
    if (!this.#guests.delete(guest)) return;
    const left = this.#byAddress.get(guest.address)! - 1;
    if (left > 0) this.#byAddress.set(guest.address, left);
    else this.#byAddress.delete(guest.address);
  }

  #makeRoom(may: (guest: Guest) => boolean): boolean {
    let oldest: Guest | undefined;
    for (const guest of this.#guests) {
      if (may(guest) && guest.isIdle() && (!oldest || guest.usedMs < oldest.usedMs)) oldest = guest;
    }
    if (!oldest) return false;
    this.remove(oldest);
    oldest.leave();
    return true;
  }
}
