/**
 * SETTINGS of HTTP/2: writing, reading and checking them.
 */

import { Buffer } from "node:buffer";
import { H2, MAX_FRAME_BYTES, MAX_WINDOW_BYTES, ProtocolError, readUint32, SETTING } from "./frame.ts";

/** Limit of header fields in one block, in either direction. */
export const MAX_HEADER_BYTES = 64 * 1024;
export const INITIAL_WINDOW_BYTES = 65_535;
const ENTRY_BYTES = 6;
const LARGEST_FRAME_BYTES = 2 ** 24 - 1;

/** What the peer accepts. */
export class PeerSettings {
  /** The window of a new stream. */
  windowBytes = INITIAL_WINDOW_BYTES;
  frameBytes = MAX_FRAME_BYTES;
  /** Limit of open streams, once the peer has set one. */
  streams: number | undefined;
  #headerBytes = MAX_HEADER_BYTES;

  /** The peer's limit of header fields, and never more than our own. */
  get headerBytes(): number {
    return Math.min(this.#headerBytes, MAX_HEADER_BYTES);
  }

  set headerBytes(bytes: number) {
    this.#headerBytes = bytes;
  }
}

export function settingsPayload(values: readonly [id: number, value: number][]): Uint8Array {
  const payload = Buffer.alloc(ENTRY_BYTES * values.length);
  values.forEach(([id, value], i) =>
    payload.writeUInt32BE(value, payload.writeUInt16BE(id, ENTRY_BYTES * i))
  );
  return payload;
}

/** How many settings a payload holds. */
export function settingsIn(payload: Uint8Array): number {
  if (payload.length % ENTRY_BYTES !== 0) {
    throw new ProtocolError(H2.frameSize, "SETTINGS of a wrong size");
  }
  return payload.length / ENTRY_BYTES;
}

/**
 * The settings by number. Of duplicates only the last counts: applying each would cost endless work for a frame full
 * of them.
 */
export function readSettings(payload: Uint8Array, byServer: boolean): ReadonlyMap<number, number> {
  const last = new Map<number, number>();
  for (let at = 0; at < payload.length; at += ENTRY_BYTES) {
    const id = readUint32(payload, at) >>> 16, value = readUint32(payload, at + 2);
    check(id, value, byServer);
    last.set(id, value);
  }
  return last;
}

function check(id: number, value: number, byServer: boolean): void {
  if (id === SETTING.push && value > (byServer ? 0 : 1)) {
    throw new ProtocolError(H2.protocol, `push ${value}`);
  }
  if (id === SETTING.window && value > MAX_WINDOW_BYTES) {
    throw new ProtocolError(H2.flowControl, "window too large");
  }
  if (id === SETTING.frameSize && (value < MAX_FRAME_BYTES || value > LARGEST_FRAME_BYTES)) {
    throw new ProtocolError(H2.protocol, `frame size ${value}`);
  }
}
