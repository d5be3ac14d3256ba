/**
 * Answers calls with peers, and serves the gRPC calls that come over them.
 *
 * Owns the peers of one server: their number, their time to connect, and their end. It treats calls of this server's
 * own signaling and of another one alike.
 */

import { type PoolHolder, SharedPool } from "../../base/async/shared_pool.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import { PortAllowance } from "../flow/byte_budget.ts";
import { isOnThisMachine, type Peer, type ServiceTable } from "../rpc/service.ts";
import type { Rtc } from "../webrtc/addon.ts";
import type { IceServer } from "../webrtc/ice_choice.ts";
import { type Description, encodeDescription, type IceCandidate, onLoopback } from "../webrtc/description.ts";
import { WEBRTC_LIMITS, type WebRtcLimits } from "../webrtc/limits.ts";
import { RtcPeer, type SignalListener } from "../webrtc/peer.ts";
import { FrameServer } from "../webrtc/server.ts";
import type { IncomingCall } from "./call_queue.ts";

/** How long the candidates of an offer wait for the caller's next one: there may be none. */
const OFFERED_WAIT_MS = 250;

export interface AnswererParts {
  readonly table: ServiceTable;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Servers for every call from now on, besides those of the call itself. */
  readonly iceServers?: () => readonly IceServer[];
  /** The limits for the next call. */
  readonly limits?: () => Partial<WebRtcLimits>;
  /** Makes the native peers; by default the addon does. */
  readonly rtc?: Rtc;
  /** Called for each connected peer; the function that it returns, at the peer's end. */
  readonly joined?: (peer: RtcPeer, identity: Peer) => (() => void) | void;
}

/** Additions to a call by the signaling server that brought it. */
export interface AnswerOptions {
  readonly iceServers?: readonly IceServer[];
}

export class Answerer {
  readonly #parts: AnswererParts;
  readonly #allowance = new PortAllowance();
  readonly #peers = new Set<RtcPeer>();
  readonly #servers = new Set<FrameServer>();
  /** Calls being answered, each with its end. */
  readonly #answering = new Set<Promise<void>>();
  /** Peers, and offers being answered, by caller. */
  readonly #peerPool: SharedPool;
  readonly #offerPool: SharedPool;
  readonly #serverProblems = new LogOnChange();
  #closed: SvcError | undefined;

  constructor(parts: AnswererParts) {
    this.#parts = parts;
    // One caller may use everything that is free; when others need room, the caller with the most gives way.
    const pool = (what: string, limit: "peers" | "offers") => {
      const limits = () => this.#limits;
      const levels = ["this server", "one caller"];
      const shares = {
        levels,
        what,
        get shares() {
          return [limits()[limit], Infinity];
        },
      };
      return new SharedPool(shares, parts.clock);
    };
    this.#peerPool = pool("WebRTC peers", "peers");
    this.#offerPool = pool("connecting WebRTC peers", "offers");
  }

  get #limits(): WebRtcLimits {
    return { ...WEBRTC_LIMITS, ...this.#parts.limits?.() };
  }

  /** The number of peers, connected or connecting. */
  get peers(): number {
    return this.#peers.size;
  }

