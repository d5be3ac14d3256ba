/**
 * How much WebRTC takes and keeps, by name. What a port gives to each caller is in `port/byte_budget.ts`.
 */

/** Limits that a program may set; the others belong to the published framing. */
export interface WebRtcLimits {
  /** Peers of one port, connected or on their way to it. */
  readonly peers: number;
  /** Connections on their way: offers that are being answered. */
  readonly offers: number;
  /** Candidates that are taken from the other side of one peer. */
  readonly candidates: number;
  /** Calls under way on one peer. */
  readonly calls: number;
}

export const WEBRTC_LIMITS: WebRtcLimits = { peers: 512, offers: 32, candidates: 64, calls: 256 };

/** The largest frame that is taken (the published one); larger messages come in several. */
export const FRAME_BYTES_MAX = 65_536;
/** The data of a message in one frame that is sent: every published client takes it. */
export const PACKET_BYTES = 16_373;
/** Frames that make no sense, after which a peer is closed. */
export const BROKEN_FRAMES_MAX = 64;
/** Channels that the other side opens beside the two agreed ones, after which the peer is closed. */
export const INTRUSIONS_MAX = 8;
/** Nothing more is handed to a channel while as much waits in it; the rest of its calls is charged to a budget. */
export const CHANNEL_FULL_BYTES = 256 * 1024;
export const CHANNEL_RESUME_BYTES = 64 * 1024;
/** A handler is asked to wait while so much of its answer has not left. */
export const CALL_FULL_BYTES = 64 * 1024;
/** The longest session description, in base64. */
export const DESCRIPTION_BYTES_MAX = 64 * 1024;
/** The longest ICE candidate. */
export const CANDIDATE_BYTES_MAX = 1024;
/** From the offer to an open data channel (the published limit). */
export const CONNECT_MS = 10_000;
