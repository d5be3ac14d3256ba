/**
 * The devices of the contract tests' machine.json, on a computer without them.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { PipedProcess, ProcessCommand } from "../../lib/base/process.ts";
import { FakeFfmpeg } from "./fake_ffmpeg.ts";
import { FakeGamepad, FakeGamepads } from "./fake_gamepad.ts";
import { FakeI2c, FakePins } from "./fake_pins.ts";
import { FakeRpLidar } from "./fake_rplidar.ts";
import { FakeVideo, FakeVideos } from "./fake_video.ts";

const LIDAR_PATH = "/dev/rplidar";

/** This machine, with devices that it may not have, and a shell that reads no files of its user. */
export class HostWithDevices extends DenoHost {
  readonly videos = new FakeVideos();
  readonly pins = new FakePins();
  readonly gamepads = new FakeGamepads();
  readonly #lidar: FakeRpLidar;
  readonly #stopFilming: () => void;

  constructor(clock: Clock) {
    super();
    this.#lidar = new FakeRpLidar(new DenoHost(), clock);
    this.#stopFilming = this.#film(clock);
    const chip = this.pins.chip("gpiochip0", "pins of the tests", 64);
    // A trigger on line 20 makes an echo of one metre on line 21.
    chip.onDriven = (offset, high) => {
      if (offset !== 20 || high) return;
      chip.pull(21, true, 1_000_000n);
      chip.pull(21, false, 6_882_353n);
    };
    const stick = [-32768, 32767] as const;
    this.gamepads.gamepads.set("/dev/input/event3", new FakeGamepad("Pad", [304], { 0: stick, 1: stick }));
    this.pins.spi.set("/dev/spidev0.0", () => new Uint8Array(3));
    this.pins.i2c.set("/dev/i2c-1 64", new FakeI2c());
    const imu = new FakeI2c();
    imu.bytes[0x75] = 0x68;
    this.pins.i2c.set("/dev/i2c-1 104", imu);
    const sentences = [
      "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47",
      "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A",
    ];
    this.pins.serial.set("/dev/ttyS9", () => `${sentences.join("\r\n")}\r\n`);
  }

  override env(name: string) {
    return name === "SHELL" ? "/bin/sh" : super.env(name);
  }

  override platform() {
    return { ...super.platform(), os: "linux" };
  }

  override openDevice(path: string) {
    if (path.startsWith("/dev/video")) return this.videos.openDevice(path);
    if (this.pins.has(path)) return this.pins.openDevice(path);
    if (path.startsWith("/dev/input/")) return this.gamepads.openDevice(path);
    // The lidar is behind a pseudo-terminal, which has another path in each run.
    return super.openDevice(path === LIDAR_PATH ? this.#lidar.path : path);
  }

  /** There is an ffmpeg, which gives one picture. */
  override pipe(command: ProcessCommand): PipedProcess {
    if (command.command !== "ffmpeg") return super.pipe(command);
    const process = new FakeFfmpeg(command);
    process.output.push(FakeFfmpeg.picture());
    return process;
  }

  override openPulses() {
    return this.pins.openPulses();
  }

  override async readFolder(path: string) {
    if (!path.startsWith("/dev")) return await super.readFolder(path);
    return [...await this.videos.readFolder(path), ...await this.pins.readFolder(path)];
  }

  override realPath(path: string) {
    return path.startsWith("/dev") ? this.videos.realPath(path) : super.realPath(path);
  }

  /** Ends the fake devices. */
  async close(): Promise<void> {
    this.#stopFilming();
    await this.#lidar.close();
  }

  /** Takes pictures until it is stopped. */
  #film(clock: Clock): () => void {
    const camera = this.videos.plug("/dev/video0", new FakeVideo(clock));
    let stop = () => {};
    const take = () => {
      camera.take();
      stop = clock.after(50, take);
    };
    take();
    return () => stop();
  }
}
