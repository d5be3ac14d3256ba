/**
 * Worlds for mappers, one for each seed: a place, a way through it, a lidar, odometry with a fault, people. The place
 * and the fault go through all their pairs in turn; everything else is drawn at random.
 *
 * The room owns the measure of a mapper in generated worlds: `accuracy:slam --worlds`.
 */

import { randomFrom } from "../../../lib/geometry/random.ts";
import type { Segment } from "../../../lib/slam/simulation/building.ts";

const PLACES = ["room", "hall", "niches", "bare corridor", "warehouse", "courtyard"] as const;
export type PlaceName = typeof PLACES[number];

const FAULTS = ["perfect", "slips 5 %", "late 0.2 s", "frozen 10 s", "jumps 1 m", "absent"] as const;
export type OdometryFault = typeof FAULTS[number];

/** A place of the way. */
interface WayPoint {
  readonly x: number;
  readonly y: number;
}

export interface Walker {
  readonly walk: Segment;
  readonly speedMps: number;
  readonly phaseS: number;
}

export interface WorldLidar {
  readonly beams: number;
  readonly stepRad: number;
  /** The angle by which all beams turn from one scan to the next, as a share of the step; 0: they are fixed. */
  readonly driftShare: number;
  readonly scanHz: number;
  readonly noiseM: number;
  /** The time from the first to the last beam of a scan. */
  readonly sweepS: number;
  readonly maxRangeM: number;
}

export interface World {
  readonly seed: number;
  readonly place: PlaceName;
  readonly fault: OdometryFault;
  /** Whether frozen odometry goes on from its old value, and a slip is the same all along. */
  readonly isOther: boolean;
  readonly walls: readonly Segment[];
  readonly walkers: readonly Walker[];
  readonly way: readonly WayPoint[];
  readonly speedMps: number;
  readonly turnRps: number;
  readonly lidar: WorldLidar;
  /** The way ends after this time, wherever the robot is; it stands for a second then. */
  readonly endS: number;
}

/** Limits of a ride. */
const SCANS_MAX = 450;
const LONGEST_S = 300;
const NOISES_M = [0, 0.01, 0.02, 0.03, 0.05];
const BEAM_STEPS_DEG = [0.25, 0.5, 1];
const PEOPLE = [0, 0, 0, 1, 3, 8, 20];

type Random = () => number;

export function worldOf(seed: number): World {
  const random = randomFrom(Math.imul(seed + 1, 0x9e3779b1));
  const between = (least: number, most: number) => least + (most - least) * random();
  const oneOf = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)];
  const place = PLACES[seed % PLACES.length];
  const fault = FAULTS[Math.floor(seed / PLACES.length) % FAULTS.length];
  // Evenly on the logarithm: slow robots are as usual as quick ones.
  const speedMps = 0.05 * 20 ** random();
  const turnRps = 0.2 * 10 ** random();
  const scanHz = Math.max(1, Math.round(20 ** random()));
  const stepDeg = oneOf(BEAM_STEPS_DEG);
  const beams = Math.min(Math.round(360 / stepDeg), Math.round(90 * 8 ** random()));
  const period = 1 / scanHz;
  const { walls, way, walks } = laidOut(place, random);
  const lidar = {
    beams,
    stepRad: stepDeg * Math.PI / 180,
    driftShare: random() < 0.5 ? 0 : between(0.05, 0.95),
    scanHz,
    noiseM: oneOf(NOISES_M),
    sweepS: random() < 0.4 ? 0 : Math.min(period, between(0.02, 0.2)),
    maxRangeM: place === "courtyard" ? 80 : oneOf([8, 12, 25]),
  };
  const people = oneOf(PEOPLE);
  return {
    seed,
    place,
    fault,
    isOther: random() < 0.5,
    walls,
    walkers: Array.from({ length: people }, (_, k) => ({
      walk: walks[k % walks.length],
      speedMps: between(0.5, 1.4),
      phaseS: 40 * random(),
    })),
    way,
    speedMps,
    turnRps,
    lidar,
    endS: Math.min(SCANS_MAX / scanHz, LONGEST_S),
  };
}

interface Layout {
  readonly walls: readonly Segment[];
  readonly way: readonly WayPoint[];
  /** Where people walk. */
  readonly walks: readonly Segment[];
}

function laidOut(place: PlaceName, random: Random): Layout {
  if (place === "room") return room(random);
  if (place === "hall") return hall(random);
  if (place === "warehouse") return warehouse(random);
  if (place === "courtyard") return courtyard(random);
  return corridor(place === "niches", random);
}

/** Four walls and some furniture at them; the robot drives around the middle. */
function room(random: Random): Layout {
  const x = 3 + 2 * random(), y = 2.5 + 1.5 * random();
  const walls = box(-x, -y, x, y);
  for (let k = 0; k < 4; k++) {
    const wide = 0.3 + 0.9 * random(), deep = 0.3 + 0.4 * random();
    const at = (2 * random() - 1) * (x - wide);
    if (k % 2 === 0) walls.push(...box(at, y - deep, at + wide, y));
    else walls.push(...box(at, -y, at + wide, -y + deep));
  }
  const inX = x - 1.2, inY = y - 1.4;
  const way = rounds([[-inX, -inY], [inX, -inY], [inX, inY], [-inX, inY]], 3);
  return { walls, way, walks: across(inX, inY) };
}

