/** A relay before a port of this computer, which counts the bytes that go through it. */

export class Relay {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.TcpConn>();
  bytes = 0;
  pieces = 0;
  connections = 0;

  constructor(private readonly port: number) {
    void this.#accept();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  close(): void {
    this.#listener.close();
    for (const connection of this.#open) connection.close();
  }

  async #accept(): Promise<void> {
    for await (const near of this.#listener) {
      const far = await Deno.connect({ hostname: "127.0.0.1", port: this.port });
      this.connections++;
      for (const [from, to] of [[near, far], [far, near]]) void this.#carry(from, to);
    }
  }

  async #carry(from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
    this.#open.add(from);
    try {
      const buffer = new Uint8Array(65_536);
      for (let count = await from.read(buffer); count !== null; count = await from.read(buffer)) {
        this.bytes += count;
        this.pieces++;
        for (let at = 0; at < count;) at += await to.write(buffer.subarray(at, count));
      }
      await to.closeWrite();
    } catch {
      // One of the programs has ended.
    } finally {
      this.#open.delete(from);
    }
  }
}
