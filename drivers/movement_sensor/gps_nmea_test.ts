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
    // Their sums fit, but fields were lost on the line.
    "$GPRMC,181536.000,A,5936.79K,D*3A",
    "$GPGGA,201019.00,3249.20458,N,1,-25.6,M,,*6A",
    sentence("GPGGA,123519,4807.038,N,1,08,0.9,545.4,M,46.9,M,,"),
    sentence("GPRMC,123519,A,4807.038,N,01131.000,E,022.4"),
    sentence("GPVTG,084.4,T,022.4,N,K"),
    sentence("GPGLL,4807.038,01131.000,E,123519,A,A"),
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

Deno.test("readSentence(): a damaged sentence whose sum fits leaves the last good values", () => {
  const fix: Fix = { quality: 0 };
  for (const line of [GGA, RMC]) readSentence(line, fix, 1000);
  const before = structuredClone(fix);
  readSentence("$GPRMC,181536.000,A,5936.79K,D*3A", fix, 1500);
  readSentence("$GPGGA,201019.00,3249.20458,N,1,-25.6,M,,*6A", fix, 1500);
  readSentence(sentence("GPGGA,123520,07.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,"), fix, 1500);
  readSentence(sentence("GPRMC,123520,A,4807.038,N,1131.000.0,E,022.4,084.4,230394,003.1,W"), fix, 1500);
  assertEquals(fix, before);
});

Deno.test("readSentence(): RMC, GLL and GNS alone give a position, VTG a speed", () => {
  const placed = (body: string): Fix => {
    const fix: Fix = { quality: 0 };
    readSentence(sentence(body), fix);
    return fix;
  };
  for (
    const body of [
      "GNRMC,123519.00,A,4807.038,N,01131.000,E,022.4,,230394,,",
      "GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W",
      "GPRMC,123519.00,A,4807.038,N,01131.000,E,0.00,,181207,0,A",
      "GPGLL,4807.038,N,01131.000,E,123519,A",
      "ECGLL,4807.038,N,01131.000,E,123519.00,A,D",
      "GNGNS,123519.00,4807.038,N,01131.000,E,AN,10,0.9,545.4,46.9,,,V",
    ]
  ) {
    const { latitude, longitude } = placed(body).coordinate ?? { latitude: 0, longitude: 0 };
    assertAlmostEquals(latitude, 48 + 7.038 / 60, 1e-9, body);
    assertAlmostEquals(longitude, 11 + 31 / 60, 1e-9, body);
  }
  assertEquals(placed("GNGNS,123519.00,4807.038,N,01131.000,E,AA,10,.9,545.4,46.9,,,V").altitudeM, 545.4);
  for (
    const body of [
      "GPRMC,123519.00,V,4807.038,N,01131.000,E,022.4,,230394,,,N",
      "GPGLL,4807.038,N,01131.000,E,123519,V",
      "GPGLL,4807.038,N,01131.000,E,123519,N,V",
      "GNGNS,123519.00,,,,,NNNN,00,,,,,",
    ]
  ) assertEquals(placed(body).coordinate, undefined, body);
  const moving = placed("GPVTG,084.4,T,,M,022.4,N,041.5,K,A");
  assertAlmostEquals(moving.speedMetresPerSecond!, 22.4 * 1852 / 3600, 1e-9);
  assertEquals(moving.courseDeg, 84.4);
  assertAlmostEquals(placed("GPVTG,084.4,T,,M,,N,036.0,K").speedMetresPerSecond!, 10, 1e-9);
  assertEquals(placed("GPVTG,,T,,M,,N,,K,N").speedMetresPerSecond, undefined);
});

