/**
 * VP8 pictures as RTP packets (RFC 7741), and the viewer's requests by RTCP.
 */

/** Data of one packet: with all headers it fits into one datagram. */
const PAYLOAD_BYTES = 1100;
const RTP_HEADER_BYTES = 12;
const RTP_VERSION = 0x80;
const MARKER = 0x80;
/** Flag in a packet's first byte: it starts a picture. */
const START = 0x10;
/** RTCP packets (RFC 4585, 5104): feedback about the payload, and which feedback. */
const PAYLOAD_FEEDBACK = 206;
const PICTURE_LOSS = 1;
const FULL_INTRA_REQUEST = 4;

/** The payload type of VP8 in every description. */
export const VP8_PAYLOAD_TYPE = 96;
export const VP8_CLOCK_HZ = 90_000;

/** Cuts the pictures of one track into packets. */
export class Vp8Packetizer {
  #sequence = Math.floor(Math.random() * 0x8000);

  constructor(private readonly ssrc: number) {}

  /** The packets of a picture shown at `timestamp`, in ticks of the RTP clock. */
  *packets(picture: Uint8Array, timestamp: number): Generator<Uint8Array> {
    for (let at = 0; at < picture.length; at += PAYLOAD_BYTES) {
      const data = picture.subarray(at, at + PAYLOAD_BYTES);
      const packet = new Uint8Array(RTP_HEADER_BYTES + 1 + data.length);
      const view = new DataView(packet.buffer);
      const isLast = at + PAYLOAD_BYTES >= picture.length;
      packet[0] = RTP_VERSION;
      packet[1] = VP8_PAYLOAD_TYPE | (isLast ? MARKER : 0);
      view.setUint16(2, this.#sequence);
      this.#sequence = (this.#sequence + 1) & 0xffff;
      view.setUint32(4, timestamp >>> 0);
      view.setUint32(8, this.ssrc);
      packet[RTP_HEADER_BYTES] = at === 0 ? START : 0;
      packet.set(data, RTP_HEADER_BYTES + 1);
      yield packet;
    }
  }
}

/** Whether a viewer requests a key frame: it has just joined, or lost data. */
export function wantsKeyPicture(rtcp: Uint8Array): boolean {
  const view = new DataView(rtcp.buffer, rtcp.byteOffset, rtcp.byteLength);
  for (let at = 0; at + 4 <= rtcp.length;) {
    const format = view.getUint8(at) & 31;
    const isFeedback = rtcp[at + 1] === PAYLOAD_FEEDBACK;
    if (isFeedback && (format === PICTURE_LOSS || format === FULL_INTRA_REQUEST)) return true;
    at += 4 * (1 + view.getUint16(at + 2));
  }
  return false;
}
