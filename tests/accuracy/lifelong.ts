/**
 * A robot that updates the map of one building for many sessions, while people move the furniture: how large the map
 * is, how far from the truth the robot is, and whether furniture that is gone is still on the map.
 */

import { joinedBytes } from "../../lib/base/files/byte_reader.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { Mapper } from "../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS, type RangeScan } from "../../lib/slam/mapping.ts";
import { type MapPicture, paintMap, PIXEL_M } from "../../lib/slam/map_picture.ts";
import { type MapState, secondsOf } from "../../lib/slam/map_state.ts";
import { mapFile, readMap } from "../../lib/slam/pbstream/map_file.ts";
import { between2d, compose2d, IDENTITY_2D, inverse2d, type Pose2d } from "../../lib/slam/pose2d.ts";
import { obstaclesAt, rangeTo, type Segment } from "../../lib/slam/simulation/building.ts";
import { normal } from "../../lib/slam/simulation/robot.ts";

export interface SessionScore {
  readonly session: number;
  readonly submaps: number;
  readonly nodes: number;
  readonly constraints: number;
  readonly bytes: number;
  /** Of the places of this session's scans on the map, from the truth. */
  readonly medianM: number;
  readonly worstM: number;
  /** The scans whose places are known: all but the first, until the robot has found itself. */
  readonly placed: number;
  readonly scans: number;
  /** The share of the outlines of furniture that the map shows: of the present, and of what has gone. */
  readonly presentShown: number;
  readonly goneShown: number;
  readonly goneBoxes: number;
}

/** A box with sides along the axes. */
interface Box {
  readonly x: number;
  readonly y: number;
  readonly widthM: number;
  readonly depthM: number;
}

const WALLS: readonly Segment[] = [
  ...outline({ x: 0, y: 0, widthM: 12, depthM: 8 }),
  { fromX: 0, fromY: 4, toX: 0, toY: 1.2 },
  { fromX: -6, fromY: -1, toX: -4.6, toY: -1 },
  ...outline({ x: 5.4, y: -3.5, widthM: 1.2, depthM: 1 }),
  ...outline({ x: 3, y: 0.2, widthM: 0.5, depthM: 0.5 }),
];
type Place = readonly [x: number, y: number];
/** The robot's ways, round and round. */
const WAYS: { readonly whole: readonly Place[]; readonly short: readonly Place[] } = {
  whole: [[-3.5, -2.5], [4, -2.5], [4.5, 2.5], [1.5, 2.2], [0, 0], [-1.5, 2.2], [-4.5, 2], [-3.5, -0.5]],
  short: [[-3.5, -2.2], [0.5, -2.2], [-1.5, 0]],
};
/** Where furniture may stand, beside the way. */
const PLACES = [
  [-5.3, 3.3],
  [-3, 3.4],
  [-2.6, 0.4],
  [-1.2, -1.2],
  [1.2, -1.1],
  [1.8, -3.5],
  [-1.5, -3.5],
  [-5.4, -3.3],
  [2.5, 3.5],
  [5.4, 0],
] as const;
const FURNITURE = 5;
/** The share of the furniture that moves between two sessions. */
const MOVES_SHARE = 0.3;
/** Furniture that has gone for so many sessions must be off the map. */
const GONE_SESSIONS = 3;
const SPEED_MPS = 0.6;
const TURN_RPS = 0.8;
const STEP_S = 0.4;
const SLIP = 0.02;
const LIDAR = { beams: 120, maxRangeM: 15, noiseM: 0.01 } as const;
/** A pixel this dark shows something. */
const DARK = 110;

/** Prints a row for each session. */
export async function scoreLifelong(sessions: number, seed: number): Promise<void> {
  console.log(
    "session | submaps, nodes, constraints | kB | error (m): median, worst | scans with a place |",
    "outlines shown: present furniture, gone furniture",
  );
  for await (const one of livesOn(sessions, seed)) {
    console.log(
      `${one.session + 1} | ${one.submaps}, ${one.nodes}, ${one.constraints} | ${
        Math.round(one.bytes / 1000)
      } |`,
      `${one.medianM.toFixed(3)}, ${one.worstM.toFixed(3)} | ${one.placed} of ${one.scans} |`,
      `${Math.round(100 * one.presentShown)} %, ${Math.round(100 * one.goneShown)} %`,
    );
  }
}

