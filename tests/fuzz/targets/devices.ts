/** What devices on serial lines send: they may be broken, or something else than what was configured. */

import type { Device } from "../../../lib/base/host.ts";
import { RpLidarPort } from "../../../lib/device/rplidar.ts";
import { SerialLine } from "../../../lib/device/serial.ts";
import { bareDevice } from "../../support/bare_device.ts";
import { FakeClock } from "../../support/fake_clock.ts";
import { bytesOf, type Target, textIn } from "../target.ts";

const LINE_BYTES_MAX = 120;
/** Long enough for every answer of a lidar. */
const WAIT_MS = 500;

/** A device that sends these bytes in pieces, and then nothing; time passes only while it is silent. */
function deviceSending(bytes: Uint8Array, clock: FakeClock): Device {
  let at = 0;
  return bareDevice("/dev/fuzzed", {
    control: () => {},
    read: (count) => new Uint8Array(bytes.subarray(at, at += Math.min(count, 1 + at % 97))),
    write: (written) => written.length,
    readable: async () => {
      if (at < bytes.length) return true;
      await clock.advance(WAIT_MS);
      return false;
    },
  });
}

/** The first byte says what the lidar is asked for; the rest are its answers. */
async function readLidar(bytes: Uint8Array): Promise<void> {
  const clock = new FakeClock();
  const [first = 0] = bytes;
  const lidar = RpLidarPort.open(
    { openDevice: () => deviceSending(bytes.subarray(1), clock) },
    "/dev/fuzzed",
    115_200,
    clock,
  );
  try {
    if (first % 2 === 0) await lidar.start();
    else await lidar.identify();
    for (let turn = 0; turn < 100; turn++) {
      for (const { angleDeg, rangeMm } of await lidar.turns()) {
        const isPossible = angleDeg.length === rangeMm.length && rangeMm.every((one) => one >= 0);
        if (!isPossible) throw new Error("a turn that no lidar can make");
      }
    }
  } finally {
    lidar.close();
  }
}

async function readLines(bytes: Uint8Array): Promise<void> {
  const clock = new FakeClock();
  const open = { openDevice: () => deviceSending(bytes, clock) };
  const line = SerialLine.open(open, "/dev/fuzzed", 9600, LINE_BYTES_MAX);
  for (let tries = 0; tries < 100; tries++) {
    for (const text of await line.lines(WAIT_MS)) {
      if (text.length > LINE_BYTES_MAX || /[\r\n]/.test(text)) {
        throw new Error(`a wrong line: ${textIn(bytes)}`);
      }
    }
  }
  line.close();
}

const SCAN = [0xa5, 0x5a, 0x05, 0x00, 0x00, 0x40, 0x81];
/** Two turns of a node each, and the beginning of a third. */
const NODES = [0x3d, 0x01, 0x00, 0x40, 0x1f, 0x3d, 0x81, 0x20, 0x40, 0x1f, 0x3d, 0x01, 0x00, 0x00, 0x00];

export const DEVICES: readonly Target[] = [
  {
    name: "device/rplidar",
    covers: ["device/rplidar.ts"],
    samples: () => [
      Uint8Array.from([0, ...SCAN, ...NODES]),
      Uint8Array.from([0, 1, 2, 3, ...SCAN, 0xff, ...NODES]),
      Uint8Array.from([1, 0xa5, 0x5a, 0x14, 0x00, 0x00, 0x00, 0x04, ...new Array(20).fill(7)]),
      Uint8Array.from([1, 0xa5, 0x5a, 0x03, 0x00, 0x00, 0x00, 0x06, 2, 5, 0]),
    ],
    read: readLidar,
    refusals: ["unavailable"],
  },
  {
    name: "device/serial-lines",
    covers: ["device/serial.ts"],
    samples: () => [bytesOf("$GPGGA,1*00\r\n$GPRMC,2\rthree\n\n"), bytesOf("x".repeat(300))],
    read: readLines,
  },
];
