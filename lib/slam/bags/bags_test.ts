/**
 * The recordings are of one ride, written by the package rosbags (tests/data/slam/bags.py): a robot turns on the spot,
 * with a lidar that hangs upside down 20 cm ahead and takes 0.1 s to sweep.
 */

import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertLess,
  assertRejects,
  assertThrows,
} from "@std/assert";
import { McapWriter, TempBuffer } from "@mcap/core";
import { DatabaseSync } from "node:sqlite";
import { zstdCompressSync } from "node:zlib";
import { SvcError } from "../../base/error.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { randomFrom } from "../../geometry/random.ts";
import { replay } from "../evaluation/replay.ts";
import { Mapper } from "../mapper.ts";
import { MAPPER_DEFAULTS } from "../mapping.ts";
import { MirrorCheck } from "../mirror_check.ts";
import { wrapAngle } from "../pose2d.ts";
import { readBag } from "./bag_file.ts";
import { BagLog } from "./bag_log.ts";
import { readMcap } from "./mcap.ts";
import type { BagMessage } from "./messages.ts";
import { unpackLz4 } from "./lz4.ts";
import { CHUNK_BYTES_MAX, Unpacker } from "./unpacking.ts";

const host = new DenoHost();
const DATA = new URL("../../../tests/data/slam/", import.meta.url).pathname;
const BAGS = [`${DATA}turn_bz2.bag`, `${DATA}turn_lz4.bag`, `${DATA}turn`];
const MCAP = `${DATA}turn/turn.mcap`;
/** The robot turns at this rate for 10 of 12 seconds. */
const TURNED_RAD = 0.6 * 10;

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The messages of the MCAP file. */
async function messages(): Promise<BagMessage[]> {
  const read = readMcap(host.readPieces(MCAP), new Unpacker(), () => {});
  return (await Array.fromAsync(read)).map((one) => ({ ...one, data: one.data.slice() }));
}

Deno.test("bags of ROS 1 and 2 give the same ride, and its map needs no more than they say", async () => {
  const [first, ...others] = await Promise.all(BAGS.map((path) => readBag(host, path)));
  for (const other of others) assertEquals(other.log, first.log);
  const { log, hasOdometry, notes } = first;
  assertEquals([log.scans.length, log.odometry.length, hasOdometry], [59, 120, true]);
  assertEquals(notes, ["the lidar laser hangs upside down, as its transform says"]);
  const { lidar, sweepS, isUpsideDown } = log.scans[0].sensor!;
  assertEquals([lidar!.x, isUpsideDown], [0.2, true]);
  assertAlmostEquals(sweepS!, 0.1, 1e-6);
  assertEquals(log.scans[0].ranges[29], Infinity);
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS }), mirrors = new MirrorCheck();
  replay(log, mapper, { withOdometry: true, mirrors });
  const errorRad = wrapAngle(mapper.pose()!.yaw - TURNED_RAD);
  assertLess(Math.abs(errorRad) * 180 / Math.PI, 2);
  assertEquals(mirrors.isMirrored, false);
  // The same scans as those of a lidar that stands: mirrored, and noticed.
  const wrong = new MirrorCheck();
  const sensor = { isUpsideDown: false };
  replay(log, new Mapper({ mode: "create", options: MAPPER_DEFAULTS }), {
    withOdometry: true,
    mirrors: wrong,
    sensor,
  });
  assertEquals(wrong.isMirrored, true);
});

