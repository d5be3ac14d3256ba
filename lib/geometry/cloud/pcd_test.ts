import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { type PcdEncoding, publishedPcd, readPcd, writePcd } from "./pcd.ts";
import { boundingBox, createCloud, withoutMissing } from "./point_cloud.ts";
import { randomFrom } from "../random.ts";
import { type Needed, needingTest } from "../../../tests/support/needing.ts";

const SAMPLES = new URL("../../../../shared/data/depth/pcd/", import.meta.url);
const SEED = 5;

function bytes(text: string, ...data: number[]): Uint8Array {
  return Uint8Array.of(...new TextEncoder().encode(text), ...data);
}

function header(changes: Record<string, string> = {}): string {
  const lines = {
    VERSION: ".7",
    FIELDS: "x y z",
    SIZE: "4 4 4",
    TYPE: "F F F",
    COUNT: "1 1 1",
    WIDTH: "1",
    HEIGHT: "1",
    VIEWPOINT: "0 0 0 1 0 0 0",
    POINTS: "1",
    DATA: "ascii",
    ...changes,
  };
  return Object.entries(lines).filter(([, value]) => value).map(([key, value]) => `${key} ${value}\n`).join(
    "",
  );
}

/** Files from the sample folder, which not every checkout has beside it. */
function samples(...names: string[]): Needed<Uint8Array[]> {
  try {
    return { found: names.map((name) => Deno.readFileSync(new URL(name, SAMPLES))) };
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return { missing: `no samples ${names.join(", ")}: the folder shared/data is not beside this checkout` };
  }
}

Deno.test("writePcd: matches the published form byte for byte", () => {
  const [x, y, z] = [Float32Array.of(1), Float32Array.of(-2), Float32Array.of(0.5)];
  const wanted = bytes(header({ DATA: "binary" }), 0, 0, 128, 63, 0, 0, 0, 192, 0, 0, 0, 63);
  assertEquals(writePcd(createCloud({ x, y, z })), wanted);
  const colour = bytes(
    header({ FIELDS: "x y z rgb", SIZE: "4 4 4 4", TYPE: "F F F I", COUNT: "1 1 1 1", DATA: "binary" }),
    ...[0, 0, 128, 63, 0, 0, 0, 192, 0, 0, 0, 63],
    ...[3, 2, 1, 0],
  );
  assertEquals(writePcd(createCloud({ x, y, z, rgb: Uint32Array.of(0x010203) })), colour);
});

Deno.test("publishedPcd: a file of the published form stays, and any other one is written anew", () => {
  const [x, y, z] = [1, 2, 3].map((value) => Float32Array.of(value, NaN));
  const plain = createCloud({ width: 2, height: 1, x, y, z });
  const coloured = createCloud({ width: 1, height: 2, x, y, z, rgb: Uint32Array.of(0x102030, 7) });
  for (const cloud of [plain, coloured]) {
    const file = writePcd(cloud);
    assert(publishedPcd(file) === file);
    const others = [writePcd(cloud, "ascii"), writePcd(cloud, "binary_compressed"), bytes("", ...file, 0)];
    for (const other of others) assertEquals(publishedPcd(other), file);
    const commented = bytes("# by a lidar\n", ...file);
    assertEquals(publishedPcd(commented), file);
  }

  const file = writePcd(coloured);
  const transparent = file.slice();
  transparent[transparent.length - 1] = 0xff;
  assertEquals(publishedPcd(transparent), file);
  const labelled = createCloud({ width: 2, height: 1, x, y, z, label: Uint32Array.of(1, 2) });
  assertEquals(publishedPcd(writePcd(labelled)), writePcd(labelled));
  assertThrows(() => publishedPcd(file.subarray(0, file.length - 1)), SvcError);
});

