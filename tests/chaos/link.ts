/**
 * A way of TCP connections to a server, or to one of several, which may be cut, fall silent or become slow.
 */

import { SystemClock } from "../../lib/base/clock.ts";

const clock = new SystemClock();

export class Link {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.TcpConn>();
  readonly #accepting: Promise<void>;
  #isCut = false;
  #delayMs = 0;
  /** Set while nothing passes, in either direction, and no connection ends. */
  #silence: PromiseWithResolvers<void> | undefined;

  /** @param connect to a server; `undefined` if there is none just now */
  constructor(private readonly connect: () => Promise<Deno.TcpConn | undefined>) {
    this.#accepting = this.#accept();
  }

  get host(): string {
    return `127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Ends all connections, and refuses new ones. */
  cut(): void {
    this.#isCut = true;
    this.#closeAll();
  }

  silence(): void {
    this.#silence ??= Promise.withResolvers();
  }

  slow(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  /** As good as new. */
  mend(): void {
    this.#isCut = false;
    this.#delayMs = 0;
    this.#silence?.resolve();
    this.#silence = undefined;
  }

  async close(): Promise<void> {
    this.#listener.close();
    this.#closeAll();
    this.mend();
    await this.#accepting;
  }

  #closeAll(): void {
    for (const one of this.#open) closeQuietly(one);
    this.#open.clear();
  }

  async #accept(): Promise<void> {
    const joined = new Set<Promise<void>>();
    for await (const caller of this.#listener) {
      const joining = this.#join(caller).finally(() => joined.delete(joining));
      joined.add(joining);
    }
    await Promise.all(joined);
  }

  async #join(caller: Deno.TcpConn): Promise<void> {
    this.#open.add(caller);
    let server: Deno.TcpConn | undefined;
    try {
      await this.#silence?.promise;
      if (this.#isCut) return;
      server = await this.connect();
      if (!server) return;
      this.#open.add(server);
      await Promise.race([this.#forward(caller, server), this.#forward(server, caller)]);
    } catch {
      // One of the two has gone.
    } finally {
      for (const one of [caller, server]) {
        if (!one) continue;
        this.#open.delete(one);
        closeQuietly(one);
      }
    }
  }

  async #forward(from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
    const writer = to.writable.getWriter();
    for await (const chunk of from.readable) {
      if (this.#delayMs > 0) await clock.sleep(this.#delayMs);
      await this.#silence?.promise;
      await writer.write(chunk);
    }
  }
}

function closeQuietly(connection: Deno.TcpConn): void {
  try {
    connection.close();
  } catch {
    // It has ended already.
  }
}
