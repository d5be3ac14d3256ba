/**
 * A finished map in one grid, prepared for searching a robot anywhere in it: the merged submaps, and their maxima over
 * 1, 2, 4, … cells. It is built once per map, piece by piece.
 */

import type { GridState } from "../../map_state.ts";
import { COST_VALUES, ProbabilityGrid } from "../../local/probability_grid.ts";
import { between2d, compose2d, IDENTITY_2D, type Pose2d } from "../../pose2d.ts";
import type { MapSubmap } from "../map/parts.ts";
import type { PoseGraph } from "../pose_graph.ts";
import type { MapArea } from "../trimming.ts";

/** Grid cells on a side of a cell of the search. */
const POOLED = 2;
/** Levels of maxima: over 1, 2, 4, … cells of the search. */
export const SEARCH_LEVELS = 6;
/** Points farther from the robot are left out of the search. */
export const SEARCH_REACH_M = 15;
/** Limit of cells; a larger map is merged at a coarser resolution. */
const CELLS_MAX = 40_000_000;
const HIGHEST = 255;
/**
 * Unknown cells around the map. The outermost cells are walls, and their neighbours count in the fit of a point and in
 * the slopes of refinement.
 */
const MARGIN_CELLS = 6;
/** Values of cells: 1 is a probability of 0.9, `COST_VALUES` one of 0.1. */
const FREE_PROBABILITY = 0.499;
/** The robot stands in free space, and this close to a driven path. */
const BESIDE_M = 4;
/** Rows processed between two yields. */
const ROWS_A_PIECE = 256;
const WAYS_A_PIECE = 500;
/** Probabilities of a wall: up to one it does not count, from the other on it counts fully. */
const WALL_MIN = 0.5;
const WALL_SURE = 0.65;

export class RelocalizationMap {
  /** In cells of the search, margins included. */
  readonly width: number;
  readonly height: number;
  readonly margin: number;
  /** For each level, the certainty of a wall (0 to 255) in the window of 2^level cells that begins at a cell. */
  readonly walls: Uint8Array[] = [];
  /** For each cell, bit by bit for each level, whether the robot can stand in the window that begins there. */
  readonly stands: Uint8Array;

  private constructor(readonly grid: ProbabilityGrid) {
    this.margin = Math.ceil(SEARCH_REACH_M / this.cellM) + (1 << SEARCH_LEVELS);
    this.width = Math.ceil(grid.cellsX / POOLED) + 2 * this.margin;
    this.height = Math.ceil(grid.cellsY / POOLED) + 2 * this.margin;
    this.stands = new Uint8Array(this.width * this.height);
  }

  get cellM(): number {
    return POOLED * this.grid.resolution;
  }

  /** Yields between pieces of some milliseconds. Undefined for a map without a known cell. */
  static *of(
    submaps: readonly MapSubmap[],
    graph: PoseGraph,
  ): Generator<void, RelocalizationMap | undefined> {
    const boxes: MapArea[] = [];
    for (const submap of submaps) {
      const box = boxOf(submap, graph);
      if (box) boxes.push(box);
    }
    const [first] = submaps;
    if (!first || boxes.length === 0) return undefined;
    const state = emptyOver(boxes, first.submap.grid.resolution);
    for (const submap of submaps) {
      merge(state, submap, graph);
      yield;
    }
    const map = new RelocalizationMap(ProbabilityGrid.of(state));
    const ways = submaps.flatMap(({ nodes }) => nodes.map(({ variable }) => graph.pose(variable)));
    yield* map.#widen(yield* map.#finest(yield* map.#near(ways)));
    return map;
  }

  /** Walls, and possible places of the robot: free cells near a path. */
  *#finest(near: Uint8Array): Generator<void, Uint8Array> {
    const { cells: from, cellsX, cellsY } = this.grid;
    const { width, margin, stands } = this;
    const cells = new Uint8Array(stands.length);
    const walls = wallsByValue(), free = valueOf(FREE_PROBABILITY);
    for (let j = 0; j < cellsY; j++) {
      if (j % ROWS_A_PIECE === 0) yield;
      for (let i = 0; i < cellsX; i++) {
        const value = from[cellsX * j + i] ?? 0;
        if (value === 0) continue;
        const own = width * (margin + (j >> 1)) + margin + (i >> 1);
        if (value > free && near[own] === 1) stands[own] = 1;
        const wall = walls[value] ?? 0;
        if (wall === 0) continue;
        // The edges of a cell count for its neighbour, because poses are tried a whole cell apart.
        for (const b of [margin + ((j - 1) >> 1), margin + ((j + 1) >> 1)]) {
          for (const a of [margin + ((i - 1) >> 1), margin + ((i + 1) >> 1)]) {
            const at = width * b + a;
            if ((cells[at] ?? 0) < wall) cells[at] = wall;
          }
        }
      }
    }
    return cells;
  }

  /** The cells near to one of these poses. */
  *#near(ways: readonly Pose2d[]): Generator<void, Uint8Array> {
    const near = new Uint8Array(this.stands.length);
    const reach = Math.ceil(BESIDE_M / this.cellM);
    for (const [k, { x, y }] of ways.entries()) {
      if (k % WAYS_A_PIECE === 0) yield;
      const i = this.margin + Math.floor((this.grid.maxY - y) / this.cellM);
      const j = this.margin + Math.floor((this.grid.maxX - x) / this.cellM);
      const firstI = Math.max(0, i - reach), lastI = Math.min(this.width - 1, i + reach);
      for (let b = Math.max(0, j - reach); b <= Math.min(this.height - 1, j + reach); b++) {
        if (lastI >= firstI) near.fill(1, this.width * b + firstI, this.width * b + lastI + 1);
      }
    }
    return near;
  }

  /** Computes the levels from the walls of the finest. */
  *#widen(finest: Uint8Array): Generator<void, void> {
    let walls = finest, standing: Uint8Array = this.stands.slice();
    this.walls.push(walls);
    for (let level = 1; level < SEARCH_LEVELS; level++) {
      const half = 1 << (level - 1);
      this.walls.push(walls = this.#maxima(walls, half));
      yield;
      standing = this.#maxima(standing, half);
      for (let at = 0; at < standing.length; at++) {
        this.stands[at] = (this.stands[at] ?? 0) | (standing[at] ?? 0) << level;
      }
      yield;
    }
  }

  /** Maxima over windows twice as wide as `half`. */
  #maxima(from: Uint8Array, half: number): Uint8Array {
    const { width } = this;
    const rows = new Uint8Array(from.length), out = new Uint8Array(from.length);
    for (let at = 0; at < from.length - half; at++) {
      rows[at] = Math.max(from[at] ?? 0, from[at + half] ?? 0);
    }
    const below = width * half;
    for (let at = 0; at < rows.length - below; at++) {
      out[at] = Math.max(rows[at] ?? 0, rows[at + below] ?? 0);
    }
    return out;
  }
}