Deno.test("PCD: every encoding keeps missing points and the grid", () => {
  const random = randomFrom(SEED);
  for (const [width, height] of [[0, 1], [1, 1], [7, 3], [640, 2]]) {
    const floats = () =>
      Float32Array.from({ length: width * height }, () => random() < 0.1 ? NaN : (random() - 0.5) * 9);
    const words = () => Uint32Array.from({ length: width * height }, () => random() * 2 ** 24);
    const plain = { width, height, x: floats(), y: floats(), z: floats() };
    for (const cloud of [plain, { ...plain, rgb: words() }, { ...plain, rgb: words(), label: words() }]) {
      for (const encoding of ["ascii", "binary", "binary_compressed"] as PcdEncoding[]) {
        const back = readPcd(writePcd(createCloud(cloud), encoding));
        assertEquals(back, createCloud(cloud), `seed ${SEED}, ${encoding}, ${width} x ${height}`);
      }
    }
  }
});

Deno.test("readPcd: reads fields of any order, size and type, with several values per field", () => {
  const mixed = header({
    FIELDS: "normal z _ intensity x label y",
    SIZE: "4 8 1 2 2 1 4",
    TYPE: "F F U U I U I",
    COUNT: "3 1 3 1 1 1 1",
    DATA: "binary",
  });
  const data = new DataView(new ArrayBuffer(34));
  data.setFloat64(12, -1.5, true);
  data.setInt16(25, -7, true);
  data.setUint8(27, 200);
  data.setInt32(28, 100_000, true);
  const cloud = readPcd(bytes(mixed, ...new Uint8Array(data.buffer)));
  assertEquals([cloud.x[0], cloud.y[0], cloud.z[0], cloud.label?.[0]], [-7, 100_000, -1.5, 200]);
  const written = readPcd(bytes(mixed.replace("binary", "ascii") + "1 2 3 -1.5 0 0 0 9 -7 200 1e5\n"));
  assertEquals(written, cloud);
});

Deno.test("readPcd: reads colours as float or integer bits, with or without alpha", () => {
  const colour = { FIELDS: "x y z rgb", SIZE: "4 4 4 4", COUNT: "1 1 1 1" };
  const float = new Float32Array(Uint32Array.of(0x00ff8040).buffer)[0];
  const rgb = (changes: Record<string, string>, tail: string) =>
    readPcd(bytes(header({ ...colour, ...changes }) + `0 0 0 ${tail}\n`)).rgb?.[0];
  assertEquals(rgb({ TYPE: "F F F F" }, String(float)), 0xff8040);
  assertEquals(rgb({ TYPE: "F F F U", FIELDS: "x y z rgba" }, String(0xff112233)), 0x112233);
  assertEquals(rgb({ TYPE: "F F F I" }, "-1"), 0xffffff);
  const binary = header({ ...colour, TYPE: "F F F F", DATA: "binary" });
  assertEquals(readPcd(bytes(binary, ...new Uint8Array(12), 3, 2, 1, 255)).rgb?.[0], 0x010203);
});

Deno.test("readPcd: reads compressed files whose data compression did not make smaller", () => {
  const stored = (size: number) => [size, 0, 0, 0, size, 0, 0, 0];
  const floats = (...values: number[]) => [...new Uint8Array(Float32Array.from(values).buffer)];
  const one = readPcd(bytes(header({ DATA: "binary_compressed" }), ...stored(12), ...floats(1.5, -2, 1e9)));
  assertEquals([...one.x, ...one.y, ...one.z], [1.5, -2, 1e9]);
  const two = header({ WIDTH: "2", POINTS: "2", DATA: "binary_compressed" });
  const cloud = readPcd(bytes(two, ...stored(24), ...floats(1, 2, 3, 4, 5, 6)));
  assertEquals([[...cloud.x], [...cloud.y], [...cloud.z]], [[1, 2], [3, 4], [5, 6]]);
});

