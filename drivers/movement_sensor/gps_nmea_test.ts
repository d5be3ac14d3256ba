import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { FakePins } from "../../tests/support/fake_pins.ts";
import { GpsNmeaMovementSensor } from "./gps_nmea.ts";
import { type Fix, readSentence } from "./nmea.ts";

const GGA = "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47";
const RMC = "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A";
const PATH = "/dev/ttyAMA0";

/** A sentence with its sum. */
function sentence(body: string): string {
  const sum = [...body].reduce((total, one) => total ^ one.charCodeAt(0), 0);
  return `$${body}*${sum.toString(16).padStart(2, "0")}`;
}

Deno.test("readSentence() reads position, height, speed and course of NMEA examples", () => {
  const fix: Fix = { quality: 0 };
  assertEquals([readSentence(GGA, fix), readSentence(RMC, fix)], ["GGA", "RMC"]);
  assertAlmostEquals(fix.coordinate!.latitude, 48 + 7.038 / 60, 1e-9);
  assertAlmostEquals(fix.coordinate!.longitude, 11 + 31 / 60, 1e-9);
  assertEquals([fix.quality, fix.satellites, fix.hdop, fix.altitudeM, fix.courseDeg], [
    1,
    8,
    0.9,
    545.4,
    84.4,
  ]);
  assertAlmostEquals(fix.speedMetresPerSecond!, 22.4 * 0.514444, 1e-4);
  readSentence(sentence("GNGSA,A,3,04,05,,09,12,,,24,,,,,2.5,1.3,2.1"), fix);
  assertEquals(fix.vdop, 2.1);
  readSentence(sentence("GNGGA,1,3351.65,S,15112.20,W,2,05,1.5,10,M,,M,,"), fix);
  assert(fix.coordinate!.latitude < 0 && fix.coordinate!.longitude < 0);
  readSentence(sentence("GPGGA,123519,,,,,0,00,,,M,,M,,"), fix);
  assertEquals([fix.quality, fix.coordinate], [0, undefined]);
});

Deno.test("readSentence() ignores broken sentences and impossible coordinates", () => {
  const broken = [
    "",
    "$",
    GGA.replace("*47", "*48"),
    GGA.slice(0, 40),
    "$GPGGA\u0000*00",
    `${GGA}x`,
    `$${"A".repeat(5)},${"9".repeat(100)}*00`,
  ];
  for (const line of broken) {
    const fix: Fix = { quality: 0 };
    assertEquals([readSentence(line, fix), fix], [undefined, { quality: 0 }], line);
  }
  const fix: Fix = { quality: 0 };
  readSentence(sentence("GPGGA,1,9907.0,N,18131.0,E,1,08,0.9,5,M,,M,,"), fix);
  assertEquals(fix.coordinate, undefined, "there is no such place");
  readSentence(sentence("GPGGA,1,4871.0,N,01131.0,E,1,08,0.9,5,M,,M,,"), fix);
  assertEquals(fix.coordinate, undefined, "there are no 71 minutes");
});

Deno.test("gps-nmea: it joins pieces of sentences, reports silence and reopens its serial port", async () => {
  const pins = new FakePins();
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  let said = ["x".repeat(1000), `\r\n${GGA.slice(0, 20)}`, `${GGA.slice(20)}\r\n${RMC}\r\n`];
  pins.serial.set(PATH, () => said.shift() ?? "");
  const host = new FakeHost({ devices: pins });
  const attributes = { serial_attributes: { serial_path: PATH } };
  const gps = await construct(GpsNmeaMovementSensor, attributes, { host, clock, logged });
  await assertRejects(() => gps.getPosition(), SvcError, "has said nothing yet");
  await clock.advance(200);
  assertEquals((await gps.getPosition()).altitudeM, 545.4);
  assertAlmostEquals(
    (await gps.getLinearVelocity()).x,
    22.4 * 1852 / 3600 * Math.sin(84.4 * Math.PI / 180),
    1e-9,
  );
  assertEquals([await gps.getCompassHeading(), (await gps.getAccuracy()).positionHdop], [84.4, 0.9]);
  assertEquals((await gps.getReadings()).satellites_in_use, 8);
  pins.serial.delete(PATH);
  await clock.advance(6_000);
  const error = await assertRejects(() => gps.getPosition(), SvcError, "has been silent for 6 s");
  assert(error.message.includes("No such file or directory"), error.message);
  assertEquals(logged.filter(({ message }) => message.startsWith("lost the receiver")).length, 1);
  said = [`${GGA}\r\n`];
  pins.serial.set(PATH, () => said.shift() ?? "");
  await clock.advance(1_500);
  await gps.getPosition();
  await gps.close();
  assertEquals(pins.open, 0);
});
