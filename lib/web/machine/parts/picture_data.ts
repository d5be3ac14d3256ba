/**
 * Pictures as cameras give them: what browsers show themselves, and the raw and depth formats that they do not. Sizes
 * are checked before memory is taken: a camera may send anything.
 */

const PIXELS_MAX = 50_000_000;
const RGBA_MIME = "image/vnd.viam.rgba";
const DEPTH_MIME = "image/vnd.viam.dep";
/** Begins a raw depth map. */
const DEPTH_MAGIC = "DEPTHMAP";

export type ShownPicture =
  | { readonly kind: "file"; readonly blob: Blob }
  | { readonly kind: "pixels"; readonly image: ImageData; readonly rangeMm?: readonly [number, number] };

/** Throws what is wrong with the picture. */
export function shownPicture(bytes: Uint8Array, mimeType: string): ShownPicture {
  const mime = mimeType.replace(/\+lazy$/, "");
  if (mime === RGBA_MIME) return { kind: "pixels", image: readRgba(bytes) };
  if (mime === DEPTH_MIME) return readDepth(bytes);
  return { kind: "file", blob: new Blob([bytes as BlobPart], { type: mime }) };
}

/** Magic, width and height (big endian), then four bytes a pixel. */
function readRgba(bytes: Uint8Array): ImageData {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [width, height] = sizeOf(view, 4, 8, (at) => view.getUint32(at));
  const pixels = bytes.subarray(12, 12 + width * height * 4);
  if (pixels.length !== width * height * 4) throw new Error("the picture is cut off");
  return new ImageData(new Uint8ClampedArray(pixels), width, height);
}

/** Magic, width and height as 64 bit numbers (big endian), then a distance in millimetres a pixel. */
function readDepth(bytes: Uint8Array): ShownPicture {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (new TextDecoder().decode(bytes.subarray(0, 8)) !== DEPTH_MAGIC) throw new Error("this is no depth map");
  const [width, height] = sizeOf(view, 8, 16, (at) => Number(view.getBigUint64(at)));
  if (bytes.length < 24 + width * height * 2) throw new Error("the depth map is cut off");
  const depths = new Uint16Array(width * height);
  for (let at = 0; at < depths.length; at++) depths[at] = view.getUint16(24 + at * 2);
  return colouredDepth(depths, width, height);
}

function sizeOf(view: DataView, wide: number, high: number, read: (at: number) => number): [number, number] {
  if (view.byteLength < high + 4) throw new Error("the picture is cut off");
  const [width, height] = [read(wide), read(high)];
  if (!(width > 0 && height > 0 && width * height <= PIXELS_MAX)) {
    throw new Error(`a picture of ${width} × ${height} pixels`);
  }
  return [width, height];
}

/** Near is warm and far is cold, between the nearest and the farthest distance; no distance is black. */
export function colouredDepth(depthsMm: Uint16Array, width: number, height: number): ShownPicture {
  let [near, far] = [Infinity, 0];
  for (const depth of depthsMm) {
    if (depth === 0) continue;
    if (depth < near) near = depth;
    if (depth > far) far = depth;
  }
  const image = new ImageData(width, height);
  const span = Math.max(1, far - near);
  for (const [at, depth] of depthsMm.entries()) {
    const [red, green, blue] = depth === 0 ? [0, 0, 0] : turbo(1 - (depth - near) / span);
    image.data.set([red, green, blue, 255], at * 4);
  }
  return { kind: "pixels", image, rangeMm: far === 0 ? undefined : [near, far] };
}

/** A colour map with even steps of lightness, from blue over green to red (a polynomial fit). */
export function turbo(value: number): [number, number, number] {
  const t = Math.min(1, Math.max(0, value));
  const red = 34.61 + t * (1172.33 + t * (-10793.56 + t * (33300.12 + t * (-38394.49 + t * 14825.05))));
  const green = 23.31 + t * (557.33 + t * (1225.33 + t * (-3574.96 + t * (1073.77 + t * 707.56))));
  const blue = 27.2 + t * (3211.1 + t * (-15327.97 + t * (27814 + t * (-22569.18 + t * 6838.66))));
  return [red, green, blue];
}
