/**
 * Lidars of the RPLIDAR A series: their identity, their health and their scans, turn by turn.
 *
 * Requests and answers follow the published serial protocol. An answer begins with a descriptor. A turn is a stream of
 * nodes of five bytes with check bits, by which the reader resynchronizes after lost bytes. Numbers of control calls
 * are those of <asm-generic/ioctls.h>. Owns the device it opened.
 */

import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { Device, Devices } from "../base/host.ts";
import { openSerial } from "./serial.ts";

const CLEAR_MODEM_LINES = 0x5417;
const SET_MODEM_LINES = 0x5416;
const DATA_TERMINAL_READY = 0x2;

const REQUEST = { stop: 0x25, scan: 0x20, info: 0x50, health: 0x52, motor: 0xf0 } as const;
const START = 0xa5;
const ANSWER = 0x5a;
const DESCRIPTOR_BYTES = 7;
/** Types of answers, with the length of each. */
const ANSWERS = {
  info: { type: 0x04, bytes: 20 },
  health: { type: 0x06, bytes: 3 },
  scan: { type: 0x81, bytes: 5 },
} as const;
const HEALTH = ["good", "warning", "error"] as const;
/** The usual value of a motor's speed command, of at most 1023. */
const MOTOR_SPEED = 660;

const READ_BYTES = 4096;
const ANSWER_MS = 2_000;
/** Longest time that one wait blocks a thread, and that a close therefore takes. */
const WAIT_MS = 200;
/** Time after a stop in which data under way still arrives. */
const QUIET_MS = 50;
/** Limit of bytes skipped in search of an answer. */
const PASSED_MAX = 64 * 1024;
/** Above the nodes of a turn of any lidar of the series. */
const NODES_MAX = 16_384;

export interface LidarInfo {
  readonly model: number;
  /** `1.29` */
  readonly firmware: string;
  readonly hardware: number;
  readonly serialNumber: string;
  readonly health: typeof HEALTH[number];
  /** The lidar's own health code; 0 means healthy. */
  readonly healthCode: number;
}

/** The nodes of one turn: clockwise degrees from ahead, and millimetres; 0 is no return. */
export interface Turn {
  readonly angleDeg: Float32Array;
  readonly rangeMm: Float32Array;
}

export class RpLidarPort {
  #rest: Uint8Array<ArrayBuffer> = new Uint8Array();
  readonly #nodes = { angles: new Float32Array(NODES_MAX), ranges: new Float32Array(NODES_MAX), count: -1 };

  private constructor(private readonly device: Device, private readonly clock: Clock) {}

  /** Opens the serial device at a rate in bits per second. */
  static open(host: Devices, path: string, baud: number, clock: Clock): RpLidarPort {
    return new RpLidarPort(openSerial(host, path, baud), clock);
  }

  /** Stops the lidar's present activity, and identifies it. Throws `unavailable` for a device that does not answer. */
  async identify(): Promise<LidarInfo> {
    this.#send(REQUEST.stop);
    await this.#quiet();
    this.#send(REQUEST.info);
    const info = await this.#answer("info");
    const [model = 0, minor = 0, major = 0, hardware = 0] = info;
    this.#send(REQUEST.health);
    const [state = -1, codeLow = 0, codeHigh = 0] = await this.#answer("health");
    return {
      model,
      firmware: `${major}.${String(minor).padStart(2, "0")}`,
      hardware,
      serialNumber: Array.from(info.subarray(4), (byte) => byte.toString(16).padStart(2, "0")).join(""),
      health: HEALTH[state] ?? "error",
      healthCode: codeLow | codeHigh << 8,
    };
  }

  /** Starts the motor and the measurement. */
  async start(): Promise<void> {
    // Motors of the A1 turn while this line is off; later models take a speed command.
    this.#setModemLine(CLEAR_MODEM_LINES);
    this.#send(REQUEST.motor, [MOTOR_SPEED & 0xff, MOTOR_SPEED >> 8]);
    this.#send(REQUEST.scan);
    await this.#descriptor("scan");
    this.#nodes.count = -1;
  }

  /** The turns that ended within a short time, the newest last. Throws when the lidar is gone. */
  async turns(): Promise<Turn[]> {
    if (!await this.device.readable(WAIT_MS)) return [];
    this.#fill();

    const turns: Turn[] = [];
    let at = 0;
    const { bytes } = ANSWERS.scan;
    while (at + bytes <= this.#rest.length) {
      const node = this.#rest.subarray(at, at + bytes);
      if (!isNode(node)) {
        at++;
        continue;
      }
      at += bytes;
      const turn = this.#take(node);
      if (turn) turns.push(turn);
    }

    this.#rest = this.#rest.slice(at);
    return turns;
  }

