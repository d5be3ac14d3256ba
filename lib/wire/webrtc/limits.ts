/**
 * The limits of WebRTC, by name. `flow/byte_budget.ts` has the memory of each caller.
 */

/** Configurable limits; the others belong to the published framing. */
export interface WebRtcLimits {
  /** Peers of one port, connected or connecting. */
  readonly peers: number;
  /** Offers being answered. */
  readonly offers: number;
  /** Candidates from the other side of one peer. */
  readonly candidates: number;
  /** Calls under way on one peer. */
  readonly calls: number;
}

export const WEBRTC_LIMITS: WebRtcLimits = { peers: 512, offers: 32, candidates: 64, calls: 256 };

/** The largest accepted frame (the published one); larger messages arrive in several. */
export const FRAME_BYTES_MAX = 65_536;
/** Message data in one sent frame: every published client accepts it. A peer may announce that it takes less. */
export const PACKET_BYTES = 16_373;
/** The most that a frame has besides the data of its packet. */
export const PACKET_OVERHEAD_BYTES = 48;
/** Meaningless frames after which a peer is closed. */
export const BROKEN_FRAMES_MAX = 64;
/** Channels opened by the other side, besides the two agreed ones, after which the peer is closed. */
export const INTRUSIONS_MAX = 8;
/** A channel with this much unsent data gets no more; the rest waits, charged to a budget. */
export const CHANNEL_FULL_BYTES = 256 * 1024;
export const CHANNEL_RESUME_BYTES = 64 * 1024;
/** Unsent bytes of an answer at which its handler waits. */
export const CALL_FULL_BYTES = 64 * 1024;
/** The longest session description, in base64. */
export const DESCRIPTION_BYTES_MAX = 64 * 1024;
/** The longest ICE candidate. */
export const CANDIDATE_BYTES_MAX = 1024;
/** Time from the offer to an open data channel (the published limit). */
export const CONNECT_MS = 10_000;