/** Plays the sessions one after the other. The map goes through its file between them. */
export async function* livesOn(
  sessions: number,
  seed: number,
  { way = "whole" }: { readonly way?: keyof typeof WAYS } = {},
): AsyncGenerator<SessionScore> {
  const random = randomFrom(seed);
  let furniture = new Set(shuffledPlaces(random).slice(0, FURNITURE));
  const lastSeen = new Map<number, number>();
  let map: MapState | undefined, origin: Pose2d | undefined;
  for (let session = 0; session < sessions; session++) {
    if (session > 0) furniture = moved(furniture, random);
    for (const place of furniture) lastSeen.set(place, session);
    const boxes = [...furniture].flatMap((place) => outline(boxAt(place)));
    const ride = rideOf(WAYS[way], [...WALLS, ...boxes], session, random);
    origin ??= ride[0].truth;
    const mapper = new Mapper({ mode: map ? "update" : "create", options: MAPPER_DEFAULTS, map });
    let placed = 0;
    for (const { scan, odometry } of ride) {
      mapper.addOdometry({ timeS: scan.timeS, pose: odometry });
      mapper.addScan(scan);
      while (mapper.work());
      if (mapper.pose()) placed++;
    }
    mapper.finish();
    const file = joinedBytes(await Array.fromAsync(mapFile(mapper.state(), MAPPER_DEFAULTS)));
    map = await readMap(pieces(file));
    const gone = [...lastSeen].filter(([, last]) => session - last >= GONE_SESSIONS).map(([place]) => place);
    yield {
      ...scored(map, ride, origin),
      session,
      bytes: file.length,
      placed,
      ...shownIn(map, origin, furniture, gone),
    };
  }
}

interface Moment {
  readonly scan: RangeScan;
  readonly truth: Pose2d;
  readonly odometry: Pose2d;
}

function scored(map: MapState, ride: readonly Moment[], origin: Pose2d) {
  const byTime = new Map(ride.map(({ scan, truth }) => [timeKey(scan.timeS), truth]));
  const errors = map.nodes.flatMap(({ ticks, globalPose }) => {
    const truth = byTime.get(timeKey(secondsOf(ticks)));
    if (!truth) return [];
    const wanted = between2d(origin, truth);
    return [Math.hypot(globalPose.x - wanted.x, globalPose.y - wanted.y)];
  }).sort((a, b) => a - b);
  return {
    submaps: map.submaps.length,
    nodes: map.nodes.length,
    constraints: map.constraints.length,
    medianM: errors[errors.length >> 1] ?? NaN,
    worstM: errors.at(-1) ?? NaN,
    scans: ride.length,
  };
}

function timeKey(timeS: number): number {
  return Math.round(timeS / STEP_S);
}

function shownIn(map: MapState, origin: Pose2d, present: Iterable<number>, gone: readonly number[]) {
  const picture = paintMap(map.submaps);
  return {
    presentShown: shownOf([...present], picture, origin),
    goneShown: shownOf(gone, picture, origin),
    goneBoxes: gone.length,
  };
}

/** The share of the outlines that is dark on the map. Boxes are seen from inside the room, so half of it is usual. */
function shownOf(places: readonly number[], picture: MapPicture, origin: Pose2d): number {
  let shown = 0, all = 0;
  const toMap = inverse2d(origin);
  for (const place of places) {
    for (const { fromX, fromY, toX, toY } of outline(boxAt(place))) {
      for (let step = 0; step < 10; step++) {
        const share = (step + 0.5) / 10;
        const at = { x: fromX + share * (toX - fromX), y: fromY + share * (toY - fromY), yaw: 0 };
        all++;
        if (isDark(picture, compose2d(toMap, at))) shown++;
      }
    }
  }
  return all === 0 ? 0 : shown / all;
}

/** Whether the pixel or one beside it is dark. */
function isDark(
  { width, height, originX, originY, intensity, known }: MapPicture,
  { x, y }: Pose2d,
): boolean {
  const column = Math.floor(x / PIXEL_M) + originX, row = originY - Math.floor(y / PIXEL_M);
  for (const dx of [-1, 0, 1]) {
    for (const dy of [-1, 0, 1]) {
      const [px, py] = [column + dx, row + dy];
      if (px < 0 || py < 0 || px >= width || py >= height) continue;
      if (known[py * width + px] && intensity[py * width + px] < DARK) return true;
    }
  }
  return false;
}

