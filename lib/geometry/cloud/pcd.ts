/**
 * PCD files: the point cloud format that robots exchange.
 *
 * Reads every encoding (ascii, binary, binary_compressed) with fields of any order, size and type, and takes
 * x, y, z, rgb or rgba, label and time (seconds) from them. Writes the form that published clients read: `x y z` as
 * float32, `rgb` as one integer 0x00RRGGBB; published clients do not read a cloud with times. Numbers are little-endian, the byte order of every machine that runs this.
 *
 * A header is only a claim: the reader allocates nothing before it has checked that the data is long enough.
 */

import { SvcError } from "../../base/error.ts";
import { compressLzf, decompressLzf } from "./lzf.ts";
import { createCloud, type PointCloud } from "./point_cloud.ts";

const MAX_POINTS = 20_000_000;
const MAX_HEADER_BYTES = 4096;
const MAX_POINT_BYTES = 65_536;

const ENCODINGS = ["ascii", "binary", "binary_compressed"] as const;
export type PcdEncoding = typeof ENCODINGS[number];

interface Field {
  readonly name: string;
  /** `F4`, `U1` and so on. */
  readonly type: string;
  readonly size: number;
  readonly count: number;
  /** Position of its first value in a point: in bytes, and in values for ascii. */
  readonly byte: number;
  readonly value: number;
  readonly read: Read;
}

interface Header {
  readonly fields: readonly Field[];
  readonly width: number;
  readonly height: number;
  readonly points: number;
  readonly encoding: PcdEncoding;
  readonly pointBytes: number;
  readonly dataStart: number;
}

/** The name of fields that hold nothing but the place between others. */
const PADDING = "_";

type Read = (view: DataView, at: number) => number;

const READERS: { readonly [type: string]: Read } = {
  F4: (view, at) => view.getFloat32(at, true),
  F8: (view, at) => view.getFloat64(at, true),
  U1: (view, at) => view.getUint8(at),
  U2: (view, at) => view.getUint16(at, true),
  U4: (view, at) => view.getUint32(at, true),
  U8: (view, at) => Number(view.getBigUint64(at, true)),
  I1: (view, at) => view.getInt8(at),
  I2: (view, at) => view.getInt16(at, true),
  I4: (view, at) => view.getInt32(at, true),
  I8: (view, at) => Number(view.getBigInt64(at, true)),
};

/**
 * The cloud in a PCD file, with its grid and its missing points.
 *
 * @throws invalid_argument naming the problem, resource_exhausted for more than `maxPoints`
 */
export function readPcd(file: Uint8Array, { maxPoints = MAX_POINTS } = {}): PointCloud {
  const header = readHeader(file);
  if (header.points > maxPoints) {
    throw new SvcError(
      "resource_exhausted",
      `reading PCD: ${header.points} points, wanted at most ${maxPoints}`,
    );
  }

  const data = file.subarray(header.dataStart);
  const column = header.encoding === "ascii" ? asciiColumns(header, data) : binaryColumns(header, data);
  const placeColumn = (name: string) => {
    const field = header.fields.find((one) => one.name === name);
    if (field) return column(field, new Float32Array(header.points));
    const names = header.fields.map((one) => one.name).join(" ");
    throw invalid(`no field ${name} among ${names}, wanted x, y and z`);
  };
  const x = placeColumn("x"), y = placeColumn("y"), z = placeColumn("z");
  const colour = header.fields.find(({ name, size }) => (name === "rgb" || name === "rgba") && size === 4);
  const label = header.fields.find(({ name }) => name === "label");

  // Integers of this name are other programs' clocks.
  const time = header.fields.find(({ name, type }) => name === "time" && type.startsWith("F"));
  return createCloud({
    width: header.width,
    height: header.height,
    x,
    y,
    z,
    rgb: colour && column(colour, new Uint32Array(header.points)).map((word) => word & 0xffffff),
    label: label && column(label, new Uint32Array(header.points)),
    time: time && column(time, new Float32Array(header.points)),
  });
}