Deno.test("readSentence(): GNS, RMC and GLL tell the quality of their position", () => {
  for (
    const [body, quality] of [
      ["GNGNS,123519.00,4807.038,N,01131.000,E,RNNN,10,0.9,545.4,46.9,,,V", 4],
      ["GNGNS,123519.00,4807.038,N,01131.000,E,AF,10,0.9,545.4,46.9,,,V", 5],
      ["GNGNS,123519.00,4807.038,N,01131.000,E,AN,10,0.9,545.4,46.9,,,V", 1],
      ["GNGNS,123519.00,,,,,NNNN,00,,,,,", 0],
      ["GNRMC,123519.00,A,4807.038,N,01131.000,E,022.4,,230394,,,D", 2],
      ["GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W", 1],
      ["GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,E", 1],
      ["GPRMC,123519,A,4807.038,S,01131.000,W,022.4,084.4,230394,003.1,E,", 1],
      ["GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,E,E", 6],
      ["GPGLL,4807.038,N,01131.000,E,123519,A", 1],
      ["GPGLL,4807.038,N,01131.000,E,123519,A,E", 6],
      ["GPGLL,4807.038,N,01131.000,E,123519,V", 0],
    ] as const
  ) {
    const fix: Fix = { quality: 0 };
    readSentence(sentence(body), fix);
    assertEquals([fix.quality, fix.coordinate !== undefined], [quality, quality > 0], body);
  }
});

Deno.test("readSentence(): the quality is that of the sentence that gives the position", () => {
  const fix: Fix = { quality: 0 };
  readSentence(sentence("GNGGA,1,4807.038,N,01131.000,E,4,05,1.5,10,M,,M,,"), fix, 1000);
  readSentence(sentence("GNRMC,1,A,4807.038,N,01131.000,E,022.4,,230394,,,A"), fix, 1500);
  assertEquals(fix.quality, 4);
  readSentence(sentence("GNRMC,4,A,4807.038,N,01131.000,E,022.4,,230394,,,A"), fix, 4000);
  assertEquals(fix.quality, 1);
});

Deno.test("readSentence() reads headings of two antennas and of compasses", () => {
  for (
    const [body, heading] of [
      ["GPHDT,271.5,T", 271.5],
      ["GNTHS,271.5,A", 271.5],
      ["PASHR,204132.320,014.71,T,+00.36,-00.80,-00.87,0.151,0.088,0.569,1,0", 14.71],
      ["PSAT,HPR,102030.00,122.00,-2.3,0.1,N", 122],
      ["PTNL,AVR,181059.6,-30.5,Yaw,+0.1,Tilt,,,12.575,3,1.4,16", 329.5],
      ["GNHPR,033114.00,150.6,0.4,1.0,4,20,1.0,0001", 150.6],
      ["SDHDG,229.8,,,1.3,E", 231.1],
      ["HCHDG,1.0,1.5,W,1.5,W", 358],
      ["GPHDT,,T", undefined],
      ["GPHDT,400,T", undefined],
      ["GNTHS,271.5,V", undefined],
      ["PASHR,POS,0,03,183530.00,2037.76012,N,08704.07373,W,058.48,,359.4", undefined],
      ["PSAT,GBS,1,2,3,4,5", undefined],
    ] as const
  ) {
    const fix: Fix = { quality: 0 };
    readSentence(sentence(body), fix);
    if (heading === undefined) assertEquals(fix.headingDeg, undefined, body);
    else assertAlmostEquals(fix.headingDeg!, heading, 1e-9, body);
  }
  const fix: Fix = { quality: 0 };
  readSentence(sentence("GPHDT,271.5,T"), fix, 0);
  readSentence(sentence("SDHDG,10.0,,,,"), fix, 500);
  assertEquals(fix.headingDeg, 271.5, "two antennas know better than a compass");
});

Deno.test("readSentence(): a sentence counts from its dollar sign, whatever stands before it", () => {
  for (
    const line of [
      `+GPSRD:${GGA}`,
      `\xb5b\x01\x07$\x00\x92${GGA}`,
      `${GGA.slice(0, 30)}${GGA}`,
      `${GGA}${RMC}`,
      `${GGA}\u0000\xb5b\x01`,
      ` ${GGA} `,
    ]
  ) {
    const fix: Fix = { quality: 0 };
    readSentence(line, fix);
    assertEquals(fix.altitudeM, 545.4, line);
  }
  const fix: Fix = { quality: 0 };
  readSentence(sentence("GNGGA,1,4134.4982122912,N,09345.0335184500,W,4,19,.9,-.5,M,-31.4,M,6.0,0002"), fix);
  assertAlmostEquals(fix.coordinate!.latitude, 41 + 34.4982122912 / 60, 1e-12);
  assertEquals([fix.hdop, fix.altitudeM, fix.quality], [0.9, -0.5, 4]);
});