/** One time round the way, from another corner each session. */
function rideOf(
  way: readonly Place[],
  segments: readonly Segment[],
  session: number,
  random: () => number,
): Moment[] {
  const start = session % way.length, corners = [...way.slice(start), ...way.slice(0, start), way[start]];
  const obstacles = obstaclesAt({ walls: segments, doors: [], people: [] }, 0);
  const moments: Moment[] = [];
  const bias = { linear: SLIP * random(), angular: SLIP * (2 * random() - 1) };
  let truth: Pose2d = { x: corners[0][0], y: corners[0][1], yaw: headingTo(corners[0], corners[1]) };
  let odometry = IDENTITY_2D, timeS = 1_000_000 + 10_000 * session;
  const step = (linearM: number, turn: number) => {
    const arc = { x: linearM * Math.cos(turn / 2), y: linearM * Math.sin(turn / 2), yaw: turn };
    truth = compose2d(truth, arc);
    odometry = compose2d(odometry, {
      ...arc,
      x: arc.x * (1 + bias.linear),
      yaw: turn * (1 + bias.angular) + 0.002 * normal(random),
    });
    timeS += STEP_S;
    moments.push({ scan: { timeS, points: scanFrom(obstacles, truth, random) }, truth, odometry });
  };
  for (let n = 0; n < 5; n++) step(0, 0);
  for (const corner of corners.slice(1)) {
    for (let left; Math.abs(left = turnTo(truth, corner)) > 1e-6;) {
      step(0, Math.max(-TURN_RPS * STEP_S, Math.min(TURN_RPS * STEP_S, left)));
    }
    for (let left; (left = Math.hypot(corner[0] - truth.x, corner[1] - truth.y)) > 1e-6;) {
      step(Math.min(SPEED_MPS * STEP_S, left), 0);
    }
  }
  return moments;
}

function scanFrom(obstacles: ReturnType<typeof obstaclesAt>, at: Pose2d, random: () => number): Float32Array {
  const points = new Float32Array(3 * LIDAR.beams);
  for (let beam = 0; beam < LIDAR.beams; beam++) {
    const angle = 2 * Math.PI * beam / LIDAR.beams;
    const range = rangeTo(obstacles, at.x, at.y, at.yaw + angle) + LIDAR.noiseM * normal(random);
    const isSeen = range > 0 && range <= LIDAR.maxRangeM;
    points.set(isSeen ? [range * Math.cos(angle), range * Math.sin(angle), 0] : [NaN, NaN, NaN], 3 * beam);
  }
  return points;
}

function headingTo([fromX, fromY]: Place, [x, y]: Place): number {
  return Math.atan2(y - fromY, x - fromX);
}

function turnTo({ x, y, yaw }: Pose2d, corner: Place): number {
  if (Math.hypot(corner[0] - x, corner[1] - y) < 1e-6) return 0;
  const turn = headingTo([x, y], corner) - yaw;
  return Math.atan2(Math.sin(turn), Math.cos(turn));
}

function moved(furniture: ReadonlySet<number>, random: () => number): Set<number> {
  const next = new Set(furniture);
  for (const place of furniture) {
    if (random() >= MOVES_SHARE) continue;
    const free = shuffledPlaces(random).find((one) => !next.has(one) && !furniture.has(one));
    if (free === undefined) continue;
    next.delete(place);
    next.add(free);
  }
  return next;
}

function shuffledPlaces(random: () => number): number[] {
  return PLACES.map((_, place) => ({ place, at: random() })).sort((a, b) => a.at - b.at).map(({ place }) =>
    place
  );
}

function boxAt(place: number): Box {
  const [x, y] = PLACES[place];
  return { x, y, widthM: 0.5 + 0.1 * (place % 4), depthM: 0.4 + 0.1 * (place % 3) };
}

function outline({ x, y, widthM, depthM }: Box): Segment[] {
  const [left, right, bottom, top] = [x - widthM / 2, x + widthM / 2, y - depthM / 2, y + depthM / 2];
  const corners = [[left, bottom], [right, bottom], [right, top], [left, top]];
  return corners.map(([fromX, fromY], n) => {
    const [toX, toY] = corners[(n + 1) % 4];
    return { fromX, fromY, toX, toY };
  });
}

async function* pieces(file: Uint8Array): AsyncGenerator<Uint8Array> {
  yield file;
}
