/**
 * Dials a host over WebRTC: arranges the connection through a signaling server, and returns a channel over it.
 *
 * The caller provides a channel to the signaling server and its credentials; the server is needed only until the peers
 * are connected.
 */

import { SignalingService } from "../../../proto/gen/signaling_pb.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type Channel, client, type ServiceClient } from "../rpc/channel.ts";
import { Metadata } from "../rpc/metadata.ts";
import type { Rtc } from "../webrtc/addon.ts";
import type { IceServer } from "../webrtc/ice_choice.ts";
import { FrameClient } from "../webrtc/client.ts";
import {
  type Description,
  encodeDescription,
  type IceCandidate,
  isOwnAddress,
} from "../webrtc/description.ts";
import { CONNECT_MS, WEBRTC_LIMITS } from "../webrtc/limits.ts";
import { RtcPeer, type SignalListener } from "../webrtc/peer.ts";
import { candidateFrom, candidateMessage, HOST } from "./service.ts";

export interface HostDialOptions {
  /** To the signaling server; the caller closes it. */
  readonly signaling: Channel;
  /** The host's name at the signaling server. */
  readonly host: string;
  readonly clock: Clock;
  /** Metadata for the signaling server besides the host. */
  readonly header?: Metadata;
  /** Used besides those that the signaling server names. */
  readonly iceServers?: readonly IceServer[];
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Makes the native peer; by default the addon does. */
  readonly rtc?: Rtc;
  /** Called at the end of the connection, whoever ended it. */
  readonly lost?: (error: SvcError) => void;
}

/** A channel over WebRTC, and its two addresses. */
export interface DialedChannel extends Channel {
  readonly addresses: { readonly local: string; readonly remote: string } | undefined;
}

type Signaling = ServiceClient<typeof SignalingService>;

/**
 * How long after the answer this side withholds its own addresses, so that on a shared network it sends the first
 * check and is ready when the other side starts the DTLS handshake. A handshake that starts earlier is ignored until
 * its repetition, a second later. Addresses behind a NAT are sent at once: there the other side must send first, to
 * open the NAT.
 */
const ASK_FIRST_MS = 50;

/**
 * Dials; resolves when the connection is open. Rejects with the signaling server's error (`unimplemented`, or
 * `invalid_argument` "host not preconfigured", if it does not know the host), `deadline_exceeded` after too long, or
 * the signal's reason.
 */
export async function dialWebRtc(options: HostDialOptions): Promise<DialedChannel> {
  const { clock, host, timeoutMs = CONNECT_MS } = options;
  let server = "";
  const late = () =>
    new SvcError("deadline_exceeded", `no WebRTC connection to ${host} within ${timeoutMs} ms${server}`);
  const over = deadline(clock, timeoutMs, late, options.signal);
  try {
    return await new Dial(options, over.signal, (error) => server = `; ${error.message}`).run();
  } finally {
    over.done();
  }
}

/** One attempt. */
class Dial implements SignalListener {
  readonly #signaling: Signaling;
  readonly #header: Metadata;
  readonly #described = Promise.withResolvers<Description>();
  /** The call's id, available once its answer has arrived. */
  readonly #answered = Promise.withResolvers<string>();
  /** Updates go one after another. */
  #updates: Promise<void>;
  /** Resolves when this side's own addresses may be sent. */
  #asked: Promise<void>;
  #connected = false;
  /** Aborted when the connection is arranged, or given up. */
  readonly #over = new AbortController();

  constructor(
    private readonly options: HostDialOptions,
    private readonly signal: AbortSignal,
    private readonly serverFailed: (error: SvcError) => void,
  ) {
    this.#signaling = client(SignalingService, options.signaling);
    this.#header = Metadata.from([...options.header ?? [], [HOST, options.host]]);
    this.#answered.promise.catch(() => {});
    this.#updates = this.#answered.promise.then(() => {}, () => {});
    const { clock } = options;
    this.#asked = this.#answered.promise.then(() => clock.sleep(ASK_FIRST_MS, this.#over.signal));
    this.#asked.catch(() => {});
  }

