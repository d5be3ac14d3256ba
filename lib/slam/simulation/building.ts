/**
 * A building in the plane: fixed walls, doors that open and close, people who walk. Everything in it is a function of
 * time, so that all observers see the same building.
 *
 * The room owns a simulated world for sensors and mappers: a building, a robot that drives in it, and its measurements.
 * Metres, radians and seconds; pure functions.
 */

import { randomFrom } from "../../geometry/random.ts";

export interface Segment {
  readonly fromX: number;
  readonly fromY: number;
  readonly toX: number;
  readonly toY: number;
}

/** A leaf that swings about its hinge: closed, opening, open, closing, each for a quarter of its period. */
interface Door {
  readonly hingeX: number;
  readonly hingeY: number;
  readonly widthM: number;
  /** The direction of the closed leaf. */
  readonly closedAngle: number;
  readonly periodS: number;
  readonly phaseS: number;
}

/** A person who walks to and fro between two places. */
interface Person {
  readonly walk: Segment;
  readonly speedMps: number;
  readonly phaseS: number;
}

export interface Building {
  readonly walls: readonly Segment[];
  readonly doors: readonly Door[];
  readonly people: readonly Person[];
}

const PERSON_RADIUS_M = 0.25;
const DOOR_WIDTH_M = 0.9;
const DOOR_PERIOD_S = 60;
const OPEN_ANGLE = Math.PI / 2;
const PEOPLE_SEED = 4;
/** Walks of people, in turn: the corridor, the hall, an office. */
const WALKS: readonly [Segment, ...Segment[]] = [
  { fromX: -6, fromY: 0.6, toX: 6, toY: 0.4 },
  { fromX: 3, fromY: 2, toX: 6, toY: 4 },
  { fromX: -6, fromY: -3.5, toX: -3, toY: -2 },
  { fromX: 0.5, fromY: -4, toX: 4.5, toY: -2.2 },
];

/** Names of buildings. */
const BUILDINGS = ["office", "hall"] as const;
export type BuildingName = typeof BUILDINGS[number];

/** A free place in each building. */
export const STARTS: { readonly [B in BuildingName]: { readonly x: number; readonly y: number } } = {
  office: { x: -6.5, y: 0 },
  hall: { x: -3, y: -2 },
};

/** A building with this many people. */
export function building(name: BuildingName, people: number): Building {
  const { walls, doors } = name === "office" ? office() : { walls: rectangle(-5, -4, 5, 4), doors: [] };
  const random = randomFrom(PEOPLE_SEED);
  const walkers = Array.from({ length: people }, (_, index) => ({
    walk: WALKS[index % WALKS.length] ?? WALKS[0],
    speedMps: 0.6 + 0.8 * random(),
    phaseS: 20 * random(),
  }));
  return { walls, doors, people: walkers };
}

/** Sixteen by ten metres: a corridor in the middle, three rooms on each side of it, a pillar in the hall. */
function office(): Pick<Building, "walls" | "doors"> {
  const walls = [
    ...rectangle(-8, -5, 8, 5),
    // The corridor's sides, with gaps where the doors are.
    ...wall(-8, 1.2, 8, 1.2, [-5, 0, 5]),
    ...wall(-8, -1.2, 8, -1.2, [-6, -0.5, 4]),
    // Between the rooms; those in the south have no two of a size.
    ...wall(-2, 1.2, -2, 5, []),
    ...wall(2.5, 1.2, 2.5, 5, []),
    ...wall(-3, -5, -3, -1.2, []),
    ...wall(2, -5, 2, -1.2, []),
    ...rectangle(5.2, 3, 5.8, 3.6),
    ...rectangle(-7.6, -4.8, -6.4, -4.2),
    ...rectangle(0.2, 4.2, 1.6, 4.8),
  ];
  const door = (hingeX: number, hingeY: number, phaseS: number): Door => ({
    hingeX,
    hingeY,
    widthM: DOOR_WIDTH_M,
    closedAngle: 0,
    periodS: DOOR_PERIOD_S,
    phaseS,
  });
  return { walls, doors: [door(-5.45, 1.2, 5), door(4.55, 1.2, 25), door(-0.95, -1.2, 45)] };
}