Deno.test("readSentence(): the loss of the fix takes the position away, another system without a fix does not", () => {
  const fix: Fix = { quality: 0 };
  readSentence(GGA, fix, 0);
  readSentence(sentence("GLGGA,123519,,,,,0,00,,,M,,M,,"), fix, 100);
  readSentence(sentence("GPRMC,123519,V,,,,,,,230394,,,N"), fix, 200);
  assertEquals([fix.quality, fix.altitudeM], [1, 545.4]);
  readSentence(sentence("GPRMC,123519,A,4807.0,N,01131.0,E,022.4,084.4,230394,003.1,W"), fix, 300);
  assertAlmostEquals(fix.coordinate!.latitude, 48 + 7.038 / 60, 1e-9, "GGA is more precise");
  readSentence(sentence("GPGGA,123520,,,,,0,00,,,M,,M,,"), fix, 1000);
  assertEquals([fix.quality, fix.coordinate], [0, undefined]);
});

Deno.test("gps-nmea: readings leave out what the receiver does not know; one that stands keeps its course", async () => {
  const pins = new FakePins();
  const clock = new FakeClock();
  const still = "GNRMC,123519.00,A,4807.038,N,01131.000,E,0.0,,230394,,,A";
  let next = ["GPHDT,,T", "GPGSV,3,1,11,28,14,150,41", "GLGSV,2,1,07,28,14,150,41"];
  pins.serial.set(
    PATH,
    () => next.splice(0).map((body) => `\xb5b${"\x01".repeat(600)}${sentence(body)}\r\n`).join(""),
  );
  const host = new FakeHost({ devices: pins });
  const attributes = { serial_attributes: { serial_path: PATH } };
  const gps = await construct(GpsNmeaMovementSensor, attributes, { host, clock });
  await clock.advance(200);
  assertEquals(await gps.getReadings(), { fix: 0, satellites_in_use: 0, satellites_in_view: 18 });
  await assertRejects(() => gps.getPosition(), SvcError, "it has no fix yet");
  next = [still.replace("0.0,,", "5.0,90.0,")];
  await clock.advance(200);
  for (let second = 0; second < 10; second++) {
    next = [still];
    await clock.advance(1000);
  }
  const { compass, position } = await gps.getReadings();
  assertEquals(compass, 90);
  assertAlmostEquals((position as { lat: number }).lat, 48 + 7.038 / 60, 1e-9);
  next = ["GPHDT,12.5,T", still];
  await clock.advance(200);
  assertEquals(await gps.getCompassHeading(), 12.5);
  await gps.close();
});

Deno.test("gps-nmea: a speed without a course goes along the heading, not along an old one", async () => {
  const pins = new FakePins();
  const clock = new FakeClock();
  const still = "GNRMC,123519.00,A,4807.038,N,01131.000,E,5.0,,230394,,,A";
  let next: string[] = [];
  pins.serial.set(PATH, () => next.splice(0).map((body) => `${sentence(body)}\r\n`).join(""));
  const host = new FakeHost({ devices: pins });
  const gps = await construct(GpsNmeaMovementSensor, { serial_attributes: { serial_path: PATH } }, {
    ...{ host, clock },
  });
  const along = async (...bodies: string[]) => {
    next = bodies;
    await clock.advance(3_000);
    const { x, y } = await gps.getLinearVelocity();
    assertAlmostEquals(Math.hypot(x, y), 5 * 1852 / 3600, 1e-9);
    return Math.round(Math.atan2(x, y) * 180 / Math.PI);
  };
  assertEquals(await along("GPHDT,90.0,T", still), 90);
  assertEquals(await along(still), 0, "the heading is older than 5 s");
  assertEquals(await along("GPHDT,135.0,T", still), 135);
  // The receiver says that it lost the heading.
  assertEquals(await along("GPHDT,,T", still), 0);
  assertEquals(await along("GPHDT,135.0,T", still.replace("5.0,,", "5.0,45.0,")), 45);
  await gps.close();
});

