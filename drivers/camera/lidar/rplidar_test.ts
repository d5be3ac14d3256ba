import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { type Clock, SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { DenoHost } from "../../../lib/base/host_deno.ts";
import type { LogRecord } from "../../../lib/base/log/log.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import { readPcd } from "../../../lib/geometry/cloud/pcd.ts";
import { RpLidarPort as RpLidarDevice } from "../../../lib/device/rplidar.ts";
import { bareDevice } from "../../../tests/support/bare_device.ts";
import { construct, problemsOf } from "../../../tests/support/construct.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeRpLidar } from "../../../tests/support/fake_rplidar.ts";
import { assertRefused } from "../../../tests/support/refusals.ts";
import { until } from "../../../tests/support/until.ts";
import { RpLidar } from "./rplidar.ts";

const clock = new SystemClock();
const linux = { ignore: Deno.build.os !== "linux" };

/** Runs `work` with a lidar behind a pseudo-terminal. */
async function withLidar(work: (lidar: FakeRpLidar) => Promise<void>): Promise<void> {
  const lidar = new FakeRpLidar(new DenoHost(), clock);
  try {
    await work(lidar);
  } finally {
    await lidar.close();
  }
}

Deno.test("rplidar: the serial line of another component is refused", linux, async () => {
  await withLidar(async (fake) => {
    const host = new DenoHost();
    const device = host.openDevice(fake.path);
    assert(device.lock());
    const construction = () => construct(RpLidar, { device_path: fake.path }, { clock, host });
    await assertRejects(construction, SvcError, "another component or program uses");
    device.close();
    const lidar = await construction();
    await lidar.getPointCloud();
    await lidar.close();
  });
});

Deno.test(
  "rplidar: a turn over a pseudo-terminal is clockwise and omits near and missing returns",
  linux,
  async () => {
    await withLidar(async (fake) => {
      const rangesMm = new Map([[90, 3000], [180, 0], [270, 100]]);
      fake.rangeMm = (angleDeg) => rangesMm.get(angleDeg) ?? 2000;
      const logged: LogRecord[] = [];
      const lidar = await construct(RpLidar, { device_path: fake.path }, { clock, logged });
      try {
        const { x, y } = readPcd(await lidar.getPointCloud());
        assertEquals(x.length, 118);
        assertAlmostEquals(x[0], 2, 1e-3);
        // A quarter clockwise from ahead is to the right.
        const right = x.findIndex((one, n) => Math.abs(one) < 1e-3 && y[n] < 0);
        assertAlmostEquals(y[right], -3, 1e-3);
        assert(logged.some(({ message }) => message.includes("model 24, firmware 1.29, health good")));
        assertEquals((await lidar.getImages()).images.length, 1);
        assertEquals(readPcd(await lidar.getPointCloud()).time, undefined);
        const offsetsS = readPcd(await lidar.getPointCloud({ withTimes: true })).time!;
        // The first point is about a turn older than the last, and all are of the past.
        assert(offsetsS.every((one, n) => one <= 0 && (n === 0 || one >= offsetsS[n - 1])));
        assert(offsetsS.at(-1)! - offsetsS[0] > 0.04, `${offsetsS.at(-1)! - offsetsS[0]}`);
      } finally {
        await lidar.close();
      }
      // Asked to stop, told who it is and how it is, motor and scan; at the end stopped, with the motor off.
      await until(() => fake.requests.length === 7);
      assertEquals(fake.requests, [0x25, 0x50, 0x52, 0xf0, 0x20, 0x25, 0xf0]);
    });
  },
);

Deno.test("rplidar: noise bytes between the measurements are skipped", linux, async () => {
  await withLidar(async (fake) => {
    fake.noise = [0xff, 0x00, 0x13];
    const lidar = await construct(RpLidar, { device_path: fake.path }, { clock });
    try {
      for (let turn = 0; turn < 3; turn++) {
        const { x, y } = readPcd(await lidar.getPointCloud());
        const right = Array.from(x, (one, n) => Math.abs(Math.hypot(one, y[n]) - 2) < 0.01).filter((one) =>
          one
        );
        assert(right.length >= 115, `${right.length}`);
      }
    } finally {
      await lidar.close();
    }
  });
});

Deno.test(
  "rplidar: a broken, silent or missing lidar is refused with advice",
  linux,
  async () => {
    await withLidar(async (fake) => {
      fake.health = 2;
      await assertRejects(
        () => construct(RpLidar, { device_path: fake.path }, { clock }),
        SvcError,
        `cannot use ${fake.path}: the lidar says that it is broken (5)`,
      );
      fake.isSilent = true;
      const error = await assertRejects(
        () => construct(RpLidar, { device_path: fake.path }, { clock }),
        SvcError,
        "is it a lidar, and its rate right?",
      );
      assertEquals(error.code, "unavailable");
    });
    await assertRejects(
      () => construct(RpLidar, { device_path: "/dev/none" }, { clock }),
      SvcError,
      "/dev/none",
    );
    assertEquals(problemsOf(RpLidar, { baud_rate: 5, min_range_mm: -1 }).map((one) => one.split(":")[0]), [
      "baud_rate",
      "min_range_mm",
    ]);
  },
);

/** A serial device that takes every request and sends these bytes. */
function openSending(read: () => Uint8Array<ArrayBuffer>, readable: () => Promise<boolean>, clock: Clock) {
  const [control, write] = [() => {}, (bytes: Uint8Array) => bytes.length];
  const openDevice = (path: string) => bareDevice(path, { control, write, read, readable });
  return RpLidarDevice.open({ openDevice }, "/dev/noise", 115_200, clock);
}

Deno.test("rplidar: a device that never falls silent is given up", async () => {
  const time = new FakeClock();
  const readable = () => time.advance(1).then(() => true);
  const lidar = openSending(() => Uint8Array.of(0x24, 0x47), readable, time);
  await assertRejects(
    () => lidar.identify(),
    SvcError,
    "/dev/noise goes on sending although it was told to stop",
  );
  lidar.close();
});

Deno.test("rplidar: an unplugged lidar is looked for until it is back", linux, async () => {
  const folder = await Deno.makeTempDir(), path = `${folder}/lidar`;
  const plug = async () => {
    const fake = new FakeRpLidar(new DenoHost(), clock);
    await Deno.symlink(fake.path, path);
    return fake;
  };
  const first = await plug();
  const logged: LogRecord[] = [];
  const lidar = await construct(RpLidar, { device_path: path }, { clock, logged });
  const outcome = () => lidar.getPointCloud().then(() => "points", (error) => SvcError.from(error).message);
  try {
    assertEquals(await outcome(), "points");
    await first.close();
    await Deno.remove(path);
    await until(async () => /looking for it every \d+ s/.test(await outcome()));
    const second = await plug();
    await until(async () => await outcome() === "points");
    await lidar.close();
    await second.close();
    const changes = logged.map(({ message }) => /the lidar is (gone|back)/.exec(message)?.[1]).filter(
      Boolean,
    );
    assertEquals(changes, ["gone", "back"]);
  } finally {
    await lidar.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("rplidar: every turn is given once, also one that arrives in pieces", async () => {
  // A quarter of a turn each, 1 m away; the second bit is the opposite of the first one.
  const node = (quarter: number) => {
    const [angle, range] = [90 * quarter * 64, 1000 * 4];
    return [quarter === 0 ? 1 : 2, angle << 1 & 0xff | 1, angle >> 7, range & 0xff, range >> 8];
  };
  const turn = [0, 1, 2, 3].flatMap(node);
  const pieces = [[...turn, ...turn, ...turn.slice(0, 7)], turn.slice(7), turn];
  const read = () => Uint8Array.from(pieces.shift()!);
  const lidar = openSending(read, () => Promise.resolve(pieces.length > 0), clock);
  const found = [];
  while (pieces.length > 0) found.push(await lidar.turns());
  const one = { angleDeg: Float32Array.of(0, 90, 180, 270), rangeMm: new Float32Array(4).fill(1000) };
  assertEquals(found, [[one, one], [], [one]]);
  lidar.close();
});

Deno.test("rplidar: random bytes give only ranges and angles that the protocol allows", async () => {
  const random = randomFrom(11);
  let left = 400;
  const read = () =>
    Uint8Array.from({ length: 1 + Math.floor(500 * random()) }, () => Math.floor(256 * random()));
  const lidar = openSending(read, () => Promise.resolve(left-- > 0), clock);
  let turns = 0;
  while (left > 0) {
    for (const { angleDeg, rangeMm } of await lidar.turns()) {
      turns++;
      assertEquals(angleDeg.length, rangeMm.length);
      assert(
        angleDeg.every((one) => one >= 0 && one < 512) && rangeMm.every((one) => one >= 0 && one < 16_384),
      );
    }
  }
  assert(turns > 0);
  lidar.close();
});

Deno.test("rplidar: a lidar that is gone is closed all the same, and its device with it", () => {
  let closed = 0;
  const write = () => {
    throw new SvcError("unavailable", "/dev/lidar: Input/output error");
  };
  const device = bareDevice("/dev/lidar", { control: () => {}, write, close: () => void closed++ });
  RpLidarDevice.open({ openDevice: () => device }, "/dev/lidar", 115_200, clock).close();
  assertEquals(closed, 1);
});

Deno.test("rplidar: a lidar that is unplugged while it turns is gone", async () => {
  const lidar = openSending(() => new Uint8Array(), () => Promise.resolve(true), clock);
  await assertRefused("unavailable", "/dev/noise is gone", () => lidar.turns());
  lidar.close();
});
