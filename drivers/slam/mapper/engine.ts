/**
 * The mapper as its service sees it: readings in, poses and bytes out.
 *
 * The mapper works in its own thread, so that matching and optimising never delay the machine. It takes readings in the
 * order in which they are added.
 */

import { type Code, SvcError } from "../../../lib/base/error.ts";
import type {
  ImuReading,
  Localization,
  MapperMode,
  MapperOptions,
  OdometryReading,
  RangeScan,
} from "../../../lib/slam/mapping.ts";
import type { Pose2d } from "../../../lib/slam/pose2d.ts";

/** The name of the thread, by which its module knows that it was started and not merely imported. */
export const MAPPER_WORKER = "svc-mapper";

export type Reading =
  | { readonly kind: "scan"; readonly scan: RangeScan }
  | { readonly kind: "odometry"; readonly reading: OdometryReading }
  | { readonly kind: "imu"; readonly reading: ImuReading };

export interface EngineStart {
  readonly mode: MapperMode;
  readonly options: MapperOptions;
  /** The bytes of the existing map. */
  readonly map?: Uint8Array;
  readonly pose?: Pose2d;
  /** Finishes all work before the next reading, so that the same readings always give the same map. */
  readonly isOffline: boolean;
  /** Optimises the existing map before anything else. */
  readonly optimizeOnStart: boolean;
}

/** What an engine reports without being asked. */
export interface EngineEvents {
  /** The thread itself has ended. */
  failed(error: SvcError): void;
  /** The mapper has left out a scan, for another reason than the scan before. */
  leftOut(reason: string): void;
  /** The mapper follows the scans alone from now on. */
  odometryDoubted(reason: string): void;
  /** The mapper multiplies the motions of odometry by other factors from now on. */
  odometryCorrected(correction: string): void;
  /** More or less is known of the robot's place than before. */
  localized(localization: Localization): void;
}

export interface Engine {
  /** Resolves once the reading is processed: to the robot's pose, or to `undefined` while it is unknown. */
  add(reading: Reading): Promise<Pose2d | undefined>;
  /** The map as a PCD file. */
  pointCloud(): Promise<Uint8Array>;
  /** The map as a `.pbstream` file. */
  internalState(): Promise<Uint8Array>;
  /** Finishes all pending work and optimises to the end. */
  finish(): Promise<Pose2d | undefined>;
  /** Ends the thread; pending calls fail. Idempotent. */
  close(): void;
}

/** The requests of a thread: the start first, then any other. An answer carries the number of its request. */
export type Question =
  | { readonly id: number; readonly kind: "start"; readonly start: EngineStart }
  | { readonly id: number; readonly kind: "add"; readonly reading: Reading }
  | { readonly id: number; readonly kind: "pointCloud" | "internalState" | "finish" };

export type Answer =
  | {
    readonly id: number;
    readonly pose?: Pose2d;
    readonly bytes?: Uint8Array;
    readonly leftOut?: string;
    readonly odometryDoubt?: string;
    readonly odometryCorrection?: string;
    readonly localization?: Localization;
  }
  | { readonly id: number; readonly code: Code; readonly message: string };

type Waiting = PromiseWithResolvers<{ readonly pose?: Pose2d; readonly bytes?: Uint8Array }>;
type Unnumbered<Q> = Q extends Question ? Omit<Q, "id"> : never;

export class ThreadEngine implements Engine {
  readonly #worker = new Worker(new URL("./worker.ts", import.meta.url), {
    type: "module",
    name: "svc-mapper",
  });
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;
  #ended?: SvcError;

  private constructor(events: EngineEvents) {
    this.#worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      if ("leftOut" in data && data.leftOut !== undefined) events.leftOut(data.leftOut);
      if ("odometryDoubt" in data && data.odometryDoubt !== undefined) {
        events.odometryDoubted(data.odometryDoubt);
      }
      if ("odometryCorrection" in data && data.odometryCorrection !== undefined) {
        events.odometryCorrected(data.odometryCorrection);
      }
      if ("localization" in data && data.localization) events.localized(data.localization);
      const waiting = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if ("code" in data) waiting?.reject(new SvcError(data.code, data.message));
      else waiting?.resolve(data);
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      const error = new SvcError("internal", `the thread of the mapper failed: ${event.message}`);
      this.#end(error);
      events.failed(error);
    };
  }

  /** Starts a thread; resolves once the existing map is loaded. Throws `invalid_argument` if it is not a map. */
  static async start(start: EngineStart, events: EngineEvents): Promise<ThreadEngine> {
    const engine = new ThreadEngine(events);
    try {
      await engine.#ask({ kind: "start", start }, start.map ? [start.map.buffer as ArrayBuffer] : []);
      return engine;
    } catch (error) {
      engine.close();
      throw error;
    }
  }

  async add(reading: Reading): Promise<Pose2d | undefined> {
    return (await this.#ask({ kind: "add", reading })).pose;
  }

  async pointCloud(): Promise<Uint8Array> {
    return (await this.#ask({ kind: "pointCloud" })).bytes!;
  }

  async internalState(): Promise<Uint8Array> {
    return (await this.#ask({ kind: "internalState" })).bytes!;
  }

  async finish(): Promise<Pose2d | undefined> {
    return (await this.#ask({ kind: "finish" })).pose;
  }

  close(): void {
    this.#end(new SvcError("canceled", "the mapper was closed"));
  }

  #ask(question: Unnumbered<Question>, transfer: ArrayBuffer[] = []) {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    const waiting: Waiting = Promise.withResolvers();
    this.#waiting.set(id, waiting);
    this.#worker.postMessage({ ...question, id }, transfer);
    return waiting.promise;
  }

  #end(error: SvcError): void {
    if (this.#ended) return;
    this.#ended = error;
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