Deno.test("gps-nmea: it joins pieces of sentences, reports silence and reopens its serial port", async () => {
  const pins = new FakePins();
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  let output = ["x".repeat(1000), `\r\n${GGA.slice(0, 20)}`, `${GGA.slice(20)}\r\n${RMC}\r\n`];
  pins.serial.set(PATH, () => output.shift() ?? "");
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
  const { positionHdop, positionVdop, positionNmeaGgaFix } = await gps.getAccuracy();
  assertEquals([positionHdop, positionVdop, positionNmeaGgaFix], [undefined, undefined, 0]);
  assertEquals(logged.filter(({ message }) => message.startsWith("lost the receiver")).length, 1);
  output = [`${GGA}\r\n`];
  pins.serial.set(PATH, () => output.shift() ?? "");
  await clock.advance(1_500);
  await gps.getPosition();
  const changes = logged.map(({ message }) => message.replace(/:.*/s, ""));
  assertEquals(changes, ["lost the receiver", "the receiver is back"]);
  await gps.close();
  assertEquals(pins.open, 0);
});

Deno.test("gps-nmea: of two sensors on one line the second says so, and has the line when the first is gone", async () => {
  const pins = new FakePins();
  const clock = new FakeClock();
  pins.serial.set(PATH, () => `${GGA}\r\n`);
  const host = new FakeHost({ devices: pins });
  const attributes = { serial_attributes: { serial_path: PATH } };
  const first = await construct(GpsNmeaMovementSensor, attributes, { host, clock });
  const construction = () => construct(GpsNmeaMovementSensor, attributes, { host, clock });
  await assertRejects(construction, SvcError, `another component or program uses ${PATH}`);
  await clock.advance(200);
  assertEquals((await first.getPosition()).altitudeM, 545.4);
  await first.close();
  const second = await construction();
  await clock.advance(200);
  assertEquals((await second.getPosition()).altitudeM, 545.4);
  await second.close();
  assertEquals(pins.open, 0);
});

Deno.test("gps-nmea: a receiver that is unplugged, which gives no error, is found again when it is back", async () => {
  const pins = new FakePins();
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  pins.serial.set(PATH, () => `${GGA}\r\n`);
  const host = new FakeHost({ devices: pins });
  const attributes = { serial_attributes: { serial_path: PATH } };
  const gps = await construct(GpsNmeaMovementSensor, attributes, { host, clock, logged });
  await clock.advance(1_000);
  await gps.getPosition();

  pins.unplugged.add(PATH);
  pins.serial.delete(PATH);
  await clock.advance(6_000);
  const error = await assertRejects(() => gps.getPosition(), SvcError, "has been silent for 6 s");
  assert(error.message.includes("No such file or directory"), error.message);
  assertEquals(logged.filter(({ message }) => message.startsWith("lost the receiver")).length, 1);

  pins.unplugged.delete(PATH);
  pins.serial.set(PATH, () => `${GGA}\r\n`);
  await clock.advance(1_500);
  await gps.getPosition();
  await gps.close();
  assertEquals(pins.open, 0);
});

Deno.test("gps-nmea: bytes that are no sentences, as at another baud rate, are told in place of silence", async () => {
  const pins = new FakePins();
  const clock = new FakeClock();
  let printed = "\u00fe\u0013x\u0001\r\u0080";
  pins.serial.set(PATH, () => printed);
  const host = new FakeHost({ devices: pins });
  const attributes = { serial_attributes: { serial_path: PATH } };
  const gps = await construct(GpsNmeaMovementSensor, attributes, { host, clock });
  await clock.advance(1_000);
  await assertRejects(
    () => gps.getPosition(),
    SvcError,
    "said nothing yet; it sends bytes without a known sentence",
  );
  printed = `${GGA}\r\n`;
  await clock.advance(1_000);
  await gps.getPosition();
  printed = "";
  await clock.advance(6_000);
  const { message } = await assertRejects(() => gps.getPosition(), SvcError, "silent for 6 s");
  assert(!message.includes("known sentence"), message);
  await gps.close();
});