Deno.test("readPcd: padding may have no bytes", () => {
  const lidar = header({
    FIELDS: "x y z _ intensity t reflectivity ring _ noise _ range _",
    SIZE: "4 4 4 1 4 4 2 1 1 2 1 4 1",
    TYPE: "F F F U F U U U U U U U U",
    COUNT: "1 1 1 4 1 1 1 1 0 1 0 1 15",
    WIDTH: "2",
    POINTS: "2",
    DATA: "binary",
  });
  const pointBytes = 48, data = new DataView(new ArrayBuffer(2 * pointBytes));
  for (const [n, value] of [1.5, -2, 3, 4, 5, -6.5].entries()) {
    data.setFloat32(n % 3 * 4 + (n < 3 ? 0 : pointBytes), value, true);
  }
  const cloud = readPcd(bytes(lidar, ...new Uint8Array(data.buffer)));
  assertEquals(
    [cloud.x, cloud.y, cloud.z],
    [[1.5, 4], [-2, 5], [3, -6.5]].map((one) => Float32Array.from(one)),
  );

  const gaps = { FIELDS: "_ x y _ z", SIZE: "8 4 4 1 4", TYPE: "F F F U F", COUNT: "0 1 1 0 1" };
  assertEquals([...readPcd(bytes(`${header(gaps)}1 2 3\n`)).z], [3]);
  const named = header({ ...gaps, FIELDS: "_ x y noise z" });
  assertThrows(() => readPcd(bytes(`${named}1 2 3\n`)), SvcError, "field noise of COUNT 0");
  const negative = header({ ...gaps, COUNT: "-1 1 1 0 1" });
  assertThrows(() => readPcd(bytes(`${negative}1 2 3\n`)), SvcError, "field _ of COUNT -1");
});

Deno.test("readPcd: reads headers with comments, old words, CRLF and without COUNT or POINTS", () => {
  const old =
    "# .PCD v.5\r\n\r\nVERSION .5\r\nCOLUMNS x y z\r\nSIZE 4 4 4\r\nTYPE F F F\r\nWIDTH 2\r\nHEIGHT 1\r\nDATA ascii\r\n";
  const cloud = readPcd(bytes(`${old}1 2 3\r\n nan -inf Infinity \r\n\r\n`));
  assertEquals([...cloud.x], [1, NaN]);
  assertEquals([...cloud.y], [2, -Infinity]);
  assertEquals([...cloud.z], [3, Infinity]);
});

Deno.test("readPcd: refuses hostile and broken files with the problem", () => {
  const many = { WIDTH: "999999999", POINTS: "999999999" };
  const million = { WIDTH: "1000000", POINTS: "1000000" };
  const cases: [Uint8Array, string][] = [
    [bytes(""), "no DATA line in the first 0 bytes"],
    [bytes("\x89PNG\r\n\x1a\n"), "wanted a PCD header"],
    [bytes("A".repeat(10_000)), "no DATA line in the first 4096 bytes"],
    [bytes(header({ FIELDS: "" })), "no FIELDS"],
    [bytes(header({ FIELDS: "x y" })), "3 values of SIZE for 2 fields"],
    [bytes(header({ SIZE: "4 4 3" })), "field z of TYPE F and SIZE 3"],
    [bytes(header({ SIZE: "4 4 -4" })), "field z of TYPE F and SIZE -4"],
    [bytes(header({ TYPE: "F F X" })), "field z of TYPE X and SIZE 4"],
    [bytes(header({ COUNT: "1 1 0" })), "field z of COUNT 0"],
    [bytes(header({ COUNT: "1 1 1e9" })), "wanted at most 65536"],
    [bytes(header({ FIELDS: "x y intensity" }) + "1 2 3\n"), "no field z among x y intensity"],
    [bytes(header({ WIDTH: "-1" })), "WIDTH -1, wanted a number of points"],
    [bytes(header({ WIDTH: "99999999999999999999" })), "wanted a number of points"],
    [bytes(header({ POINTS: "2" })), "POINTS 2, wanted WIDTH 1 times HEIGHT 1"],
    [bytes(header({ DATA: "zip" })), "DATA zip, wanted ascii, binary, binary_compressed"],
    [bytes(header(many)), "999999999 points, wanted at most 20000000"],
    [bytes(header(million) + "1 2 3\n"), "1000000 points declared, found data too short"],
    [bytes(header({ WIDTH: "2", POINTS: "2" }) + "1.000 2.0000 3.000\n"), "2 points declared, found 1"],
    [bytes(header() + "1.0 2.0\n"), "point 0 has 2 values, wanted 3"],
    [bytes(header() + "1.0 zwei 3\n"), 'y of point 0 is "zwei", wanted a number'],
    [bytes(header({ ...million, DATA: "binary" }), 1, 2, 3), "1000000 points declared, found 0"],
    [bytes(header({ DATA: "binary_compressed" }), 1), "compressed data without its sizes"],
    [
      bytes(header({ DATA: "binary_compressed" }), 9, 0, 0, 0, 12, 0, 0, 0, 1),
      "9 compressed bytes declared, found 1",
    ],
    [bytes(header({ DATA: "binary_compressed" }), 1, 0, 0, 0, 13, 0, 0, 0, 1), "13 bytes when decompressed"],
    [bytes(header({ DATA: "binary_compressed" }), 1, 0, 0, 0, 12, 0, 0, 0, 1), "decompressing LZF"],
    [
      bytes(header({ ...million, DATA: "binary_compressed" }), 1, 0, 0, 0, 0, 0x1b, 0xb7, 0, 1),
      "1 bytes cannot become 12000000",
    ],
  ];
  for (const [file, message] of cases) assertThrows(() => readPcd(file), SvcError, message);
  assertThrows(() => readPcd(bytes(header() + "1 2 3\n"), { maxPoints: 0 }), SvcError, "wanted at most 0");
});

