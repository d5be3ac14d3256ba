/**
 * The viewpoint in the header of a PCD file: the pose of the sensor that measured the points, in metres and as the
 * quaternion w x y z. The points stay in the sensor's frame.
 */

import { normalized, type RigidTransform } from "../pose.ts";

/** The header of a cloud is shorter. */
const HEADER_BYTES_MAX = 4096;
const LINE = /^VIEWPOINT[ \t]+([^\r\n]*)$/m;
const DATA = /^DATA[ \t]/m;
const MM_PER_M = 1000;
/** Digits of a metre and of a quaternion. */
const DIGITS = 9;

/** In millimetres; undefined if the file names none, or the sensor's own place. */
export function viewpointOf(file: Uint8Array): RigidTransform | undefined {
  const [, written = ""] = LINE.exec(headerOf(file) ?? "") ?? [];
  const numbers = written.trim().split(/[ \t]+/).map(Number);
  if (numbers.length !== 7 || !numbers.every(Number.isFinite)) return undefined;
  const [x = 0, y = 0, z = 0, w = 0, i = 0, j = 0, k = 0] = numbers;
  if (!(Math.hypot(w, i, j, k) > 0)) return undefined;
  const isOwn = x === 0 && y === 0 && z === 0 && i === 0 && j === 0 && k === 0;
  if (isOwn) return undefined;
  return {
    translation: { x: x * MM_PER_M, y: y * MM_PER_M, z: z * MM_PER_M },
    rotation: normalized({ w, x: i, y: j, z: k }),
  };
}

/** The file with this viewpoint (millimetres); the file itself if it has a viewpoint already, or is no PCD file. */
export function withViewpoint(file: Uint8Array, { translation, rotation }: RigidTransform): Uint8Array {
  const header = headerOf(file);
  if (header === undefined || viewpointOf(file)) return file;
  const { x, y, z } = translation, { w, x: i, y: j, z: k } = rotation;
  const numbers = [x / MM_PER_M, y / MM_PER_M, z / MM_PER_M, w, i, j, k];
  if (!numbers.every(Number.isFinite)) return file;
  const line = `VIEWPOINT ${numbers.map((one) => String(Number(one.toFixed(DIGITS)))).join(" ")}`;
  const changed = LINE.test(header) ? header.replace(LINE, line) : `${header}${line}\n`;
  const start = Uint8Array.from(changed, (letter) => letter.charCodeAt(0));
  const out = new Uint8Array(start.length + file.length - header.length);
  out.set(start);
  out.set(file.subarray(header.length), start.length);
  return out;
}

/** The lines before the line DATA, one byte a letter; undefined for another file. */
function headerOf(file: Uint8Array): string | undefined {
  const start = new TextDecoder("latin1").decode(file.subarray(0, HEADER_BYTES_MAX));
  const data = DATA.exec(start);
  // `latin1` decodes as windows-1252: one letter a byte, but not the same one above ASCII.
  const isAscii = data && file.subarray(0, data.index).every((byte) => byte < 0x80);
  return isAscii ? start.slice(0, data.index) : undefined;
}