/** The certainty of a wall for each value of a cell, 0 to 255. */
function wallsByValue(): Uint8Array {
  return Uint8Array.from({ length: COST_VALUES + 1 }, (_, value) => {
    if (value === 0) return 0;
    const share = (probabilityOf(value) - WALL_MIN) / (WALL_SURE - WALL_MIN);
    return Math.round(HIGHEST * Math.min(1, Math.max(0, share)));
  });
}

function probabilityOf(value: number): number {
  return 0.9 - 0.8 * (value - 1) / (COST_VALUES - 1);
}

function valueOf(probability: number): number {
  return Math.round((0.9 - probability) / 0.8 * (COST_VALUES - 1)) + 1;
}

/** From the frame of a submap's grid to that of the map. */
function gridPose({ submap, variable }: MapSubmap, graph: PoseGraph): Pose2d {
  return compose2d(graph.pose(variable), between2d(submap.localPose, IDENTITY_2D));
}

function boxOf(submap: MapSubmap, graph: PoseGraph): MapArea | undefined {
  const { known, maxX, maxY, resolution } = submap.submap.grid;
  if (!known) return undefined;
  const pose = gridPose(submap, graph);
  const corners = [known.minI, known.maxI + 1].flatMap((i) =>
    [known.minJ, known.maxJ + 1].map((j) =>
      compose2d(pose, { x: maxX - j * resolution, y: maxY - i * resolution, yaw: 0 })
    )
  );
  const xs = corners.map(({ x }) => x), ys = corners.map(({ y }) => y);
  return { minX: Math.min(...xs), minY: Math.min(...ys), maxX: Math.max(...xs), maxY: Math.max(...ys) };
}

function emptyOver(boxes: readonly MapArea[], finest: number): GridState {
  const margin = MARGIN_CELLS * finest;
  const minX = Math.min(...boxes.map((box) => box.minX)) - margin;
  const minY = Math.min(...boxes.map((box) => box.minY)) - margin;
  const maxX = Math.max(...boxes.map((box) => box.maxX)) + margin;
  const maxY = Math.max(...boxes.map((box) => box.maxY)) + margin;
  const area = (maxX - minX) * (maxY - minY);
  const resolution = Math.max(finest, Math.sqrt(area / CELLS_MAX));
  const cellsX = Math.ceil((maxY - minY) / resolution) + 1;
  const cellsY = Math.ceil((maxX - minX) / resolution) + 1;
  const known = { minI: 0, minJ: 0, maxI: cellsX - 1, maxJ: cellsY - 1 };
  return { resolution, maxX, maxY, cellsX, cellsY, cells: new Uint16Array(cellsX * cellsY), known };
}

/** Merges a submap into the map; where both know a cell, the likelier value wins. */
function merge(map: GridState, submap: MapSubmap, graph: PoseGraph): void {
  const box = boxOf(submap, graph);
  if (!box) return;
  const { cells, cellsX, cellsY, maxX, maxY, resolution } = submap.submap.grid;
  const { x, y, yaw } = gridPose(submap, graph);
  const cos = Math.cos(yaw) / resolution, sin = Math.sin(yaw) / resolution;
  const firstI = Math.max(0, Math.floor((map.maxY - box.maxY) / map.resolution));
  const lastI = Math.min(map.cellsX - 1, Math.floor((map.maxY - box.minY) / map.resolution));
  const firstJ = Math.max(0, Math.floor((map.maxX - box.maxX) / map.resolution));
  const lastJ = Math.min(map.cellsY - 1, Math.floor((map.maxX - box.minX) / map.resolution));
  for (let j = firstJ; j <= lastJ; j++) {
    const dx = map.maxX - (j + 0.5) * map.resolution - x;
    for (let i = firstI; i <= lastI; i++) {
      const dy = map.maxY - (i + 0.5) * map.resolution - y;
      const fromJ = Math.floor(maxX / resolution - cos * dx - sin * dy);
      const fromI = Math.floor(maxY / resolution + sin * dx - cos * dy);
      if (fromI < 0 || fromJ < 0 || fromI >= cellsX || fromJ >= cellsY) continue;
      const at = map.cellsX * j + i;
      const value = cells[cellsX * fromJ + fromI] ?? 0, known = map.cells[at] ?? 0;
      if (value !== 0 && (known === 0 || value < known)) map.cells[at] = value;
    }
  }
}