Deno.test("readPcd: any cut or flipped byte is read or refused", () => {
  const random = randomFrom(SEED);
  const column = () => Float32Array.from({ length: 50 }, random);
  for (const encoding of ["ascii", "binary", "binary_compressed"] as PcdEncoding[]) {
    const good = writePcd(createCloud({ x: column(), y: column(), z: column() }), encoding);
    for (let i = 0; i < 600; i++) {
      const bad = i % 2 === 0 ? good.slice(0, random() * good.length) : good.slice();
      if (i % 2 === 1) bad[Math.floor(random() * bad.length)] = random() * 256;
      try {
        readPcd(bad);
      } catch (error) {
        assert(error instanceof SvcError, `seed ${SEED}, ${encoding}, step ${i}: ${error}`);
      }
    }
  }
});

const labelled = samples("mosd_test0_organised_lzf.pcd");

needingTest("readPcd: reads a real organised, compressed cloud with labels", labelled, ([file]) => {
  const cloud = readPcd(file);
  assertEquals([cloud.width, cloud.height], [640, 480]);
  const dense = withoutMissing(cloud);
  assertEquals(dense.x.length, 189_198);
  const counts = new Map<number, number>();
  for (const label of dense.label!) counts.set(label, (counts.get(label) ?? 0) + 1);
  assertEquals([counts.get(1), counts.get(20), counts.get(30)], [162_732, 16_630, 9836]);
  assertEquals(readPcd(writePcd(cloud, "binary_compressed")), cloud);
  assert(cloud.rgb!.some((word) => word !== 0));
});

const scenes = samples("pcl_milk_cartoon_all_small_clorox.pcd", "pcl_octants.pcd", "pcl_sac_plane_test.pcd");

needingTest(
  "readPcd: reads a real table scene and two small ascii files",
  scenes,
  ([table, octants, plane]) => {
    assertEquals(withoutMissing(readPcd(table)).x.length, 241_407);
    const eight = readPcd(octants);
    assertEquals([eight.x.length, eight.x[0], eight.y[0], eight.z[0]], [8, -9, -9, -9]);
    const box = boundingBox(readPcd(plane));
    assertEquals(box?.points, 3283);
    assertAlmostEquals(readPcd(plane).y[1], -0.028772, 1e-7);
  },
);