function rectangle(minX: number, minY: number, maxX: number, maxY: number): Segment[] {
  return [
    { fromX: minX, fromY: minY, toX: maxX, toY: minY },
    { fromX: maxX, fromY: minY, toX: maxX, toY: maxY },
    { fromX: maxX, fromY: maxY, toX: minX, toY: maxY },
    { fromX: minX, fromY: maxY, toX: minX, toY: minY },
  ];
}

/** A wall along x with openings as wide as a door around the given places, or a wall along y without openings. */
function wall(
  fromX: number,
  fromY: number,
  toX: number,
  toY: number,
  openings: readonly number[],
): Segment[] {
  const segments: Segment[] = [];
  let startX = fromX;
  for (const at of openings) {
    segments.push({ fromX: startX, fromY, toX: at - DOOR_WIDTH_M / 2, toY });
    startX = at + DOOR_WIDTH_M / 2;
  }
  return [...segments, { fromX: startX, fromY, toX, toY }];
}

/** The obstacles at a moment. */
export interface Obstacles {
  readonly segments: readonly Segment[];
  readonly people: readonly { readonly x: number; readonly y: number }[];
}

export function obstaclesAt({ walls, doors, people }: Building, timeS: number): Obstacles {
  return {
    segments: [...walls, ...doors.map((door) => leafAt(door, timeS))],
    people: people.map((person) => positionOf(person, timeS)),
  };
}

function leafAt({ hingeX, hingeY, widthM, closedAngle, periodS, phaseS }: Door, timeS: number): Segment {
  const quarter = 4 * share(timeS + phaseS, periodS);
  // Closed, opening, open, closing.
  const open = Math.max(0, Math.min(quarter - 1, 1, 4 - quarter));
  const angle = closedAngle + open * OPEN_ANGLE;
  return {
    fromX: hingeX,
    fromY: hingeY,
    toX: hingeX + widthM * Math.cos(angle),
    toY: hingeY + widthM * Math.sin(angle),
  };
}

function positionOf({ walk, speedMps, phaseS }: Person, timeS: number): { x: number; y: number } {
  const { fromX, fromY, toX, toY } = walk;
  const lengthM = Math.hypot(toX - fromX, toY - fromY);
  const there = share(timeS + phaseS, 2 * lengthM / speedMps) * 2;
  const along = there < 1 ? there : 2 - there;
  return { x: fromX + (toX - fromX) * along, y: fromY + (toY - fromY) * along };
}

/** The elapsed fraction of a period, from 0 to 1. */
function share(timeS: number, periodS: number): number {
  return (timeS % periodS + periodS) % periodS / periodS;
}

/** The distance to the nearest obstacle in a direction; infinite without one. */
export function rangeTo({ segments, people }: Obstacles, x: number, y: number, angle: number): number {
  const dx = Math.cos(angle), dy = Math.sin(angle);
  let nearest = Infinity;
  for (const { fromX, fromY, toX, toY } of segments) {
    const ex = toX - fromX, ey = toY - fromY;
    const across = dx * ey - dy * ex;
    if (across === 0) continue;
    const range = ((fromX - x) * ey - (fromY - y) * ex) / across;
    const along = ((fromX - x) * dy - (fromY - y) * dx) / across;
    if (range >= 0 && range < nearest && along >= 0 && along <= 1) nearest = range;
  }
  for (const person of people) {
    const ahead = (person.x - x) * dx + (person.y - y) * dy;
    const aside = (person.x - x) * dy - (person.y - y) * dx;
    if (ahead <= 0 || Math.abs(aside) >= PERSON_RADIUS_M) continue;
    const range = ahead - Math.sqrt(PERSON_RADIUS_M ** 2 - aside ** 2);
    if (range >= 0 && range < nearest) nearest = range;
  }
  return nearest;
}

/** The distance from a place to the nearest obstacle. */
export function clearance({ segments, people }: Obstacles, x: number, y: number): number {
  let nearest = Infinity;
  for (const { fromX, fromY, toX, toY } of segments) {
    const ex = toX - fromX, ey = toY - fromY;
    const along = Math.min(1, Math.max(0, ((x - fromX) * ex + (y - fromY) * ey) / (ex * ex + ey * ey)));
    nearest = Math.min(nearest, Math.hypot(x - fromX - along * ex, y - fromY - along * ey));
  }
  for (const person of people) {
    nearest = Math.min(nearest, Math.hypot(person.x - x, person.y - y) - PERSON_RADIUS_M);
  }
  return nearest;
}
