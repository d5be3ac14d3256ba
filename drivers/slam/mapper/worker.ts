/**
 * The thread of the mapper: answers one request after the other, and works on the map while no request waits.
 */

import { nextTurn } from "../../../lib/base/clock.ts";
import { assert, SvcError } from "../../../lib/base/error.ts";
import { joinedBytes, onePiece } from "../../../lib/base/files/byte_reader.ts";
import { mapCloud, paintMap } from "../../../lib/slam/map_picture.ts";
import { Mapper } from "../../../lib/slam/mapper.ts";
import type { Localization, Mapping } from "../../../lib/slam/mapping.ts";
import type { Pose2d } from "../../../lib/slam/pose2d.ts";
import { mapFile, readMap } from "../../../lib/slam/pbstream/map_file.ts";
import { type Answer, type EngineStart, MAPPER_WORKER, type Question, type Reading } from "./engine.ts";

/** Why a scan is left out. */
const OLDER = "their times are before the time of the last scan in the map";
const OUT_OF_RANGE = "none of their points, in metres, lies between min_range_meters and max_range_meters";

/** The parts of a worker's scope that this file uses. */
interface Scope {
  readonly name?: string;
  onmessage: ((event: { data: Question }) => void) | null;
  postMessage(answer: Answer, transfer?: ArrayBuffer[]): void;
}

/** An answer without its number. */
interface Result {
  readonly pose?: Pose2d;
  readonly bytes?: Uint8Array<ArrayBuffer>;
  readonly leftOut?: string;
  readonly odometryDoubt?: string;
  readonly odometryCorrection?: string;
  readonly localization?: Localization;
}

class MapperThread {
  #mapping?: Mapping;
  #start?: EngineStart;
  /** The point cloud of a map that does not change. */
  #cloud?: Uint8Array<ArrayBuffer>;
  #isWorking = false;
  #lastScanS = -Infinity;
  #isDoubted = false;
  #correction?: string;
  #localization?: Localization;
  /** Why the last scan was left out. */
  #leftOut?: string;

  async answer(question: Question): Promise<Result> {
    if (question.kind === "start") return await this.#begin(question.start);
    const mapping = this.#mapping;
    assert(mapping && this.#start, "the mapper was asked before it was started");
    if (question.kind === "add") {
      const leftOut = this.#add(mapping, question.reading);
      if (this.#start.isOffline && question.reading.kind === "scan") { while (mapping.work()); }
      else this.#workLater(mapping);
      return {
        pose: mapping.pose(),
        leftOut,
        odometryDoubt: this.#newDoubt(mapping),
        odometryCorrection: this.#newCorrection(mapping),
        ...this.#localizationOf(mapping),
      };
    }
    if (question.kind === "finish") {
      mapping.finish();
      return { pose: mapping.pose(), ...this.#localizationOf(mapping) };
    }
    if (question.kind === "pointCloud") return { bytes: (this.#cloud ?? cloudOf(mapping)).slice() };
    return { bytes: joinedBytes(await Array.fromAsync(mapFile(mapping.state(), this.#start.options))) };
  }

  async #begin(start: EngineStart): Promise<Result> {
    const { mode, options, pose } = start;
    const map = start.map && await readMap(onePiece(start.map));
    const mapping = new Mapper({ mode, options, map, pose });
    if (map && mode === "localize") {
      if (map.submaps.length === 0) throw new SvcError("invalid_argument", "the existing map is empty");
      this.#cloud = mapCloud(paintMap(map.submaps));
    }
    [this.#mapping, this.#start] = [mapping, start];
    if (start.optimizeOnStart) {
      mapping.finishLater();
      this.#workLater(mapping);
    }
    return {};
  }

  /** What is known of the robot's place, if that has changed. */
  #localizationOf(mapping: Mapping): { readonly localization?: Localization } {
    const { place, confidence } = mapping.localization(), before = this.#localization;
    const rounded = Math.round(100 * confidence) / 100;
    if (before?.place === place && before.confidence === rounded) return {};
    return { localization: this.#localization = { place, confidence: rounded } };
  }

  /** Why odometry does not count, told once when that begins. */
  #newDoubt(mapping: Mapping): string | undefined {
    const reason = mapping.odometryDoubt(), isNew = reason !== undefined && !this.#isDoubted;
    this.#isDoubted = reason !== undefined;
    return isNew ? reason : undefined;
  }

  /** How odometry is corrected, if that has changed. */
  #newCorrection(mapping: Mapping): string | undefined {
    const correction = mapping.odometryCorrection();
    if (correction === this.#correction) return undefined;
    return this.#correction = correction;
  }

  /** Adds a reading; returns why a scan is left out, if the scan before was not left out for the same reason. */
  #add(mapping: Mapping, reading: Reading): string | undefined {
    if (reading.kind === "imu") mapping.addImu(reading.reading);
    if (reading.kind === "odometry") mapping.addOdometry(reading.reading);
    if (reading.kind !== "scan") return undefined;
    const { scan } = reading, before = this.#leftOut;
    if (mapping.addScan(scan)) {
      [this.#lastScanS, this.#leftOut] = [scan.timeS, undefined];
      return undefined;
    }
    // A recording may give the same scan twice.
    if (scan.timeS !== this.#lastScanS) this.#leftOut = scan.timeS < this.#lastScanS ? OLDER : OUT_OF_RANGE;
    return this.#leftOut === before ? undefined : this.#leftOut;
  }

  /** Works one piece at a time, and answers requests in between first. */
  #workLater(mapping: Mapping): void {
    if (this.#isWorking) return;
    this.#isWorking = true;
    const piece = () => {
      if (mapping.work()) nextTurn(piece);
      else this.#isWorking = false;
    };
    nextTurn(piece);
  }
}

/** Throws `unavailable` while the map is empty. */
function cloudOf(mapping: Mapping): Uint8Array<ArrayBuffer> {
  const picture = paintMap(mapping.state().submaps);
  if (picture.width > 0) return mapCloud(picture);
  throw new SvcError("unavailable", "the map is empty so far: the mapper has taken in no scan");
}

const scope = globalThis as unknown as Scope;
if (scope.name === MAPPER_WORKER) {
  const thread = new MapperThread();
  let before: Promise<void> = Promise.resolve();
  scope.onmessage = ({ data }) => {
    before = before.then(async () => {
      try {
        const answer = await thread.answer(data);
        scope.postMessage({ ...answer, id: data.id }, answer.bytes ? [answer.bytes.buffer] : []);
      } catch (thrown) {
        const { code, message } = SvcError.from(thrown);
        scope.postMessage({ id: data.id, code, message });
      }
    });
  };
}