/** A PCD file of the cloud: x y z, then rgb, label and time if the cloud has them. */
export function writePcd(cloud: PointCloud, encoding: PcdEncoding = "binary"): Uint8Array<ArrayBuffer> {
  const { x, y, z, rgb, label, time, width, height } = cloud;
  const written = [
    { name: "x", type: "F", column: x },
    { name: "y", type: "F", column: y },
    { name: "z", type: "F", column: z },
    ...(rgb ? [{ name: "rgb", type: "I", column: rgb }] : []),
    ...(label ? [{ name: "label", type: "U", column: label }] : []),
    ...(time ? [{ name: "time", type: "F", column: time }] : []),
  ];
  const columns = written.map(({ column }) => column);
  const header = headerOf(written, { width, height, encoding });
  if (encoding === "ascii") return new TextEncoder().encode(header + asciiBody(columns));

  const body = encoding === "binary" ? interleaved(columns) : compressedBody(columns);
  const file = new Uint8Array(header.length + body.length);
  file.set(new TextEncoder().encode(header));
  file.set(body, header.length);

  return file;
}

/** The lines before the points, for fields of four bytes. */
function headerOf(
  fields: readonly { readonly name: string; readonly type: string }[],
  { width, height, encoding }: Pick<Header, "width" | "height" | "encoding">,
): string {
  return [
    "VERSION .7",
    `FIELDS ${fields.map(({ name }) => name).join(" ")}`,
    `SIZE ${fields.map(() => 4).join(" ")}`,
    `TYPE ${fields.map(({ type }) => type[0]).join(" ")}`,
    `COUNT ${fields.map(() => 1).join(" ")}`,
    `WIDTH ${width}`,
    `HEIGHT ${height}`,
    "VIEWPOINT 0 0 0 1 0 0 0",
    `POINTS ${width * height}`,
    `DATA ${encoding}`,
    "",
  ].join("\n");
}

/**
 * A file of the form that published clients read, with the points of `file`: `file` itself if it has that form, for a
 * large one takes a tenth of a second to be read and written.
 *
 * @throws as `readPcd`
 */
export function publishedPcd(file: Uint8Array): Uint8Array {
  return hasPublishedForm(file) ? file : writePcd(readPcd(file));
}

const PUBLISHED_FIELDS = ["x F4", "y F4", "z F4", "rgb I4"];

/** Whether `writePcd` would write the same bytes for the points in the file. */
function hasPublishedForm(file: Uint8Array): boolean {
  const header = readHeader(file);
  const { fields, points, encoding, pointBytes, dataStart } = header;
  const isKnown = fields.length >= 3 && points <= MAX_POINTS && encoding === "binary" &&
    fields.every(({ name, type, count }, n) => `${name} ${type}` === PUBLISHED_FIELDS[n] && count === 1);
  if (!isKnown || file.length !== dataStart + points * pointBytes) return false;
  const written = new TextEncoder().encode(headerOf(fields, header));
  if (written.length !== dataStart || written.some((byte, at) => file[at] !== byte)) return false;

  // The highest byte of a colour is nothing that the written form has.
  const [, , , rgb] = fields;
  if (!rgb) return true;
  for (let at = dataStart + rgb.byte + 3; at < file.length; at += pointBytes) {
    if (file[at] !== 0) return false;
  }
  return true;
}

function readHeader(file: Uint8Array): Header {
  const start = new TextDecoder("latin1").decode(file.subarray(0, MAX_HEADER_BYTES));
  const entries = new Map<string, readonly string[]>();
  let at = 0;
  while (!entries.has("DATA")) {
    const end = start.indexOf("\n", at);
    if (end < 0) throw invalid(`no DATA line in the first ${start.length} bytes, wanted a PCD header`);
    const [key = "", ...values] = start.slice(at, end).trim().split(/\s+/);
    at = end + 1;
    if (key === "" || key.startsWith("#")) continue;
    if (!/^[A-Z]{2,16}$/.test(key)) {
      throw invalid(`found ${JSON.stringify(key.slice(0, 20))}, wanted a PCD header`);
    }
    entries.set(key === "COLUMNS" ? "FIELDS" : key, values);
  }

  const fields = readFields(entries);
  const pointBytes = fields.reduce((sum, { size, count }) => sum + size * count, 0);
  if (pointBytes > MAX_POINT_BYTES) {
    throw invalid(`points of ${pointBytes} bytes, wanted at most ${MAX_POINT_BYTES}`);
  }

  const [width, height] = [count(entries, "WIDTH"), count(entries, "HEIGHT")];
  const points = entries.has("POINTS") ? count(entries, "POINTS") : width * height;
  if (points !== width * height) {
    throw invalid(`POINTS ${points}, wanted WIDTH ${width} times HEIGHT ${height}`);
  }

  const encoding = ENCODINGS.find((known) => known === entries.get("DATA")?.[0]);
  if (!encoding) throw invalid(`DATA ${entries.get("DATA")?.[0] ?? ""}, wanted ${ENCODINGS.join(", ")}`);

  return { fields, width, height, points, encoding, pointBytes, dataStart: at };
}

