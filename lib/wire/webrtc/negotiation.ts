/**
 * Negotiations of a connected peer: changes of its tracks, agreed on over the negotiation channel.
 *
 * Owns their order, one at a time. Only the side that first answered starts them (published).
 */

import { SerialQueue } from "../../base/async/serial_queue.ts";
import { race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { DataChannel, NativePeer, TrackListener, VideoTrack } from "./addon.ts";
import {
  decodeDescription,
  type Description,
  type DescriptionType,
  encodeDescription,
  withOneRole,
} from "./description.ts";

/** The peer whose tracks are negotiated. */
interface NegotiatingPeer {
  /** Why the peer is over. */
  readonly error: SvcError | undefined;
  accept(sdp: string, type: DescriptionType): void;
  close(error: SvcError): void;
}

export class Negotiation {
  /** Receives the other side's answer to a description on the negotiation channel. */
  #answered: ((text: string) => void) | undefined;
  readonly #queue = new SerialQueue();
  #videos = 0;
  /** Whether this side made the first offer. */
  #offered: boolean | undefined;

  constructor(
    private readonly peer: NegotiatingPeer,
    private readonly native: NativePeer,
    private readonly channel: () => DataChannel,
  ) {}

  /** Creates this side's description. */
  describe(type: DescriptionType): void {
    this.#offered ??= type === "offer";
    this.native.describe(type);
  }

  /** Adds a video and negotiates it. Rejects if the other side does not accept it in time. */
  async addVideo(
    streamId: string,
    ssrc: number,
    payloadType: number,
    listener: TrackListener,
    signal: AbortSignal,
  ): Promise<VideoTrack> {
    if (this.peer.error) throw this.peer.error;
    const mid = `video${++this.#videos}`;
    const track = this.native.addVideo({ mid, streamId, ssrc, payloadType }, listener);
    try {
      await this.renegotiate(signal);
      return track;
    } catch (error) {
      track.close();
      throw error;
    }
  }

  /** Negotiates changes of the tracks; resolves when the other side has agreed. One at a time. */
  renegotiate(signal: AbortSignal): Promise<void> {
    return this.#queue.run(() => this.#negotiate(signal));
  }

  /** Takes what the other side sent on the negotiation channel. */
  receive(text: string): void {
    if (this.#answered) return this.#answered(text);
    // Only the side that first answered starts later negotiations (published).
    if (!this.#offered) return;
    try {
      this.peer.accept(text, "offer");
      this.describe("answer");
    } catch (error) {
      this.peer.close(SvcError.from(error));
    }
  }

  /** Descriptions after the first one travel on the negotiation channel. */
  send(description: Description): void {
    try {
      this.channel().send(encodeDescription(description));
    } catch (error) {
      this.peer.close(SvcError.from(error));
    }
  }

  async #negotiate(signal: AbortSignal): Promise<void> {
    if (this.peer.error) throw this.peer.error;
    const { promise: answered, resolve } = Promise.withResolvers<string>();
    this.#answered = resolve;
    try {
      this.native.describe("offer");
      this.native.accept(withOneRole(decodeDescription(await race(answered, signal), "answer")));
    } finally {
      this.#answered = undefined;
    }
  }
}