  /** Answers a call. Never rejects: the caller gets every failure; resolves when the peer is connected or over. */
  async answer(call: IncomingCall, options: AnswerOptions = {}): Promise<void> {
    const answered = this.#answer(call, options).catch((error) => {
      this.#parts.logger.debug(`cannot answer a WebRTC call: ${chainOf(error)}`);
      call.fail(SvcError.from(error));
    });
    this.#answering.add(answered);
    await answered;
    this.#answering.delete(answered);
  }

  /** Accepts no more calls, waits up to `deadlineMs` for those under way, then ends all peers. */
  async close(deadlineMs = 0): Promise<void> {
    const { clock } = this.#parts;
    const stopping = this.#closed ??= new SvcError("unavailable", "the server is stopping");
    const over = deadline(clock, deadlineMs, () => stopping);
    const idle = [...this.#servers].map((server) => server.drain());
    await race(Promise.all(idle), over.signal).catch(() => {});
    over.done();
    for (const peer of [...this.#peers]) peer.close(stopping);
    await Promise.all(this.#answering);
  }

  async #answer(call: IncomingCall, options: AnswerOptions): Promise<void> {
    if (this.#closed) throw this.#closed;
    const over = new AbortController();
    const { entity, remoteAddress } = call.offer.caller;
    const path = [entity ?? `address ${remoteAddress}`];
    const giveWay = (reason: SvcError) => over.abort(reason);
    const holder = this.#peerPool.take(path, giveWay);
    try {
      const offer = this.#offerPool.take(path, giveWay);
      try {
        await this.#connect(call, options, holder, over.signal);
      } finally {
        offer.release();
      }
    } catch (error) {
      holder.release();
      throw error;
    }
  }

  async #connect(
    call: IncomingCall,
    options: AnswerOptions,
    holder: PoolHolder,
    signal: AbortSignal,
  ): Promise<void> {
    const signals = new AnswerSignals(call);
    const peer = await RtcPeer.make({
      iceServers: [...this.#parts.iceServers?.() ?? [], ...options.iceServers ?? []],
      candidatesMax: this.#limits.candidates,
      signals,
      letsLeave: true,
      serverFailed: ({ message }) => {
        if (this.#serverProblems.isNew(message)) this.#parts.logger.warn(message);
      },
      rtc: this.#parts.rtc,
    });
    const refused = this.#closed ?? (signal.aborted ? signal.reason as SvcError : undefined);
    if (refused) {
      peer.close(refused);
      throw refused;
    }

    this.#peers.add(peer);
    const giveWay = () => peer.close(signal.reason);
    signal.addEventListener("abort", giveWay, { once: true });
    peer.whenClosed(() => {
      signal.removeEventListener("abort", giveWay);
      holder.release();
      this.#peers.delete(peer);
    });

    const stop = this.#parts.clock.after(call.deadlineMs - this.#parts.clock.monotonicMs(), () => {
      peer.close(new SvcError("deadline_exceeded", "the WebRTC connection was not established in time"));
    });
    try {
      const offered = peer.acceptOffer(call.offer.sdp);
      peer.describe("answer");
      void this.#takeCandidates(peer, call, offered);
      await peer.connected;
      this.#serve(peer, call);
      signals.connected();
    } catch (error) {
      peer.close(SvcError.from(error));
      throw error;
    } finally {
      stop();
    }
  }

  /**
   * Gives the peer the caller's candidates. Those of its offer wait for a further one, which shows that the caller has
   * the answer: the peer contacts them at once, and a caller that is contacted while it still reads the answer may
   * reject the certificate (libdatachannel).
   */
  async #takeCandidates(peer: RtcPeer, call: IncomingCall, offered: IceCandidate[]): Promise<void> {
    const add = (candidate: IceCandidate) => peer.addCandidate(candidate);
    // If the call is over while the peer is not connected, the peer will never connect.
    const fail = (error: unknown) => void (peer.isConnected || peer.close(SvcError.from(error)));
    const shown = Promise.withResolvers<void>();
    const stop = this.#parts.clock.after(call.offer.disableTrickle ? 0 : OFFERED_WAIT_MS, shown.resolve);
    const tryOffered = shown.promise.then(() => offered.forEach(add)).catch(fail);
    try {
      for await (const candidate of call.candidates) {
        shown.resolve();
        add(candidate);
      }
    } catch (error) {
      fail(error);
    } finally {
      stop();
      shown.resolve();
      await tryOffered;
    }
  }

  #serve(peer: RtcPeer, { offer: { caller } }: IncomingCall): void {
    const { table, joined, logger } = this.#parts;
    const { local, remote } = peer.addresses ?? {};
    const { remoteAddress: signaledFrom } = caller;
    const remoteAddress = remote ?? signaledFrom;
    const addresses = { localAddress: local, remoteAddress, remotePort: undefined, signaledFrom };
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const identity: Peer = { kind: "webrtc", ...caller, ...addresses, ended };

    const leave = (error: SvcError) => peer.close(error);
    const allowance = this.#allowance.connection(() => {
      leave(new SvcError("resource_exhausted", "it reads too little of its answers"));
    });
    const callsMax = this.#limits.calls;
    const left = joined?.(peer, identity);
    const server = new FrameServer({ table, channel: peer.data, peer: identity, allowance, callsMax, leave });
    this.#servers.add(server);

    logger.debug("WebRTC peer connected", { local, remote });
    peer.whenGone((error) => {
      logger.debug("WebRTC peer ended", { remote, reason: error.message });
      this.#servers.delete(server);
      allowance.end();
      left?.();
      end();
    });
    peer.listen(server);
  }
}

/** Sends the caller this side's description and candidates. */
class AnswerSignals implements SignalListener {
  /** The answer so far, if it is to contain all candidates. */
  #sdp: string | undefined;
  #gathered = false;
  #connected = false;
  readonly #onLoopback: boolean;

  constructor(private readonly call: IncomingCall) {
    this.#onLoopback = isOnThisMachine(call.offer.caller);
  }

  described({ sdp }: Description): void {
    if (this.call.offer.disableTrickle) this.#sdp = sdp;
    else this.call.answer(encodeDescription({ type: "answer", sdp }));
  }

  candidate(candidate: IceCandidate): void {
    this.#add(candidate);
    // The addon ignores loopback addresses; a caller on this computer may have no other way.
    const local = this.#onLoopback && onLoopback(candidate.candidate);
    if (local) this.#add({ ...candidate, candidate: local });
  }

  gathered(): void {
    this.#gathered = true;
    if (this.#sdp !== undefined) {
      const sdp = `${this.#sdp}a=end-of-candidates\r\n`;
      this.call.answer(encodeDescription({ type: "answer", sdp }));
    }
    this.#finish();
  }

  connected(): void {
    this.#connected = true;
    this.#finish();
  }

  #add(candidate: IceCandidate): void {
    if (this.#sdp === undefined) this.call.candidate(candidate);
    else this.#sdp += `a=${candidate.candidate}\r\n`;
  }

  #finish(): void {
    if (this.#gathered && this.#connected) this.call.done();
  }
}