function readFields(entries: ReadonlyMap<string, readonly string[]>): Field[] {
  const names = entries.get("FIELDS") ?? [];
  const [sizes, types] = [entries.get("SIZE") ?? [], entries.get("TYPE") ?? []];
  const counts = entries.get("COUNT") ?? names.map(() => "1");
  if (names.length === 0) throw invalid("no FIELDS");

  for (const [key, values] of Object.entries({ SIZE: sizes, TYPE: types, COUNT: counts })) {
    if (values.length === names.length) continue;
    throw invalid(`${values.length} values of ${key} for ${names.length} fields`);
  }

  let [byte, value] = [0, 0];
  return names.map((name, index) => {
    const type = `${types[index]}${sizes[index]}`;
    const [size, times] = [Number(sizes[index]), Number(counts[index])];
    const read = Object.hasOwn(READERS, type) ? READERS[type] : undefined;
    if (!read) {
      throw invalid(
        `field ${name} of TYPE ${types[index]} and SIZE ${sizes[index]}, wanted F 4 8, I or U 1 2 4 8`,
      );
    }
    // Recorders of lidars also write the gaps of no bytes between the members of their points.
    if (!Number.isInteger(times) || times < (name === PADDING ? 0 : 1)) {
      throw invalid(`field ${name} of COUNT ${counts[index]}`);
    }
    const field = { name, type, size, count: times, byte, value, read };
    byte += size * times;
    value += times;
    return field;
  });
}

function count(entries: ReadonlyMap<string, readonly string[]>, key: string): number {
  const written = entries.get(key)?.[0] ?? "";
  if (/^\d{1,9}$/.test(written)) return Number(written);
  throw invalid(`${key} ${written}, wanted a number of points`);
}

type Columns = <C extends Float32Array | Uint32Array>(field: Field, into: C) => C;

/** The values of point after point, or (compressed) of field after field. */
function binaryColumns(header: Header, data: Uint8Array): Columns {
  const { points, pointBytes } = header;
  const byField = header.encoding === "binary_compressed";
  const body = byField ? decompressed(header, data) : data;
  const wanted = points * pointBytes;
  if (body.length < wanted) throw truncated(points, Math.floor(body.length / pointBytes));
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  return (field, into) => {
    const step = byField ? field.size * field.count : pointBytes;
    const read: Read = isWord(field) ? (view, at) => view.getUint32(at, true) : field.read;
    let at = byField ? field.byte * points : field.byte;
    for (let n = 0; n < points; n++, at += step) into[n] = read(view, at);
    return into;
  };
}

function decompressed({ points, pointBytes }: Header, data: Uint8Array): Uint8Array {
  if (points === 0) return new Uint8Array(0);
  if (data.length < 8) throw invalid("compressed data without its sizes");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const [packed, size] = [view.getUint32(0, true), view.getUint32(4, true)];
  if (packed > data.length - 8) {
    throw invalid(`${packed} compressed bytes declared, found ${data.length - 8}`);
  }
  if (size !== points * pointBytes) {
    throw invalid(`${size} bytes when decompressed, wanted ${points} points of ${pointBytes} bytes`);
  }
  const body = data.subarray(8, 8 + packed);
  if (packed !== size) return decompressLzf(body, size);

  // Some programs leave data as it is that compression would not make smaller.
  try {
    return decompressLzf(body, size);
  } catch {
    return body;
  }
}

