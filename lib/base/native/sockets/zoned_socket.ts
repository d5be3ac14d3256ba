/**
 * TCP connections to IPv6 addresses with the name of an interface (`fe80::1%eth0`).
 *
 * `node:net` of the runtime drops the interface, and the system then refuses the address (`EINVAL`); the runtime's own
 * connections keep it.
 *
 * The room owns sockets that `node:net` of the runtime does not have.
 */

import { Duplex } from "node:stream";

/** What is used of a connection of the runtime: the types of modules are made without the runtime's own. */
interface RuntimeConnection {
  setNoDelay(isOn: boolean): void;
  read(bytes: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  closeWrite(): Promise<void>;
  close(): void;
}

interface ConnectingRuntime {
  connect(target: { hostname: string; port: number; signal: AbortSignal }): Promise<RuntimeConnection>;
}

const runtime = (globalThis as unknown as { readonly Deno?: ConnectingRuntime }).Deno;

/** Whether the runtime drops interfaces: Node.js, in which modules also run, does not. */
export const DROPS_INTERFACES = runtime !== undefined;

/** A connection to a link-local address; emits `connect`, as a socket of `node:net` does. */
export class ZonedSocket extends Duplex {
  readonly #abandoned = new AbortController();
  #connection: RuntimeConnection | undefined;
  #isNoDelay = false;

  /** `host` without brackets. */
  constructor(readonly host: string, readonly port: number) {
    super({ allowHalfOpen: true });
  }

  get remoteAddress(): string {
    return this.host;
  }

  get remotePort(): number {
    return this.port;
  }

  /** Sends small writes at once. */
  setNoDelay(): void {
    this.#isNoDelay = true;
    this.#connection?.setNoDelay(true);
  }

  override _construct(done: (error?: Error) => void): void {
    const { host, port } = this;
    runtime!.connect({ hostname: host, port, signal: this.#abandoned.signal }).then((connection) => {
      this.#connection = connection;
      if (this.destroyed) return connection.close();
      if (this.#isNoDelay) connection.setNoDelay(true);
      done();
      this.emit("connect");
    }, (error) => done(systemError(error, host, port)));
  }

  /** Ends an attempt to connect, too. */
  override destroy(error?: Error): this {
    this.#abandoned.abort();
    return super.destroy(error);
  }

  override _read(size: number): void {
    const bytes = new Uint8Array(size);
    this.#open().read(bytes).then(
      (count) => void this.push(count === null ? null : bytes.subarray(0, count)),
      (error) => void this.destroy(error),
    );
  }

  override _write(bytes: Uint8Array, _encoding: string, done: (error?: Error) => void): void {
    this.#writeAll(bytes).then(() => done(), done);
  }

  override _final(done: (error?: Error) => void): void {
    this.#open().closeWrite().then(() => done(), done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#connection?.close();
    done(error);
  }

  /** Reads and writes begin when `_construct` has ended. */
  #open(): RuntimeConnection {
    if (!this.#connection) throw new Error(`${this.host} is not connected`);
    return this.#connection;
  }

  async #writeAll(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.#open().write(bytes.subarray(at));
  }
}

/** The codes that `node:net` gives these errors. */
const CODES: Readonly<Record<string, string>> = {
  ConnectionRefused: "ECONNREFUSED",
  ConnectionReset: "ECONNRESET",
};

function systemError(error: Error, host: string, port: number): Error {
  const cause = new Error(`connect ${host}:${port}: ${error.message}`, { cause: error });
  return Object.assign(cause, { code: CODES[error.name] });
}