  async run(): Promise<DialedChannel> {
    const { signal, options: { clock, iceServers = [], rtc, lost } } = this;
    const config = await this.#config();
    const peer = await RtcPeer.make({
      iceServers: [...iceServers, ...config],
      candidatesMax: WEBRTC_LIMITS.candidates,
      signals: this,
      serverFailed: this.serverFailed,
      rtc,
    });
    try {
      peer.describe("offer");
      const offer = await race(this.#described.promise, signal);
      const called = this.#call(peer, offer, AbortSignal.any([signal, this.#over.signal]));
      called.catch((error) => peer.close(SvcError.from(error)));
      await race(peer.connected, signal);
      this.#connected = true;
      const channel = new FrameClient({ peer, clock });
      peer.listen(channel);
      if (lost) peer.whenGone(lost);
      this.#update({ case: "done", value: true });
      return Object.assign(channel, { addresses: peer.addresses });
    } catch (error) {
      peer.close(SvcError.from(error));
      throw error;
    } finally {
      this.#over.abort(new SvcError("canceled", "the connection is arranged, or given up"));
    }
  }

  described(description: Description): void {
    this.#described.resolve(description);
  }

  candidate(candidate: IceCandidate): void {
    const tell = () => this.#update({ case: "candidate", value: candidateMessage(candidate) });
    if (isOwnAddress(candidate)) this.#later(tell);
    else tell();
  }

  gathered(): void {
    this.#later(() => this.#update({ case: "done", value: true }));
  }

  /** The ICE servers of the signaling server. */
  async #config(): Promise<readonly IceServer[]> {
    const { header, signal } = { header: this.#header, signal: this.signal };
    try {
      const { config } = await this.#signaling.optionalWebRTCConfig({}, { header, signal });
      return config?.additionalIceServers ?? [];
    } catch (error) {
      // Servers need not serve this call.
      if (SvcError.from(error).code === "unimplemented") return [];
      throw error;
    }
  }

  async #call(peer: RtcPeer, offer: Description, signal: AbortSignal): Promise<void> {
    const stages = this.#signaling.call({ sdp: encodeDescription(offer) }, { header: this.#header, signal });
    try {
      let answered = false;
      // Signaling servers in several processes may hand on a candidate before the answer that it belongs to.
      const early: IceCandidate[] = [];
      for await (const { uuid, stage } of stages) {
        if (stage.case === "init" && !answered) {
          answered = true;
          peer.accept(stage.value.sdp, "answer");
          for (const candidate of early) peer.addCandidate(candidate);
          this.#answered.resolve(uuid);
        } else if (stage.case === "update") {
          const candidate = candidateFrom(stage.value.candidate);
          if (answered) peer.addCandidate(candidate);
          // With one more than it takes, the peer refuses them.
          else if (early.length <= WEBRTC_LIMITS.candidates) early.push(candidate);
        } else {
          throw new SvcError("internal", "the signaling server sent the stages of a call out of order");
        }
      }
      if (!answered) {
        throw new SvcError("unavailable", "the signaling server ended the call without an answer");
      }
    } catch (error) {
      this.#answered.reject(error);
      // Once connected, nothing depends on signaling.
      if (!this.#connected) throw error;
    }
  }

  /** Resolves when the other side has been contacted; never if the attempt ends before. */
  #later(tell: () => void): void {
    this.#asked = this.#asked.then(tell);
    this.#asked.catch(() => {});
  }

  #update(update: Parameters<Signaling["callUpdate"]>[0]["update"]): void {
    this.#updates = this.#updates.then(async () => {
      const uuid = await this.#answered.promise;
      await this.#signaling.callUpdate({ uuid, update }, { header: this.#header, timeoutMs: CONNECT_MS });
    }).catch(() => {
      // The call is over, or connects with other candidates.
    });
  }
}
