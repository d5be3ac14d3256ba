/**
 * Manual corrections of the map's point cloud: added points, removed points, or a whole replacement cloud. They apply
 * while they are switched on.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { heldBytes, type ReadFiles } from "../../../lib/base/files/files.ts";
import { AllowedPaths, type PathRules } from "../../../lib/base/files/path_rules.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/base/schema/schema.ts";
import { readPcd, writePcd } from "../../../lib/geometry/cloud/pcd.ts";
import { createCloud, type PointCloud } from "../../../lib/geometry/cloud/point_cloud.ts";

/** Removing a point removes all points within this distance. */
const REMOVAL_M = 0.1;
/** The probability of added points. */
const CONFIDENCE = 100;
const EDITS_MAX = 10_000;
const POINTS_MAX = 10_000;
/** Limit of the points of all corrections. */
const POINTS_ALL_MAX = 100_000;
const CLOUD_BYTES_MAX = 256 * 1024 * 1024;
const M_PER_MM = 1e-3;
/** Larger than a removal is wide, so that a removal lies in the squares of its corners. */
const SQUARE_M = 3 * REMOVAL_M;
const SQUARES_ACROSS = 2 ** 24;
/** Of the removals this close together the last one counts, so that a square has few, however many a caller sends. */
const CLOSE_M = 0.01;

interface PlanePoint {
  readonly x: number;
  readonly y: number;
}

interface Edit {
  readonly kind: "add" | "remove";
  readonly points: readonly PlanePoint[];
}

export class MapEdits {
  #isOn = false;
  readonly #edits: Edit[] = [];
  #cloud?: PointCloud;

  /** `rules` say which files a caller may name. */
  constructor(private readonly files: ReadFiles, private readonly rules: PathRules) {}

  /** Runs a command; `undefined` if it is not about corrections. */
  async command(command: JsonObject): Promise<JsonObject | undefined> {
    if ("postprocess_toggle" in command) {
      this.#isOn = !this.#isOn;
      return { postprocessed: this.#isOn };
    }
    if ("postprocess_add" in command) return this.#edit("add", "postprocess_add", command.postprocess_add);
    if ("postprocess_remove" in command) {
      return this.#edit("remove", "postprocess_remove", command.postprocess_remove);
    }
    if ("postprocess_undo" in command) {
      if (this.#edits.pop()) return { postprocess_undo: "success" };
      throw new SvcError("failed_precondition", "postprocess_undo: there is nothing to undo");
    }
    if ("postprocess_path" in command) return await this.#read(command.postprocess_path);
    return undefined;
  }

  /** The map, with the corrections if they are switched on. */
  applied(file: Uint8Array): Uint8Array {
    if (!this.#isOn || (this.#edits.length === 0 && !this.#cloud)) return file;
    const removals = new Removals(this.#edits);
    const { x, y, rgb } = this.#cloud ?? readPcd(file);
    const most = x.length + this.#edits.reduce((sum, { points }) => sum + points.length, 0);
    const kept = { x: new Float32Array(most), y: new Float32Array(most), rgb: new Uint32Array(most) };
    let count = 0;
    const keep = (x: number, y: number, confidence: number, since: number) => {
      if (removals.isRemoved(x, y, since)) return;
      [kept.x[count], kept.y[count], kept.rgb[count]] = [x, y, confidence];
      count++;
    };
    for (let n = 0; n < x.length; n++) keep(x[n] ?? NaN, y[n] ?? NaN, rgb?.[n] ?? CONFIDENCE, 0);
    for (const [edit, { kind, points }] of this.#edits.entries()) {
      if (kind === "add") { for (const { x, y } of points) keep(x, y, CONFIDENCE, edit); }
    }
    return writePcd(createCloud({
      x: kept.x.subarray(0, count),
      y: kept.y.subarray(0, count),
      z: new Float32Array(count),
      rgb: kept.rgb.subarray(0, count),
    }));
  }

  #edit(kind: Edit["kind"], command: string, value: Json): JsonObject {
    if (this.#edits.length === EDITS_MAX) {
      throw new SvcError("resource_exhausted", `${command}: there are ${EDITS_MAX} corrections already`);
    }
    if (!Array.isArray(value) || value.length > POINTS_MAX) {
      throw new SvcError(
        "invalid_argument",
        `${command}: wanted a list of at most ${POINTS_MAX} points {X, Y}`,
      );
    }
    const before = this.#edits.reduce((sum, { points }) => sum + points.length, 0);
    if (before + value.length > POINTS_ALL_MAX) {
      throw new SvcError(
        "resource_exhausted",
        `${command}: the corrections have ${before} points already, wanted at most ${POINTS_ALL_MAX} in all`,
      );
    }
    const points = value.map((one, index) => {
      const { X: x, Y: y } = isObject(one) ? one : {};
      if (typeof x === "number" && typeof y === "number" && Number.isFinite(Math.fround(x + y))) {
        return { x: x * M_PER_MM, y: y * M_PER_MM };
      }
      throw new SvcError(
        "invalid_argument",
        `${command}: point ${index} is no object with the numbers X and Y`,
      );
    });
    this.#edits.push({ kind, points });
    return { [command]: "success" };
  }

  async #read(path: Json): Promise<JsonObject> {
    if (typeof path !== "string" || !path.endsWith(".pcd")) {
      throw new SvcError("invalid_argument", "postprocess_path: wanted the path of a .pcd file");
    }
    const allowed = await AllowedPaths.of(this.rules, this.files);
    const file = await this.files.openUnlinked(await allowed.realPath(path));
    try {
      this.#cloud = readPcd(await heldBytes(file, CLOUD_BYTES_MAX));
    } finally {
      await file.close();
    }
    return { postprocess_path: "success" };
  }
}

/** Finds removals near a point without a look at all of them. */
class Removals {
  /** The removed points in each square by their own small square, with their edits. */
  readonly #squares = new Map<number, Map<number, PlanePoint & { readonly edit: number }>>();

  constructor(edits: readonly Edit[]) {
    for (const [edit, { kind, points }] of edits.entries()) {
      if (kind !== "remove") continue;
      for (const point of points) {
        const square = squareOf(point.x, point.y, SQUARE_M);
        const there = this.#squares.get(square) ?? new Map();
        this.#squares.set(square, there.set(squareOf(point.x, point.y, CLOSE_M), { ...point, edit }));
      }
    }
  }

  /** Whether an edit after number `since` removes a point at this place. */
  isRemoved(x: number, y: number, since: number): boolean {
    if (this.#squares.size === 0) return false;
    for (const nearX of [x - REMOVAL_M, x + REMOVAL_M]) {
      for (const nearY of [y - REMOVAL_M, y + REMOVAL_M]) {
        const found = this.#squares.get(squareOf(nearX, nearY, SQUARE_M))?.values().some((one) =>
          one.edit >= since && Math.hypot(one.x - x, one.y - y) <= REMOVAL_M
        );
        if (found) return true;
      }
    }
    return false;
  }
}

/** The number of the square of this size with a place; places far apart may share one. */
function squareOf(x: number, y: number, sizeM: number): number {
  return Math.floor(x / sizeM) * SQUARES_ACROSS + Math.floor(y / sizeM);
}
