/**
 * An attack: the moves of one hostile peer, the required outcome, and its means.
 *
 * Attackers play until their time is over. An attacker that is disconnected returns, as in reality.
 */

import { Http2Peer, HttpPeer, Peer, type PeerOptions, type Target } from "./peer.ts";

/**
 * The server that is attacked: open to all, wanting a key, with TLS, or with few file descriptors.
 */
export type Victim = "open" | "keyed" | "tls" | "narrow";

/** What becomes of an attacker: its connection is ended, its requests are answered, or nothing is asked of it. */
export type Fate = "cut off" | "answered" | "any";

export interface Attack {
  readonly name: string;
  /** Its description in the table. */
  readonly what: string;
  readonly victim: Victim;
  /** The attacker has a token that is good. */
  readonly token?: boolean;
  readonly fate: Fate;
  /** Duration for effects that a server notices late; a play whose requests are answered ends earlier. */
  readonly seconds?: number;
  /** The calls of the other clients meanwhile: a pin of a board, or the attacked camera. */
  readonly others?: "board" | "camera";
  play(field: Field): Promise<void>;
}

/** An attacker's report at its end. */
export interface Toll {
  readonly connections: number;
  /** Connections that were not had at all. */
  readonly refused: number;
  /** The number of connections that the server ended, by the way it did. */
  readonly ended: Record<string, number>;
  readonly answers: number;
  readonly resets: number;
  readonly sentBytes: number;
  /** What did not go as the attack wants it. */
  readonly complaints: readonly string[];
}

/** An attacker's times. They begin with its first connection, which may be late where the computer is busy. */
export interface Times {
  /** It plays for this long at most. */
  readonly lastingMs: number;
  /** It plays for this long at least, and then until its fate is fulfilled. */
  readonly enoughMs: number;
  /** It waits for an answer that must come for this long. */
  readonly patienceMs: number;
}

/** Between two tries to connect. */
const AGAIN_MS = 10;
const CONNECT_MS = 10_000;

export class Field {
  readonly #peers: Peer[] = [];
  readonly #over = new AbortController();
  readonly #begun = Promise.withResolvers<void>();
  readonly #fulfilled = Promise.withResolvers<void>();
  readonly #ended: Record<string, number> = {};
  readonly #complaints: string[] = [];
  #fate: Fate = "any";
  #refused = 0;
  #connections = 0;
  #answers = 0;
  #resets = 0;
  #sentBytes = 0;

  /** @param seed of everything that looks like chance */
  constructor(readonly target: Target, private readonly times: Times, readonly seed: number) {}

  /** The time that the attack lasts at most. */
  get ms(): number {
    return this.times.lastingMs;
  }

  /** How long to wait for an answer that must come. */
  get patienceMs(): number {
    return this.times.patienceMs;
  }

  /** Plays `attack` until its time is over or its fate is fulfilled; closes everything. */
  async run(attack: Attack): Promise<Toll> {
    const { lastingMs, enoughMs, patienceMs } = this.times;
    this.#fate = attack.fate;
    const begun = Promise.race([this.#begun.promise, this.sleep(patienceMs)]);
    const enough = begun.then(() => this.sleep(enoughMs)).then(() => this.#fulfilled.promise);
    const ended = begun.then(() => this.sleep(lastingMs));
    const over = Promise.race([ended, enough]).then(() => this.#over.abort());
    await Promise.race([attack.play(this), over]);
    // A play that ends by itself (its requests were answered) leaves at once.
    this.#over.abort();
    for (const peer of [...this.#peers]) this.#leave(peer);
    return {
      connections: this.#connections,
      refused: this.#refused,
      ended: this.#ended,
      answers: this.#answers,
      resets: this.#resets,
      sentBytes: this.#sentBytes,
      complaints: this.#complaints,
    };
  }

  get over(): boolean {
    return this.#over.signal.aborted;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#over.signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#over.signal.addEventListener("abort", end);
    });
  }

  /** Says that something did not go as it must. */
  complain(problem: string): void {
    if (!this.over) this.#complaints.push(problem);
  }

  raw(options?: PeerOptions): Promise<Peer | undefined> {
    return this.#open("none", (conn) => new Peer(conn, options));
  }

  http(options?: PeerOptions): Promise<HttpPeer | undefined> {
    return this.#open("http/1.1", (conn) => new HttpPeer(conn, options));
  }

  http2(options?: PeerOptions): Promise<Http2Peer | undefined> {
    return this.#open("h2", (conn) => new Http2Peer(conn, options));
  }

  /** Keeps `width` connections busy with `run` for as long as the attack lasts. */
  async busy<P extends Peer>(
    width: number,
    open: () => Promise<P | undefined>,
    run: (peer: P) => Promise<void>,
  ): Promise<void> {
    await Promise.all(Array.from({ length: width }, async () => {
      while (!this.over) {
        const peer = await open();
        if (peer) {
          await run(peer);
          this.#leave(peer);
        }
        await this.sleep(AGAIN_MS);
      }
    }));
  }

  /** Writes `bytes` again and again until the connection or the attack is over. */
  async flood(peer: Peer, bytes: Uint8Array): Promise<void> {
    while (!this.over && await peer.write(bytes));
  }

  async #open<P extends Peer>(protocol: string, make: (conn: Deno.Conn) => P): Promise<P | undefined> {
    const { host: hostname, port, secure } = this.target;
    let late = false;
    const connecting = secure && protocol !== "none"
      ? Deno.connectTls({ hostname, port, alpnProtocols: [protocol] })
      : Deno.connect({ hostname, port });
    // TypeScript knows of no type that both have.
    const connected = (connecting as Promise<Deno.Conn>).then((conn) => {
      if (late) conn.close();
      return conn;
    }, () => undefined);
    const conn = await Promise.race([connected, this.sleep(CONNECT_MS)]);
    if (!conn || this.over) {
      late = true;
      conn?.close();
      if (!this.over) this.#refused++;
      return undefined;
    }
    this.#connections++;
    this.#begun.resolve();
    const peer = make(conn);
    this.#peers.push(peer);
    void peer.over.then(() => {
      if (this.#fate === "cut off" && peer.ended !== undefined) this.#fulfilled.resolve();
    });
    return peer;
  }

  /** Closes a peer and takes its report. */
  #leave(peer: Peer): void {
    const at = this.#peers.indexOf(peer);
    if (at < 0) return;
    this.#peers.splice(at, 1);
    peer.close();
    if (peer.ended !== undefined) this.#ended[peer.ended] = (this.#ended[peer.ended] ?? 0) + 1;
    this.#answers += peer.answers;
    this.#sentBytes += peer.sentBytes;
    if (peer instanceof Http2Peer) this.#resets += peer.resets;
    if (this.#fate === "answered" && this.#answers + this.#resets > 0) this.#fulfilled.resolve();
  }
}
