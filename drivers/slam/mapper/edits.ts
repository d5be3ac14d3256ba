/**
 * Manual corrections of the map's point cloud: added points, removed points, or a whole replacement cloud. They apply
 * while they are switched on.
 */

import { SvcError } from "../../../lib/base/error.ts";
import type { ReadFiles } from "../../../lib/base/files/files.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/base/schema/schema.ts";
import { readPcd, writePcd } from "../../../lib/geometry/cloud/pcd.ts";
import { createCloud, type PointCloud } from "../../../lib/geometry/cloud/point_cloud.ts";

/** Removing a point removes all points within this distance. */
const REMOVAL_M = 0.1;
/** The probability of added points. */
const CONFIDENCE = 100;
const EDITS_MAX = 10_000;
const POINTS_MAX = 10_000;
const M_PER_MM = 1e-3;

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

  constructor(private readonly files: Pick<ReadFiles, "readFile">) {}

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
    let points = pointsIn(this.#cloud ?? readPcd(file));
    for (const { kind, points: changed } of this.#edits) {
      points = kind === "add"
        ? [...points, ...changed.map((point) => ({ ...point, confidence: CONFIDENCE }))]
        : points.filter((one) => !changed.some(({ x, y }) => Math.hypot(one.x - x, one.y - y) <= REMOVAL_M));
    }
    return writePcd(createCloud({
      x: Float32Array.from(points, ({ x }) => x),
      y: Float32Array.from(points, ({ y }) => y),
      z: new Float32Array(points.length),
      rgb: Uint32Array.from(points, ({ confidence }) => confidence),
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
    const points = value.map((one, index) => {
      const { X: x, Y: y } = isObject(one) ? one : {};
      if (typeof x === "number" && typeof y === "number" && Number.isFinite(x + y)) {
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
    this.#cloud = readPcd(await this.files.readFile(path));
    return { postprocess_path: "success" };
  }
}

function pointsIn({ x, y, rgb }: PointCloud): (PlanePoint & { readonly confidence: number })[] {
  return Array.from(x, (one, n) => ({ x: one, y: y[n], confidence: rgb?.[n] ?? CONFIDENCE }));
}
