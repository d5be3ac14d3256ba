/**
 * Answers calls with peers, and serves the calls that come over them.
 *
 * Owns the peers of one server: how many there may be, how long they may take to connect, and their end. Whether a call
 * came to this server's own signaling or was brought by another one makes no difference.
 */

import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { PortAllowance } from "../port/byte_budget.ts";
import { isOnThisMachine, type Peer, type ServiceTable } from "../service.ts";
import type { IceServer, Rtc } from "../webrtc/addon.ts";
import { type Candidate, type Description, encodeDescription, onLoopback } from "../webrtc/description.ts";
import { WEBRTC_LIMITS, type WebRtcLimits } from "../webrtc/limits.ts";
import { RtcPeer, type SignalListener } from "../webrtc/peer.ts";
import { FrameServer } from "../webrtc/server.ts";
import type { IncomingCall } from "./call_queue.ts";

/** How long the candidates of an offer wait for the first one after it: a caller may have none. */
const OFFERED_WAIT_MS = 250;

export interface AnswererParts {
  readonly table: ServiceTable;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Used from now on for every call, beside those that a call brings. */
  readonly iceServers?: () => readonly IceServer[];
  /** Those that are in force for the next call. */
  readonly limits?: () => Partial<WebRtcLimits>;
  /** What makes peers, where that is not the addon. */
  readonly rtc?: Rtc;
  /** Hears of each peer that has connected; the function that it returns, of its end. */
  readonly joined?: (peer: RtcPeer, identity: Peer) => (() => void) | void;
}

/** A call, and what whoever has brought it adds. */
export interface AnswerOptions {
  readonly iceServers?: readonly IceServer[];
}

export class Answerer {
  readonly #parts: AnswererParts;
  readonly #allowance = new PortAllowance();
  readonly #peers = new Set<RtcPeer>();
  readonly #servers = new Set<FrameServer>();
  /** Calls that are being answered, each with its end. */
  readonly #answering = new Set<Promise<void>>();
  #closed: SvcError | undefined;

  constructor(parts: AnswererParts) {
    this.#parts = parts;
  }

  get #limits(): WebRtcLimits {
    return { ...WEBRTC_LIMITS, ...this.#parts.limits?.() };
  }

  /** How many peers there are, connected or on their way to it. */
  get peers(): number {
    return this.#peers.size;
  }

  /** Answers a call. Never rejects: the caller hears of every failure; resolves when the peer is connected or over. */
  async answer(call: IncomingCall, options: AnswerOptions = {}): Promise<void> {
    const answered = this.#answer(call, options).catch((error) => {
      this.#parts.logger.debug(`cannot answer a WebRTC call: ${chainOf(error)}`);
      call.fail(SvcError.from(error));
    });
    this.#answering.add(answered);
    await answered;
    this.#answering.delete(answered);
  }

  /** Takes no more calls, waits up to `deadlineMs` for those under way, then ends all peers. */
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
    this.#checkRoom();
    const signals = new AnswerSignals(call);
    const peer = await RtcPeer.make({
      iceServers: [...this.#parts.iceServers?.() ?? [], ...options.iceServers ?? []],
      candidatesMax: this.#limits.candidates,
      signals,
      rtc: this.#parts.rtc,
    });
    if (this.#closed) return peer.close(this.#closed);
    this.#peers.add(peer);
    peer.whenGone(() => this.#peers.delete(peer));
    const stop = this.#parts.clock.after(call.deadlineMs - this.#parts.clock.monotonicMs(), () => {
      peer.close(new SvcError("deadline_exceeded", "the WebRTC connection was not there in time"));
    });
    try {
      const offered = peer.acceptOffer(call.sdp);
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
   * Gives the peer the caller's candidates; those of its offer not before the caller has shown, by a further one, that
   * it has the answer. The peer would call there at once, and a caller that is reached while it still reads the answer
   * may take the answer's certificate for a stranger's (libdatachannel).
   */
  async #takeCandidates(peer: RtcPeer, call: IncomingCall, offered: Candidate[]): Promise<void> {
    const add = (candidate: Candidate) => peer.addCandidate(candidate);
    // If the call is over and the peer is not connected, it will not be.
    const fail = (error: unknown) => void (peer.isConnected || peer.close(SvcError.from(error)));
    const shown = Promise.withResolvers<void>();
    const stop = this.#parts.clock.after(call.disableTrickle ? 0 : OFFERED_WAIT_MS, shown.resolve);
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

  #checkRoom(): void {
    if (this.#closed) throw this.#closed;
    const { peers, offers } = this.#limits;
    const full = this.#peers.size >= peers
      ? `${peers} WebRTC peers are connected`
      : this.#answering.size >= offers
      ? `${offers} WebRTC peers are connecting`
      : undefined;
    if (full) {
      throw new SvcError("resource_exhausted", `${full}, which is as many as may be; try again later`);
    }
  }

  #serve(peer: RtcPeer, { caller }: IncomingCall): void {
    const { table, joined, logger } = this.#parts;
    const { local, remote } = peer.addresses ?? {};
    const { remoteAddress: signaledFrom } = caller;
    const remoteAddress = remote ?? signaledFrom;
    const identity: Peer = { kind: "webrtc", ...caller, localAddress: local, remoteAddress, signaledFrom };
    const leave = (error: SvcError) => peer.close(error);
    const allowance = this.#allowance.connection(() => {
      leave(new SvcError("resource_exhausted", "it reads too little of what it has asked for"));
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
    });
    peer.listen(server);
  }
}

/** Tells the caller what the peer says of itself. */
class AnswerSignals implements SignalListener {
  /** Where all candidates go with the answer: what there is of it. */
  #sdp: string | undefined;
  #gathered = false;
  #connected = false;
  readonly #onLoopback: boolean;

  constructor(private readonly call: IncomingCall) {
    this.#onLoopback = isOnThisMachine(call.caller);
  }

  described({ sdp }: Description): void {
    if (this.call.disableTrickle) this.#sdp = sdp;
    else this.call.answer(encodeDescription({ type: "answer", sdp }));
  }

  candidate(candidate: Candidate): void {
    this.#add(candidate);
    // The addon leaves out loopback addresses; a caller on this computer may have no other way.
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

  #add(candidate: Candidate): void {
    if (this.#sdp === undefined) this.call.candidate(candidate);
    else this.#sdp += `a=${candidate.candidate}\r\n`;
  }

  #finish(): void {
    if (this.#gathered && this.#connected) this.call.done();
  }
}
