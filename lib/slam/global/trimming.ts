/**
 * Finds the outdated submaps of a map that is being updated: those that show hardly any place that newer submaps do
 * not show, too.
 */

import type { MapperOptions } from "../mapping.ts";
import type { TrajectoryState } from "../map_state.ts";
import type { MapNode, MapSubmap } from "./map/parts.ts";
import type { PoseGraph } from "./pose_graph.ts";

/** Coverage is counted in squares of this many grid cells. */
const STRIDE = 4;
/** Readings up to a second before and after the nodes of a trajectory belong to it. */
const BESIDE_TICKS = 10_000_000n;
/** Larger maps are not trimmed. */
const CELLS_MAX = 100_000_000;

export interface MapArea {
  readonly minX: number;
  readonly minY: number;
  readonly maxX: number;
  readonly maxY: number;
}

/**
 * The finished submaps that can be removed: of each place, only the newest `freshSubmapsCount` submaps count, and a
 * submap must count in enough places to stay.
 */
export function outdated(
  submaps: readonly MapSubmap[],
  graph: PoseGraph,
  options: MapperOptions,
): MapSubmap[] {
  const finished = submaps.filter(({ submap, nodes }) => submap.finished && nodes.length > 0);
  const [first] = finished;
  if (!first) return [];
  const cellM = STRIDE * first.submap.grid.resolution;
  const area = areaOf(finished, graph);
  const width = Math.ceil((area.maxX - area.minX) / cellM) + 1,
    height = Math.ceil((area.maxY - area.minY) / cellM) + 1;
  if (!(width * height <= CELLS_MAX)) return [];
  const counts = new Uint16Array(width * height);
  const marks = new Int32Array(width * height);
  const newestFirst = finished.map((one) => ({ one, ticks: one.nodes.at(-1)!.ticks }))
    .sort((a, b) => Number(a.ticks < b.ticks) - Number(a.ticks > b.ticks) || b.one.index - a.one.index);
  const out: MapSubmap[] = [];
  newestFirst.forEach(({ one }, k) => {
    let kept = 0;
    forKnownCells(one, graph, (x, y) => {
      const at = width * Math.floor((y - area.minY) / cellM) + Math.floor((x - area.minX) / cellM);
      if (marks[at] === k + 1) return;
      marks[at] = k + 1;
      const count = counts[at] ?? 0;
      if (count >= options.freshSubmapsCount) return;
      counts[at] = count + 1;
      kept++;
    });
    if (kept * cellM * cellM < options.minCoveredAreaM2) out.push(one);
  });
  return out;
}

/**
 * The trajectories without readings before their first and after their last node, so that a map that is updated for
 * years keeps no readings of removed parts.
 */
export function withoutOldReadings(
  trajectories: readonly TrajectoryState[],
  nodes: readonly Pick<MapNode, "trajectory" | "ticks">[],
): TrajectoryState[] {
  const byTrajectory = Map.groupBy(nodes, ({ trajectory }) => trajectory);
  return trajectories.map((one) => {
    const own = byTrajectory.get(one.trajectory);
    const first = own?.[0], last = own?.at(-1);
    if (!first || !last) return { ...one, odometry: [], imu: [] };
    const since = first.ticks - BESIDE_TICKS, until = last.ticks + BESIDE_TICKS;
    const isNear = ({ ticks }: { readonly ticks: bigint }) => ticks >= since && ticks <= until;
    return { ...one, odometry: one.odometry.filter(isNear), imu: one.imu.filter(isNear) };
  });
}

/** Calls with places in the map, one for each few cells. */
function forKnownCells(
  { submap, variable }: MapSubmap,
  graph: PoseGraph,
  call: (x: number, y: number) => void,
): void {
  const { cells, cellsX, cellsY, maxX, maxY, resolution } = submap.grid;
  const { x, y, yaw } = graph.pose(variable);
  const cos = Math.cos(yaw), sin = Math.sin(yaw);
  const { localPose } = submap;
  for (let j = STRIDE >> 1; j < cellsY; j += STRIDE) {
    for (let i = STRIDE >> 1; i < cellsX; i += STRIDE) {
      if (cells[cellsX * j + i] === 0) continue;
      const px = maxX - (j + 0.5) * resolution - localPose.x,
        py = maxY - (i + 0.5) * resolution - localPose.y;
      call(x + cos * px - sin * py, y + sin * px + cos * py);
    }
  }
}

function areaOf(submaps: readonly MapSubmap[], graph: PoseGraph): MapArea {
  let minX = Infinity, minY = Infinity, maxX = -Infinity, maxY = -Infinity;
  for (const submap of submaps) {
    forKnownCells(submap, graph, (x, y) => {
      minX = Math.min(minX, x);
      minY = Math.min(minY, y);
      maxX = Math.max(maxX, x);
      maxY = Math.max(maxY, y);
    });
  }
  return { minX, minY, maxX, maxY };
}
