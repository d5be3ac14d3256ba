/**
 * One peer, from its first description to its end.
 *
 * Owns the two agreed channels (0 `data`, 1 `negotiation`; published) and the state of the connection. A peer is
 * connected when its data channel is open, and over when the channel, the connection or either side ends it: then its
 * listeners are called once. It is closed at the same time, unless it lets the other side leave first.
 */

import { SvcError } from "../../base/error.ts";
import {
  type DataChannel,
  type NativePeer,
  nativeRtc,
  type PeerListener,
  type PeerState,
  type Rtc,
} from "./addon.ts";
import type { IceServer } from "./ice_choice.ts";
import {
  decodeDescription,
  type Description,
  type DescriptionType,
  type IceCandidate,
  isUsable,
  withoutCandidates,
} from "./description.ts";
import { Negotiation } from "./negotiation.ts";
import { CHANNEL_RESUME_BYTES, FRAME_BYTES_MAX, INTRUSIONS_MAX } from "./limits.ts";

/** Limit of frames that wait for a listener. */
const EARLY_FRAMES_MAX = 256;

/** Receives the frames of a connected peer. */
export interface FrameListener {
  frame(bytes: Uint8Array): void;
  /** The channel has room again. */
  drained(): void;
  /** The peer is over. */
  gone(error: SvcError): void;
}

/** The events of a connecting peer. */
export interface SignalListener {
  /** This side's first description: once, before the candidates. */
  described(description: Description): void;
  candidate(candidate: IceCandidate): void;
  /** All candidates are known. */
  gathered(): void;
}

export interface RtcPeerOptions {
  readonly iceServers: readonly IceServer[];
  /** Limit of candidates from the other side. */
  readonly candidatesMax: number;
  readonly signals: SignalListener;
  readonly bindAddress?: string;
  /** Called with what is wrong with an ICE server. */
  readonly serverFailed?: (error: SvcError) => void;
  /**
   * Whether this side waits, after the other side has closed its data channel, until the other side has closed
   * everything. A published client ends its process if the connection closes between its two channels.
   */
  readonly letsLeave?: boolean;
  /** Makes the native peer; by default the addon does. */
  readonly rtc?: Rtc;
}

/** The frames of a peer, which wait until there is a listener. */
class FrameDelivery {
  #listener: FrameListener | undefined;
  /** A channel reports its opening and messages independently. */
  #early: Uint8Array[] = [];