/** One line a point. Keeps only the values of the requested fields. */
function asciiColumns({ points, fields }: Header, data: Uint8Array): Columns {
  // The shortest point has one digit and one line end for each value.
  const perPoint = fields.reduce((sum, field) => sum + field.count, 0);
  if (points * perPoint * 2 > data.length + 1) throw truncated(points, undefined);
  const lines = new TextDecoder("latin1").decode(data).split("\n").filter((line) => line.trim() !== "");
  if (lines.length < points) throw truncated(points, lines.length);

  const rows = lines.slice(0, points).map((line, point) => {
    const values = line.trim().split(/\s+/);
    if (values.length === perPoint) return values;
    throw invalid(`point ${point} has ${values.length} values, wanted ${perPoint}`);
  });
  return (field, into) => {
    const bits = new DataView(new ArrayBuffer(4));
    for (const [point, row] of rows.entries()) {
      const value = asciiNumber(row[field.value] ?? "", field, point);
      if (isWord(field) && field.type === "F4") {
        bits.setFloat32(0, value);
        into[point] = bits.getUint32(0);
      } else {
        into[point] = value;
      }
    }
    return into;
  };
}

function asciiNumber(written: string, { name }: Field, point: number): number {
  const value = Number(written);
  if (!Number.isNaN(value)) return value;
  const special = /^([+-]?)(?:(nan)|inf(?:inity)?)/i.exec(written);
  if (!special) {
    throw invalid(`${name} of point ${point} is ${JSON.stringify(written.slice(0, 20))}, wanted a number`);
  }
  if (special[2]) return NaN;
  return special[1] === "-" ? -Infinity : Infinity;
}

/** Colours are four bytes, whatever type the header gives; many files call them a float. */
function isWord({ name }: Field): boolean {
  return name === "rgb" || name === "rgba";
}

function asciiBody(columns: readonly (Float32Array | Uint32Array)[]): string {
  const lines: string[] = [];
  for (let n = 0; n < rowsOf(columns); n++) {
    lines.push(columns.map((column) => Number.isNaN(column[n]) ? "nan" : shortest(column, n)).join(" "));
  }
  return lines.length === 0 ? "" : `${lines.join("\n")}\n`;
}

/** Nine digits distinguish every float32 from its neighbours. */
function shortest(column: Float32Array | Uint32Array, n: number): string {
  const value = column[n] ?? NaN;
  return column instanceof Float32Array ? String(Number(value.toPrecision(9))) : String(value);
}

/** The length of the columns, which all have the same. */
function rowsOf([first]: readonly (Float32Array | Uint32Array)[]): number {
  return first?.length ?? 0;
}

function interleaved(columns: readonly (Float32Array | Uint32Array)[]): Uint8Array {
  const [step, points] = [columns.length, rowsOf(columns)];
  const floats = new Float32Array(points * step);
  const words = new Uint32Array(floats.buffer);
  for (const [index, column] of columns.entries()) {
    const into = column instanceof Float32Array ? floats : words;
    for (let n = 0, to = index; n < points; n++, to += step) into[to] = column[n] ?? 0;
  }
  return new Uint8Array(floats.buffer);
}

function compressedBody(columns: readonly (Float32Array | Uint32Array)[]): Uint8Array {
  const bytes = new Uint8Array(columns.length * rowsOf(columns) * 4);
  for (const [index, column] of columns.entries()) {
    bytes.set(new Uint8Array(column.buffer, column.byteOffset, column.byteLength), index * column.byteLength);
  }
  const packed = compressLzf(bytes);
  const body = new Uint8Array(8 + packed.length);
  new DataView(body.buffer).setUint32(0, packed.length, true);
  new DataView(body.buffer).setUint32(4, bytes.length, true);
  body.set(packed, 8);
  return body;
}

function truncated(points: number, found: number | undefined): SvcError {
  return invalid(
    `${points} points declared, found ${found === undefined ? "data too short for them" : found}`,
  );
}

function invalid(found: string): SvcError {
  return new SvcError("invalid_argument", `reading PCD: ${found}`);
}
