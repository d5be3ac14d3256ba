/** The way from a device to the control planes, which may be cut, fall silent or become slow. */

import { SystemClock } from "../../../lib/base/clock.ts";

const clock = new SystemClock();

export class Link {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.TcpConn>();
  readonly #accepting: Promise<void>;
  #isCut = false;
  #delayMs = 0;
  /** Set while nothing passes, in either direction, and no connection ends. */
  #silence: PromiseWithResolvers<void> | undefined;

  /** @param port of the control planes, or of a balancer before them */
  constructor(private readonly port: number) {
    this.#accepting = this.#accept();
  }

  get address(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
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
    let plane: Deno.TcpConn | undefined;
    try {
      await this.#silence?.promise;
      if (this.#isCut) return;
      plane = await Deno.connect({ hostname: "127.0.0.1", port: this.port });
      this.#open.add(plane);
      await Promise.race([this.#forward(caller, plane), this.#forward(plane, caller)]);
    } catch {
      // One of the two has gone.
    } finally {
      for (const one of [caller, plane]) {
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