  /** Delivers a message; false if too many wait. */
  receive(message: Uint8Array | string): boolean {
    // A text is not a frame; the frame reader reports it.
    const frame = typeof message === "string" ? new TextEncoder().encode(message) : message;
    if (this.#listener) this.#listener.frame(frame);
    else this.#early.push(frame);
    return this.#early.length <= EARLY_FRAMES_MAX;
  }

  listen(listener: FrameListener): void {
    this.#listener = listener;
    for (const frame of this.#early.splice(0)) listener.frame(frame);
  }

  drained(): void {
    this.#listener?.drained();
  }

  end(error: SvcError): void {
    this.#early = [];
    this.#listener?.gone(error);
    this.#listener = undefined;
  }
}

export class RtcPeer {
  readonly #native: NativePeer;
  readonly #data: DataChannel;
  readonly #negotiation: Negotiation;
  readonly #options: RtcPeerOptions;
  readonly #connecting = Promise.withResolvers<void>();
  readonly #frames = new FrameDelivery();
  readonly #leave: ((error: SvcError) => void)[] = [];
  readonly #whenClosed: (() => void)[] = [];
  #candidates = 0;
  #opened = false;
  #error: SvcError | undefined;
  #closed = false;

  private constructor(make: (listener: PeerListener) => NativePeer, options: RtcPeerOptions) {
    this.#options = options;
    this.connected.catch(() => {});

    const { signals } = options;
    let described = false, intrusions = 0;
    this.#native = make({
      described: (description) => {
        if (described) return this.#negotiation.send(description);
        described = true;
        signals.described(description);
      },
      candidate: (candidate, mid) => signals.candidate({ candidate, mid }),
      gathered: () => signals.gathered(),
      changed: (state) => this.#changed(state),
      intruded: () => {
        if (++intrusions < INTRUSIONS_MAX) return;
        const problem = `the peer opened ${intrusions} channels of its own`;
        this.close(new SvcError("resource_exhausted", problem));
      },
    });
    this.#negotiation = new Negotiation(this, this.#native, () => negotiation);
    this.#data = this.#native.open("data", 0, {
      opened: () => {
        this.#opened = true;
        this.#connecting.resolve();
      },
      message: (message) => this.#receive(message),
      drained: () => this.#frames.drained(),
      closed: () => this.#end(lost("its data channel was closed"), !options.letsLeave),
    }, CHANNEL_RESUME_BYTES);
    const negotiation = this.#native.open("negotiation", 1, {
      opened: () => {},
      // The published Java library sends its descriptions as binary messages.
      message: (message) =>
        this.#negotiation.receive(typeof message === "string" ? message : new TextDecoder().decode(message)),
      drained: () => {},
      closed: () => void (this.#error && this.close(this.#error)),
    }, 0);
  }

  /** A peer without a description yet. */
  static async make(options: RtcPeerOptions): Promise<RtcPeer> {
    const { iceServers, bindAddress, serverFailed, rtc = nativeRtc } = options;
    const native = { iceServers, messageBytesMax: FRAME_BYTES_MAX, bindAddress, serverFailed };
    // The addon's listener exists before the peer, and gets no event before the end of this turn.
    let listener: PeerListener | undefined;
    const made = await rtc.makePeer(native, {
      described: (description) => listener?.described(description),
      candidate: (candidate, mid) => listener?.candidate(candidate, mid),
      gathered: () => listener?.gathered(),
      changed: (state) => listener?.changed(state),
      intruded: () => listener?.intruded(),
    });
    return new RtcPeer((one) => {
      listener = one;
      return made;
    }, options);
  }

  /** Resolves when the data channel is open; rejects with the reason if the peer ends before. */
  get connected(): Promise<void> {
    return this.#connecting.promise;
  }

  /** The changes of its tracks. */
  get negotiation(): Negotiation {
    return this.#negotiation;
  }

  /** Why the peer is over. */
  get error(): SvcError | undefined {
    return this.#error;
  }

  get isConnected(): boolean {
    return this.#opened && !this.#error;
  }

  get data(): DataChannel {
    return this.#data;
  }

  get addresses(): NativePeer["addresses"] {
    return this.#error ? undefined : this.#native.addresses;
  }

  /** Creates this side's description, delivered to `signals`. */
  describe(type: DescriptionType): void {
    this.#negotiation.describe(type);
  }

  /** Applies the other side's description from its transit form. Throws `invalid_argument`. */
  accept(sdp: string, type: DescriptionType): void {
    const candidates = this.#accept(decodeDescription(sdp, type));
    // Later descriptions repeat candidates, which are useless by then.
    if (!this.#opened) candidates.forEach((candidate) => this.addCandidate(candidate));
  }

  /** Applies an offer, and returns its candidates for the caller to add. Throws `invalid_argument`. */
  acceptOffer(sdp: string): IceCandidate[] {
    return this.#accept(decodeDescription(sdp, "offer"));
  }

  #accept(description: Description): IceCandidate[] {
    const { bare, candidates } = withoutCandidates(description);
    this.#native.accept(bare);
    return candidates;
  }

  /** Adds a candidate of the other side; ignores a useless one. Throws `resource_exhausted`. */
  addCandidate(candidate: IceCandidate): void {
    const { candidatesMax } = this.#options;
    if (++this.#candidates > candidatesMax) {
      throw new SvcError("resource_exhausted", `too many ICE candidates, wanted at most ${candidatesMax}`);
    }
    if (this.#error || !isUsable(candidate)) return;
    this.#native.addCandidate(candidate.candidate, candidate.mid ?? "0");
  }

  /** Passes the peer's frames to `listener` from now on. */
  listen(listener: FrameListener): void {
    if (this.#error) return listener.gone(this.#error);
    this.#frames.listen(listener);
  }

  /** Calls `run` once, with the reason, when the peer is over. */
  whenGone(run: (error: SvcError) => void): void {
    if (this.#error) run(this.#error);
    else this.#leave.push(run);
  }

  /** Calls `run` once when the peer is closed: when it is over, or later if it lets the other side leave first. */
  whenClosed(run: () => void): void {
    if (this.#closed) run();
    else this.#whenClosed.push(run);
  }

  /** Ends the peer. The first reason counts. */
  close(error: SvcError): void {
    this.#end(error, true);
  }

  #end(reason: SvcError, closes: boolean): void {
    const isOver = this.#error !== undefined;
    const error = this.#error ??= reason;
    const isClosed = this.#closed;
    if (closes && !isClosed) {
      this.#closed = true;
      this.#native.close();
    }

    if (!isOver) {
      this.#connecting.reject(error);
      this.#frames.end(error);
      for (const run of this.#leave.splice(0)) run(error);
    }

    if (closes && !isClosed) { for (const run of this.#whenClosed.splice(0)) run(); }
  }

  #receive(message: Uint8Array | string): void {
    if (this.#frames.receive(message)) return;
    this.close(new SvcError("resource_exhausted", "the peer sent too much before the connection was open"));
  }

  #changed(state: PeerState): void {
    if (state === "disconnected" || state === "failed" || state === "closed") {
      this.close(lost(`the connection is ${state}`));
    }
  }
}

function lost(how: string): SvcError {
  return new SvcError("unavailable", `the WebRTC peer is gone: ${how}`);
}