  /** Stops the motor. Idempotent; ignores that a lidar is gone. */
  close(): void {
    try {
      this.#send(REQUEST.stop);
      this.#send(REQUEST.motor, [0, 0]);
      this.#setModemLine(SET_MODEM_LINES);
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
    } finally {
      this.device.close();
    }
  }

  /** Adds a node; returns the previous turn if the node begins the next one. */
  #take(node: Uint8Array): Turn | undefined {
    const nodes = this.#nodes;
    const [start = 0, angleLow = 0, angleHigh = 0, rangeLow = 0, rangeHigh = 0] = node;
    const isFirst = (start & 1) === 1;
    const ended = isFirst && nodes.count > 0
      ? { angleDeg: nodes.angles.slice(0, nodes.count), rangeMm: nodes.ranges.slice(0, nodes.count) }
      : undefined;
    if (isFirst) nodes.count = 0;
    // Nodes before the first beginning of a turn, and in a turn without an end, are dropped.
    if (nodes.count < 0 || nodes.count === NODES_MAX) return ended;
    nodes.angles[nodes.count] = (angleLow >> 1 | angleHigh << 7) / 64;
    nodes.ranges[nodes.count++] = (rangeLow | rangeHigh << 8) / 4;
    return ended;
  }

  /** Drops what still arrives. Throws `unavailable` for a device that never falls silent. */
  async #quiet(): Promise<void> {
    const endMs = this.clock.monotonicMs() + ANSWER_MS;
    this.#rest = new Uint8Array();
    while (await this.device.readable(QUIET_MS)) {
      if (this.device.read(READ_BYTES).length === 0) return;
      if (this.clock.monotonicMs() <= endMs) continue;
      const found = `${this.device.path} goes on sending although it was told to stop`;
      throw new SvcError("unavailable", `${found}: is it a lidar of this series?`);
    }
  }

  async #answer(kind: keyof typeof ANSWERS): Promise<Uint8Array> {
    await this.#descriptor(kind);
    return await this.#bytes(ANSWERS[kind].bytes, kind);
  }

  /** Skips bytes until the descriptor of an answer. */
  async #descriptor(kind: keyof typeof ANSWERS): Promise<void> {
    const { type, bytes } = ANSWERS[kind];
    for (let passed = 0; passed < PASSED_MAX; passed++) {
      const [first] = await this.#bytes(1, kind);
      if (first !== START) continue;
      const rest = await this.#bytes(DESCRIPTOR_BYTES - 1, kind);
      if (rest[0] === ANSWER && rest[1] === bytes && rest[5] === type) return;
    }
    throw new SvcError("unavailable", `${this.device.path} sends something else than an answer (${kind})`);
  }

  async #bytes(count: number, kind: string): Promise<Uint8Array> {
    const endMs = this.clock.monotonicMs() + ANSWER_MS;
    while (this.#rest.length < count) {
      if (await this.device.readable(WAIT_MS)) this.#fill();
      else if (this.clock.monotonicMs() > endMs) {
        throw new SvcError(
          "unavailable",
          `${this.device.path} gave no answer (${kind}) within ${
            ANSWER_MS / 1000
          } s: is it a lidar, and its rate right?`,
        );
      }
    }

    const taken = this.#rest.subarray(0, count);
    this.#rest = this.#rest.slice(count);
    return taken;
  }

  #fill(): void {
    const bytes = this.device.read(READ_BYTES);
    if (bytes.length === 0) throw new SvcError("unavailable", `${this.device.path} is gone`);
    const whole = new Uint8Array(this.#rest.length + bytes.length);
    whole.set(this.#rest);
    whole.set(bytes, this.#rest.length);
    this.#rest = whole;
  }

  /** Sends a request, with a checksum if it has a payload. */
  #send(request: number, payload: readonly number[] = []): void {
    const head = [START, request];
    if (payload.length > 0) head.push(payload.length, ...payload);
    if (payload.length > 0) head.push(head.reduce((sum, byte) => sum ^ byte, 0));
    const taken = this.device.write(Uint8Array.from(head));
    if (taken < head.length) throw new SvcError("unavailable", `${this.device.path} takes no requests`);
  }

  /** Ignores missing modem lines. */
  #setModemLine(request: number): void {
    const line = new Uint8Array(4);
    line[0] = DATA_TERMINAL_READY;
    try {
      this.device.control(request, line);
    } catch (error) {
      if (!(error instanceof SvcError) || !["unimplemented", "invalid_argument"].includes(error.code)) {
        throw error;
      }
    }
  }
}

/** Two bits mark the beginning of a turn and are opposites; one bit is always set. */
function isNode(node: Uint8Array): boolean {
  const [start = 0, angle = 0] = node;
  return (start & 1) !== (start >> 1 & 1) && (angle & 1) === 1;
}
