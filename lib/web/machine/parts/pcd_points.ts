/** Point clouds in PCD files, as the machine sends them: ascii and binary, with or without colours. */

const POINTS_MAX = 5_000_000;

export interface CloudPoints {
  readonly count: number;
  /** Metres: x, y, z of each point. */
  readonly positions: Float32Array;
  /** 0 to 1: red, green, blue of each point; absent if the cloud has none. */
  readonly colours?: Float32Array;
}

interface Header {
  readonly fields: readonly string[];
  readonly sizes: readonly number[];
  readonly types: readonly string[];
  readonly counts: readonly number[];
  readonly points: number;
  readonly data: string;
  readonly bytes: number;
}

/** Indices of fields. */
interface Axes {
  readonly x: number;
  readonly y: number;
  readonly z: number;
}

/** Throws what is wrong with the cloud. */
export function readPcdPoints(bytes: Uint8Array): CloudPoints {
  const header = headerOf(bytes);
  const indexOf = (name: string) => header.fields.indexOf(name);
  const axes = { x: indexOf("x"), y: indexOf("y"), z: indexOf("z") };
  if (Object.values(axes).includes(-1)) throw new Error("the point cloud has no x, y and z");
  if (header.data === "ascii") return readAscii(bytes, header, axes);
  if (header.data === "binary") return readBinary(bytes, header, axes);
  throw new Error(`point clouds with data "${header.data.slice(0, 40)}" are not shown`);
}

function headerOf(bytes: Uint8Array): Header {
  const lines = new Map<string, string[]>();
  let at = 0;
  while (at < Math.min(bytes.length, 4096)) {
    const end = bytes.indexOf(10, at);
    if (end < 0) break;
    const [key = "", ...words] = new TextDecoder().decode(bytes.subarray(at, end)).trim().split(/\s+/);
    at = end + 1;
    lines.set(key, words);
    if (key === "DATA") break;
  }
  const words = (key: string) => lines.get(key) ?? [];
  const points = Number(words("POINTS")[0]);
  if (!lines.has("DATA") || !Number.isInteger(points) || points < 0) {
    throw new Error("this is no point cloud");
  }
  if (points > POINTS_MAX) throw new Error(`a point cloud of ${points} points`);
  const fields = words("FIELDS");
  return {
    fields,
    sizes: words("SIZE").map(Number),
    types: words("TYPE"),
    counts: fields.map((_, index) => Number(words("COUNT")[index] ?? 1)),
    points,
    data: words("DATA")[0] ?? "",
    bytes: at,
  };
}

function readBinary(bytes: Uint8Array, header: Header, { x, y, z }: Axes): CloudPoints {
  const offsets: number[] = [];
  let stride = 0;
  for (const [at, size] of header.sizes.entries()) {
    offsets.push(stride);
    stride += size * (header.counts[at] ?? 1);
  }
  if (!(stride > 0) || bytes.length < header.bytes + stride * header.points) {
    throw new Error("the point cloud is cut off");
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset + header.bytes);
  const read = (field: number, point: number) => {
    const at = point * stride + (offsets[field] ?? 0);
    if (header.types[field] !== "F") {
      return header.sizes[field] === 2 ? view.getInt16(at, true) : view.getInt32(at, true);
    }
    return header.sizes[field] === 8 ? view.getFloat64(at, true) : view.getFloat32(at, true);
  };
  const rgb = header.fields.indexOf("rgb");
  const positions = new Float32Array(header.points * 3);
  const colours = rgb < 0 ? undefined : new Float32Array(header.points * 3);
  for (let point = 0; point < header.points; point++) {
    positions.set([read(x, point), read(y, point), read(z, point)], point * 3);
    if (colours) setColour(colours, point, view.getUint32(point * stride + (offsets[rgb] ?? 0), true));
  }
  return { count: header.points, positions, colours };
}

function readAscii(bytes: Uint8Array, header: Header, { x, y, z }: Axes): CloudPoints {
  const lines = new TextDecoder().decode(bytes.subarray(header.bytes)).split("\n");
  const rgb = header.fields.indexOf("rgb");
  const positions = new Float32Array(header.points * 3);
  const colours = rgb < 0 ? undefined : new Float32Array(header.points * 3);
  for (let point = 0; point < header.points; point++) {
    const words = (lines[point] ?? "").split(" ");
    if (words.length < header.fields.length) throw new Error("the point cloud is cut off");
    positions.set([Number(words[x]), Number(words[y]), Number(words[z])], point * 3);
    if (colours) setColour(colours, point, Number(words[rgb]));
  }
  return { count: header.points, positions, colours };
}

function setColour(colours: Float32Array, point: number, packed: number): void {
  colours.set([(packed >> 16 & 255) / 255, (packed >> 8 & 255) / 255, (packed & 255) / 255], point * 3);
}