/** Ten by eight metres with nothing in it. */
function hall(random: Random): Layout {
  const way = random() < 0.5 ? [[-3, -2], [3, -2]] : rounds([[-3, -2], [3, -2], [3, 2], [-3, 2]], 2);
  return { walls: box(-5, -4, 5, 4), way: points(way), walks: across(3.5, 2.5) };
}

/** 2.4 m wide; with niches of any width and depth, or bare for so long that no lidar sees both ends. */
function corridor(hasNiches: boolean, random: Random): Layout {
  const length = hasNiches ? 40 : 60, walls: Segment[] = [];
  for (const side of [1.2, -1.2]) {
    let x = 0;
    while (hasNiches && x < length - 5) {
      const from = x + 1 + 3 * random(), wide = 0.6 + 1.2 * random(), deep = 0.15 + 0.6 * random();
      const out = side + Math.sign(side) * deep;
      walls.push(
        segment(x, side, from, side),
        segment(from, side, from, out),
        segment(from, out, from + wide, out),
        segment(from + wide, out, from + wide, side),
      );
      x = from + wide;
    }
    walls.push(segment(x, side, length, side));
  }
  walls.push(segment(0, -1.2, 0, 1.2), segment(length, -1.2, length, 1.2));
  const near = hasNiches ? 2 : 12, far = hasNiches ? 30 : 45;
  const way = random() < 0.5
    ? [{ x: near, y: 0 }, { x: far, y: 0 }]
    : [{ x: near, y: 0.2 }, { x: near + 6, y: -0.2 }, { x: near, y: 0 }, { x: far, y: 0 }];
  return { walls, way, walks: [segment(1, 0.7, length - 1, 0.5), segment(1, -0.7, length - 1, -0.8)] };
}

/** Rows of racks of unequal lengths, pillars in a regular grid. */
function warehouse(random: Random): Layout {
  const walls = box(-2, -2, 28, 18);
  for (let row = 0; row < 4; row++) {
    const y = 1.5 + 4 * row, split = 6 + 6 * random();
    walls.push(...box(1.5 + random(), y, split, y + 1.2), ...box(split + 1.5, y, 22 + 2 * random(), y + 1.2));
  }
  for (const x of [25.5]) for (const y of [2, 6, 10, 14]) walls.push(...box(x, y, x + 0.4, y + 0.4));
  const way = rounds([[0, 0], [24, 0], [24, 4.1], [0, 4.1]], 2);
  return { walls, way, walks: [segment(0, 0.3, 24, 0.3), segment(0, 4.3, 23, 4), segment(0, 8.2, 23, 8)] };
}

/** Rough hedges and house fronts, 5 to 60 m away. */
function courtyard(random: Random): Layout {
  const walls: Segment[] = [];
  const corners = 90;
  let reach = 20;
  let first: WayPoint | undefined, last: WayPoint | undefined;
  for (let k = 0; k < corners; k++) {
    reach = Math.min(60, Math.max(12, reach * (0.85 + 0.32 * random())));
    const angle = 2 * Math.PI * k / corners;
    const next = { x: reach * Math.cos(angle), y: reach * Math.sin(angle) };
    if (last) walls.push(...rough(last, next, random));
    first ??= next;
    last = next;
  }
  if (first && last) walls.push(...rough(last, first, random));
  for (let k = 0; k < 5; k++) {
    const angle = 2 * Math.PI * random(), far = 8.5 + 3 * random(), side = 0.3 + random();
    const x = far * Math.cos(angle), y = far * Math.sin(angle);
    walls.push(...box(x, y, x + side, y + side));
  }
  const way = rounds([[-5, -3], [5, -3], [5, 3], [-5, 3]], 3);
  return { walls, way, walks: across(6, 5) };
}

/** A line with steps of up to 15 cm every metre or so. */
function rough(from: WayPoint, to: WayPoint, random: Random): Segment[] {
  const long = Math.hypot(to.x - from.x, to.y - from.y), count = Math.max(1, Math.round(long));
  const segments: Segment[] = [];
  let { x, y } = from;
  for (let k = 1; k <= count; k++) {
    const off = k === count ? 0 : 0.3 * (random() - 0.5);
    const nextX = from.x + (to.x - from.x) * k / count - off * (to.y - from.y) / long;
    const nextY = from.y + (to.y - from.y) * k / count + off * (to.x - from.x) / long;
    segments.push(segment(x, y, nextX, nextY));
    [x, y] = [nextX, nextY];
  }
  return segments;
}

function segment(fromX: number, fromY: number, toX: number, toY: number): Segment {
  return { fromX, fromY, toX, toY };
}

function box(minX: number, minY: number, maxX: number, maxY: number): Segment[] {
  return [
    segment(minX, minY, maxX, minY),
    segment(maxX, minY, maxX, maxY),
    segment(maxX, maxY, minX, maxY),
    segment(minX, maxY, minX, minY),
  ];
}

function across(x: number, y: number): Segment[] {
  return [segment(-x, -y, x, y), segment(-x, y, x, -y), segment(0, -y, 0.3, y), segment(-x, 0.4, x, 0)];
}

/** The corners, this many times around. */
function rounds(corners: readonly (readonly number[])[], times: number): WayPoint[] {
  return points(Array.from({ length: times }, () => corners).flat());
}

function points(list: readonly (readonly number[] | WayPoint)[]): WayPoint[] {
  return list.map((one) => "x" in one ? one : { x: one[0], y: one[1] });
}
