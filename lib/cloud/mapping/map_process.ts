/** The process that makes one map: requests to a content process, each with its time limit. */

import { deadline } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { isObject } from "../../base/schema/schema.ts";
import type { MapperOptions } from "../../slam/mapping.ts";
import type { Pose2d } from "../../slam/pose2d.ts";
import { type ContentAnswer, type ContentOptions, ContentProcess } from "../sandbox/content/process.ts";
import type { MapRequest, Movements } from "./map_requests.ts";

/** The content of an existing map's package. */
export interface ExistingMap {
  readonly bytes: number;
  readonly content: AsyncIterable<Uint8Array>;
}

/** Time limits: of a scan or a picture, and of loading or finally optimising a whole map. */
const PIECE_MS = 60_000;
const MAP_MS = 30 * 60_000;
/** Limit of a map's file, and of its picture. */
const MAP_BYTES_MAX = 1024 ** 3;

export class MapProcess {
  private constructor(
    private readonly process: ContentProcess,
    private readonly content: ContentOptions,
    private readonly signal: AbortSignal,
  ) {}

  /** Ends with the signal. */
  static async begin(
    content: ContentOptions,
    options: MapperOptions,
    existing: ExistingMap | undefined,
    signal: AbortSignal,
  ): Promise<MapProcess> {
    const map = new MapProcess(await ContentProcess.start(content), content, signal);
    try {
      await map.#ask({ ask: "map", options, bytes: existing?.bytes ?? 0 }, existing?.content ?? [], MAP_MS);
      return map;
    } catch (error) {
      await map.close();
      throw error;
    }
  }

  /** Whether the process can continue after an error. */
  get goesOn(): boolean {
    return this.process.answers && !this.signal.aborted;
  }

  /** The robot's pose after the scan. Throws `invalid_argument` for an invalid scan. */
  async scan(timeS: number, bytes: number, file: AsyncIterable<Uint8Array>): Promise<Pose2d | undefined> {
    const { head: { pose } } = await this.#ask({ ask: "scan", timeS, bytes }, file, PIECE_MS);
    return isObject(pose) ? { x: Number(pose.x), y: Number(pose.y), yaw: Number(pose.yaw) } : undefined;
  }

  async move(movements: Movements): Promise<void> {
    await this.#ask({ ask: "movements", movements, bytes: 0 }, [], PIECE_MS);
  }

  /** The map so far as a PCD file. Throws `unavailable` while it is empty. */
  async cloud(): Promise<Uint8Array> {
    return (await this.#ask({ ask: "map_cloud", bytes: 0 }, [], PIECE_MS)).bytes;
  }

  /** The whole map as a `.pbstream` file. */
  async file(): Promise<Uint8Array> {
    return (await this.#ask({ ask: "map_file", bytes: 0 }, [], MAP_MS)).bytes;
  }

  async close(): Promise<void> {
    await this.process.close();
  }

  async #ask(
    request: MapRequest,
    body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    ms: number,
  ): Promise<ContentAnswer> {
    const tooLong = () =>
      new SvcError("deadline_exceeded", `the mapper has not answered "${request.ask}" within ${ms / 1000} s`);
    const late = deadline(this.content.clock, ms, tooLong, this.signal);
    try {
      return await this.process.ask(request, body, late.signal, MAP_BYTES_MAX);
    } finally {
      late.done();
    }
  }
}
