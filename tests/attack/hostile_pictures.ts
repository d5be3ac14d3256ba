/**
 * Pictures as an attacker writes them: small files that would be large in memory, or take long.
 */

import { crc32, deflateSync } from "node:zlib";

export interface HostilePicture {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export function bombPictures(): HostilePicture[] {
  const huge = 65_535;
  return [
    { name: "a PNG of 65535 x 65535 pixels", bytes: png(huge, huge, deflateSync(new Uint8Array(64))) },
    { name: "a JPEG of 65535 x 65535 pixels", bytes: jpegHeader(huge, huge) },
    // 64 MB of zeros in 64 kB, for a picture of 3 bytes.
    {
      name: "a PNG with more in it than its pixels",
      bytes: png(1, 1, deflateSync(new Uint8Array(64 << 20))),
    },
    {
      name: "a PNG of 50 megapixels with nothing in it",
      bytes: png(10_000, 5_000, deflateSync(new Uint8Array())),
    },
  ];
}

function png(width: number, height: number, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, 8);
  header.setUint8(9, 2);
  return joined([
    Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
    chunk("IHDR", new Uint8Array(header.buffer)),
    chunk("IDAT", data),
    chunk("IEND", new Uint8Array()),
  ]);
}

function chunk(type: string, content: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(12 + content.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, content.length);
  bytes.set(new TextEncoder().encode(type), 4);
  bytes.set(content, 8);
  view.setUint32(8 + content.length, crc32(bytes.subarray(4, 8 + content.length)));
  return bytes;
}

/** As far as its frame, which has three colours. */
function jpegHeader(width: number, height: number): Uint8Array<ArrayBuffer> {
  const frame = [0xff, 0xc0, 0, 17, 8, height >> 8, height & 255, width >> 8, width & 255, 3];
  return Uint8Array.from([0xff, 0xd8, ...frame, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 0xff, 0xd9]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