Deno.test("a rosbag2 in SQLite gives the same ride; a file with a view in place of its table is refused", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/ride.db3`, database = new DatabaseSync(path);
    database.exec(`CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
        serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);
      CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
        data BLOB NOT NULL); BEGIN`);
    const ids = new Map<string, number>();
    for (const { topic, type, loggedS, data } of await messages()) {
      if (!ids.has(topic)) {
        ids.set(topic, ids.size + 1);
        database.prepare("INSERT INTO topics VALUES (?, ?, ?, 'cdr', '')")
          .run(ids.size, topic, type.replace("/", "/msg/"));
      }
      database.prepare("INSERT INTO messages VALUES (NULL, ?, ?, ?)")
        .run(ids.get(topic)!, BigInt(Math.round(loggedS * 1e6)) * 1000n, data);
    }
    database.exec("COMMIT");
    database.close();
    assertEquals((await readBag(host, path)).log, (await readBag(host, MCAP)).log);
    // The folder of a recording, as `ros2 bag record` leaves it.
    assertEquals((await readBag(host, folder)).log.scans.length, 59);
    const bad = new DatabaseSync(`${folder}/bad.db3`);
    bad.exec("CREATE TABLE topics(id, name, type, serialization_format); CREATE VIEW messages AS SELECT 1");
    bad.close();
    await assertRejects(() => readBag(host, `${folder}/bad.db3`), SvcError, 'no table "messages"');
    await Deno.writeTextFile(`${folder}/text.db3`, "this is no database, however long it is".repeat(100));
    await assertRejects(() => readBag(host, `${folder}/text.db3`), SvcError, "cannot be read");
  });
});

Deno.test("scans with several echoes a beam count by the first; a beam without any has no return", async () => {
  const single = new BagLog({}), several = new BagLog({});
  for (const one of await messages()) {
    single.add(one);
    several.add(one.type === "sensor_msgs/LaserScan" ? withEchoes(one) : one);
  }
  assertEquals(several.finish().log, single.finish().log);
});

/** The scan with one echo or two for each beam, none for a beam without a return, and no intensities. */
function withEchoes(message: BagMessage): BagMessage {
  const view = new DataView(message.data.buffer, message.data.byteOffset, message.data.byteLength);
  // Behind the encapsulation, the stamp, the name of the frame and seven numbers, each at a multiple of four.
  const at = 4 + 4 * Math.ceil((8 + 4 + view.getUint32(12, true)) / 4) + 7 * 4;
  const count = view.getUint32(at, true), words: DataView[] = [];
  const write = (set: "setUint32" | "setFloat32", value: number) => {
    const word = new DataView(new ArrayBuffer(4));
    word[set](0, value, true);
    words.push(word);
  };
  for (let beam = 0; beam < count; beam++) {
    const range = view.getFloat32(at + 4 + 4 * beam, true);
    const echoes = [range, range + 1].slice(0, Number.isFinite(range) ? 1 + beam % 2 : 0);
    write("setUint32", echoes.length);
    for (const echo of echoes) write("setFloat32", echo);
  }
  write("setUint32", 0);
  const rest = words.map((word) => new Uint8Array(word.buffer));
  const data = Uint8Array.from([...message.data.subarray(0, at + 4), ...rest.flatMap((word) => [...word])]);
  return { ...message, type: "sensor_msgs/MultiEchoLaserScan", data };
}

Deno.test("a clock that does not agree with the recorder's is corrected; messages that are recorded late are not", async () => {
  const ride = await messages(), halfS = ride[ride.length >> 1].loggedS;
  const logOf = (change: (message: BagMessage) => BagMessage) => {
    const log = new BagLog({});
    for (const one of ride) log.add(change(one));
    return log.finish();
  };
  /** The message as its sender stamps it: that many seconds ahead of the recorder. */
  const stamped = (message: BagMessage, aheadS: number) => {
    const data = message.data.slice(), view = new DataView(data.buffer);
    view.setInt32(4, view.getInt32(4, true) + aheadS, true);
    return { ...message, data };
  };
  const { log: right, notes: usual } = logOf((one) => one);
  const sinceBootS = Math.floor(right.scans[0].timeS) - 5;
  const isScan = ({ type }: BagMessage) => type === "sensor_msgs/LaserScan";
  const isOdometry = ({ type }: BagMessage) => type === "nav_msgs/Odometry";
  const cases: [what: string, offS: string, (message: BagMessage) => BagMessage][] = [
    ["the scans", `${sinceBootS}.0`, (one) => isScan(one) ? stamped(one, -sinceBootS) : one],
    ["the scans", "3.0", (one) => isScan(one) && one.loggedS > halfS ? stamped(one, -3) : one],
    ["the scans", "90.0", (one) => isOdometry(one) ? stamped(one, 90) : one],
  ];
  for (const [what, offS, change] of cases) {
    const { log, notes } = logOf(change);
    assertEquals(
      notes.filter((note) => !usual.includes(note)),
      [`the clock of ${what} is off by ${offS} s: the times of recording correct it`],
    );
    assertEquals([log.scans.length, log.odometry.length], [right.scans.length, right.odometry.length]);
    log.scans.forEach(({ odometry }, at) =>
      assertAlmostEquals(odometry.yaw, right.scans[at].odometry.yaw, 0.05)
    );
  }
  assertEquals(logOf((one) => ({ ...one, loggedS: Math.max(one.loggedS, halfS) })), {
    ...logOf((one) => one),
  });
});

/** An MCAP file with messages, in chunks packed as given. */
async function mcapOf(
  given: readonly BagMessage[],
  compressChunk?: (data: Uint8Array) => { compression: string; compressedData: Uint8Array },
): Promise<Uint8Array> {
  const buffer = new TempBuffer(),
    writer = new McapWriter({ writable: buffer, compressChunk, chunkSize: 4096 });
  await writer.start({ profile: "ros2", library: "test" });
  const channels = new Map<string, number>();
  for (const { topic, type, loggedS, data } of given) {
    if (!channels.has(topic)) {
      const name = type.replace("/", "/msg/"), schema = { name, encoding: "ros2msg", data: new Uint8Array() };
      const schemaId = await writer.registerSchema(schema);
      const channel = { schemaId, topic, messageEncoding: "cdr", metadata: new Map() };
      channels.set(topic, await writer.registerChannel(channel));
    }
    const logTime = BigInt(Math.round(loggedS * 1e9));
    await writer.addMessage({
      channelId: channels.get(topic)!,
      sequence: 0,
      logTime,
      publishTime: logTime,
      data,
    });
  }
  await writer.end();
  return buffer.get();
}

/** An LZ4 frame of stored blocks. */
function storedLz4(data: Uint8Array): Uint8Array {
  const frame = new Uint8Array(15 + data.length), view = new DataView(frame.buffer);
  view.setUint32(0, 0x184d2204, true);
  frame.set([0x60, 0x70, 0], 4);
  view.setUint32(7, (data.length | 0x80000000) >>> 0, true);
  frame.set(data, 11);
  return frame;
}

Deno.test("an MCAP file: plain, LZ4, cut off, without odometry, with two lidars", async () => {
  const all = await messages(), whole = await readBag(host, MCAP);
  await withFolder(async (folder) => {
    const path = `${folder}/ride.mcap`;
    const read = async (bytes: Uint8Array, topics = {}) => {
      await Deno.writeFile(path, bytes);
      return await readBag(host, path, topics);
    };
    assertEquals((await read(await mcapOf(all))).log, whole.log);
    const lz4 = (data: Uint8Array) => ({ compression: "lz4", compressedData: storedLz4(data) });
    assertEquals((await read(await mcapOf(all, lz4))).log, whole.log);
    const plain = await mcapOf(all);
    const cut = await read(plain.subarray(0, plain.length >> 1));
    assert(cut.log.scans.length > 10 && cut.log.scans.length < 59);
    assert(cut.notes.some((note) => note.includes("ends in the middle")));

    const scans = all.filter(({ type }) => type !== "nav_msgs/Odometry");
    const alone = await read(await mcapOf(scans));
    assertEquals(alone.hasOdometry, false);
    assert(alone.notes.some((note) => note.startsWith("there is no odometry")));

    const second = all.filter(({ topic }) => topic === "/scan").slice(0, 5)
      .map((one) => ({ ...one, topic: "/rear" }));
    const two = await mcapOf([...all, ...second]);
    const chosen = await read(two);
    assertEquals(chosen.log.scans.length, 59);
    assert(chosen.notes.includes("scans are those of /scan (59); there are others: /rear (5)"));
    assertEquals((await read(two, { scan: "/rear" })).log.scans.length, 5);
    await assertRejects(() => read(two, { scan: "/none" }), SvcError, "has no scans on the topic /none");

    const broken = all.map((one, n) => n % 50 === 7 ? { ...one, data: one.data.subarray(0, 9) } : one);
    const { notes } = await read(await mcapOf(broken));
    assert(
      notes.some((note) => /^\d damaged messages are left out; the first is a /.test(note)),
      notes.join(),
    );
    const ruined = all.map((one) => ({ ...one, data: one.data.subarray(0, 9) }));
    await assertRejects(async () => read(await mcapOf(ruined)), SvcError, "damaged messages of");
  });
});

Deno.test("damaged and hostile bags are refused or read in part; they never crash or grow", async () => {
  const random = randomFrom(5);
  await withFolder(async (folder) => {
    for (const source of [...BAGS.slice(0, 2), MCAP]) {
      const good = await Deno.readFile(source),
        path = `${folder}/bad${source.slice(source.lastIndexOf("."))}`;
      for (let round = 0; round < 25; round++) {
        const bad = good.slice(0, round % 3 === 0 ? Math.floor(good.length * random()) : good.length);
        for (let flip = 0; flip < round % 4; flip++) {
          bad[Math.floor(bad.length * random())] = Math.floor(256 * random());
        }
        await Deno.writeFile(path, bad);
        const outcome = await readBag(host, path).catch((error) => error);
        if (outcome instanceof SvcError) assertEquals(outcome.code, "invalid_argument", outcome.message);
        else assert(!(outcome instanceof Error), String(outcome));
      }
      await Deno.writeTextFile(path, "FLASER 2 1 1 0 0 0 0 0 0 1 host 1\n".repeat(20));
      await assertRejects(() => readBag(host, path), SvcError, "cannot be read");
      // Sizes of four gigabytes.
      const claims = good.slice();
      claims.fill(0xff, 13, 17);
      await Deno.writeFile(path, claims);
      await assertRejects(() => readBag(host, path), SvcError);
    }
  });
});

Deno.test("chunks: their size is checked before they are unpacked, and together they are a multiple of the file", () => {
  const zeros = new Uint8Array(1_000_000), packed = zstdCompressSync(zeros);
  assertEquals(new Unpacker().unpack("zstd", packed, zeros.length).length, zeros.length);
  for (const wrong of [999_999, 1_000_001]) assertThrows(() => new Unpacker().unpack("zstd", packed, wrong));
  for (const wrong of [CHUNK_BYTES_MAX + 1, -1, NaN, 2 ** 60]) {
    assertThrows(() => new Unpacker().unpack("zstd", packed, wrong), RangeError, "a chunk of");
  }
  assertThrows(() => new Unpacker().unpack("rar", packed, 10), RangeError, 'packed with "rar"');
  const bomb = new Unpacker(10_000_000);
  assertThrows(
    () => {
      for (let chunk = 0; chunk < 20; chunk++) {
        bomb.count(packed.length);
        bomb.unpack("zstd", packed, zeros.length);
      }
    },
    RangeError,
    "unpack to more than 200 times the size of the file",
  );
});

Deno.test("unpackLz4: a match may overlap itself, and nothing reaches beyond the data", () => {
  const frame = (block: readonly number[]) =>
    Uint8Array.of(4, 0x22, 0x4d, 0x18, 0x60, 0x70, 0, block.length, 0, 0, 0, ...block, 0, 0, 0, 0);
  const text = new TextDecoder().decode(unpackLz4(frame([0x26, 97, 98, 2, 0, 0x10, 99]), 20));
  assertEquals(text, "abababababababc".slice(0, 12) + "c");
  const wrong = [[0x26, 97, 98, 3, 0, 0], [0x26, 97, 98, 0, 0, 0], [0x2f, 97, 98, 2, 0, 255, 255], [0xf0], [
    0x26,
  ]];
  for (const block of wrong) assertThrows(() => unpackLz4(frame(block), 20), RangeError);
  assertThrows(() => unpackLz4(Uint8Array.of(1, 2, 3, 4), 20), RangeError, "no LZ4 frame");
  assertThrows(() => unpackLz4(frame([0x26, 97, 98, 2, 0, 0]), 4), RangeError);
});
