/**
 * Derives the task of a movement: from the present places of all parts and the goal to the arm that has to
 * move, the pose of its end, and the bodies that it must avoid on the way.
 *
 * The obstacles are the shapes of all parts that the arm does not carry, and the obstacles in the request.
 * The parts that the arm carries move with it and may touch neither an obstacle nor the arm itself. Parts of
 * the machine that touch each other before the movement are assumed to do so by design, and may go on
 * touching.
 */

import { ArmApi } from "../../lib/api/actuators/arm.ts";
import type { Constraints, Movement, WorldState } from "../../lib/api/services/motion.ts";
import { assert, SvcError } from "../../lib/base/error.ts";
import { type Body, bodyOf, inContact, movedBody } from "../../lib/geometry/contact.ts";
import {
  type Carrier,
  carriersOf,
  type FramePart,
  ORIGIN_SUFFIX,
  transformBetween,
  WORLD,
} from "../../lib/geometry/frame_system.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import type { LineTolerance, Reach } from "../../lib/geometry/joint_path.ts";
import { linkGeometries, modelGeometries, placeFrames } from "../../lib/geometry/kinematics.ts";
import { compose, fromPose, IDENTITY, invert, type RigidTransform, toPose } from "../../lib/geometry/pose.ts";
import type { Scene } from "../../lib/resource/frame_view.ts";
import type { ResourceName } from "../../lib/resource/name.ts";

export interface MotionTask {
  readonly arm: ResourceName;
  /** Its name in the frame system. */
  readonly part: string;
  readonly reach: Omit<Reach, "pause">;
  /** Set if the end has to move in a straight line. */
  readonly line?: LineTolerance;
}

const OBSTACLES_MAX = 1_000;
/** The published meaning of a constraint without numbers. */
const DEFAULT_LINE: LineTolerance = { distanceMm: 0.1, angleDeg: 2 };

/**
 * @throws unknown (the published code) for a missing frame; failed_precondition if no arm carries the component, or
 * if a moving part already touches an obstacle; unimplemented for shapes that the planner cannot avoid
 */
export function taskOf(scene: Scene, movement: Movement, bufferMm: number): MotionTask {
  const { componentName, destination, constraints } = movement;
  const { system, inputs } = scene;
  const arm = armOf(scene, componentName);
  const model = arm.kinematics;
  const start = inputs.get(arm.name)!;
  const within = (frame: string) =>
    transformBetween(system, frame || WORLD, `${arm.name}${ORIGIN_SUFFIX}`, { inputs });

  const carried = transformBetween(system, componentName, arm.name, { inputs });
  const place = compose(within(destination.referenceFrame), fromPose(destination.pose));
  const bodies = [
    ...linksOf(arm),
    ...partBodies(scene, arm, within),
    ...obstacleBodies(movement.worldState, within),
  ];
  const atStart = placeFrames(model, start);
  const pairs = pairsOf(bodies, constraints).filter((pair) => {
    const [one, other] = pair;
    const inPlace = [placed(one.body, atStart[one.link]), placed(other.body, atStart[other.link])] as const;
    if (!inContact(...inPlace, bufferMm)) return true;
    const obstacle = pair.find(({ isObstacle }) => isObstacle);
    if (!obstacle) return false;
    const found = `${pair.find((one) => one !== obstacle)!.name} touches ${obstacle.name} where it is now`;
    throw new SvcError("failed_precondition", `moving ${componentName}: ${found}`);
  });
  return {
    arm: scene.movers.get(arm.name)!,
    part: arm.name,
    reach: {
      model,
      start,
      goal: toPose(compose(place, invert(carried))),
      touched: (positions) => {
        const places = placeFrames(model, positions);
        const now = new Map(bodies.map((one) => [one, placed(one.body, places[one.link])]));
        const found = pairs.find(([one, other]) => inContact(now.get(one)!, now.get(other)!, bufferMm));
        return found && `${found[1].name} with ${found[0].name}`;
      },
    },
    line: lineOf(constraints),
  };
}

/** The arm that carries a component on its end. */
function armOf({ system, movers }: Scene, componentName: string): Carrier["part"] {
  const carriers = carriersOf(system, componentName);
  const found = carriers.find(({ part }) => movers.get(part.name)?.api === ArmApi.name);
  const moving = `moving ${componentName}`;
  if (!found) {
    const others = carriers.flatMap(({ part }) => movers.get(part.name)?.full ?? []).join(", ");
    const wanted = "wanted an arm, or a part attached to the end of one";
    throw new SvcError(
      "failed_precondition",
      `${moving}: it is carried by ${others || "no joints"}, ${wanted}`,
    );
  }

  const { part, link } = found;
  if (link === part.kinematics.end) return part;

  const frame = part.kinematics.frames[link];
  assert(frame, "what carries a frame is a frame of its part");
  const where = `it is attached to ${frame.id} of ${part.name}`;
  throw new SvcError("unimplemented", `${moving}: ${where}, wanted its end`);
}

/** An obstacle or a moving body, in the frame of a link of the arm; link -1 is the arm's base. */
interface Placed {
  readonly name: string;
  readonly body: Body;
  readonly link: number;
  readonly isObstacle?: boolean;
}

type Within = (frame: string) => RigidTransform;

function linksOf({ kinematics }: Carrier["part"]): Placed[] {
  return linkGeometries(kinematics).map(({ frame: link, geometry }) => ({
    name: geometry.label,
    body: bodyOf(geometry),
    link,
  }));
}

/** The bodies of all parts except the arm's links. */
function partBodies({ system, inputs }: Scene, arm: Carrier["part"], within: Within): Placed[] {
  const places = placeFrames(arm.kinematics, inputs.get(arm.name)!);
  return system.parts.flatMap((part) => {
    const origin = `${part.name}${ORIGIN_SUFFIX}`;
    const geometries = geometriesOf(part, part === arm ? undefined : inputs.get(part.name));
    if (geometries.length === 0) return [];
    const link = carriersOf(system, origin).find((carrier) => carrier.part === arm)?.link ?? -1;
    const place = compose(invert(places[link] ?? IDENTITY), within(origin));
    return geometries.map((geometry) => ({
      name: geometry.label || part.name,
      body: movedBody(bodyOf(geometry), place),
      link,
    }));
  });
}

/**
 * The part's shapes in the frame of its origin. Shapes of links are included only if `positions` are given or
 * the part has no joints.
 */
function geometriesOf(
  { name, geometry, moreGeometries = [], kinematics }: FramePart,
  positions: readonly number[] | undefined,
): Geometry[] {
  const more = moreGeometries.map((one, index) => ({ ...one, label: `${name}:${one.label || index + 2}` }));
  const own = geometry ? [{ ...geometry, label: name }, ...more] : [];
  if (!kinematics || (!positions && kinematics.joints.length > 0)) return own;
  return [...own, ...modelGeometries(kinematics, positions ?? [])];
}

function obstacleBodies({ obstacles }: WorldState, within: Within): Placed[] {
  const all = obstacles.flatMap(({ referenceFrame, geometries }) => {
    const place = within(referenceFrame);
    return geometries.map((geometry) => ({ geometry, place }));
  });
  if (all.length > OBSTACLES_MAX) {
    throw new SvcError("invalid_argument", `found ${all.length} obstacles, wanted at most ${OBSTACLES_MAX}`);
  }
  return all.map(({ geometry, place }, index) => ({
    name: geometry.label || `obstacle ${index + 1}`,
    body: movedBody(bodyOf(geometry), place),
    link: -1,
    isObstacle: true,
  }));
}

/** The pairs whose distance the movement changes, each with the body further out on the arm first. */
function pairsOf(bodies: readonly Placed[], { allowedCollisions }: Constraints): [Placed, Placed][] {
  const isNamed = ({ name }: Placed, frame: string) => name === frame || name.startsWith(`${frame}:`);
  const isAllowed = (one: Placed, other: Placed) =>
    allowedCollisions.some(({ frame1, frame2 }) =>
      (isNamed(one, frame1) && isNamed(other, frame2)) || (isNamed(one, frame2) && isNamed(other, frame1))
    );
  return bodies.flatMap((one, index) =>
    bodies.slice(index + 1).flatMap((other): [Placed, Placed][] => {
      if (one.link === other.link || isAllowed(one, other)) return [];
      return [one.link > other.link ? [one, other] : [other, one]];
    })
  );
}

function placed(body: Body, place: RigidTransform | undefined): Body {
  return place ? movedBody(body, place) : body;
}

/** The tolerance that satisfies all constraints together; `undefined` without constraints. */
function lineOf({ linear, pseudolinear, orientation }: Constraints): LineTolerance | undefined {
  if (linear.length + pseudolinear.length + orientation.length === 0) return undefined;
  const tolerance = {
    distanceMm: Math.min(
      ...linear.map(({ lineToleranceMm = DEFAULT_LINE.distanceMm }) => lineToleranceMm),
      ...pseudolinear.map(() => DEFAULT_LINE.distanceMm),
    ),
    angleDeg: Math.min(
      ...[...linear, ...orientation].map(({ orientationToleranceDegs = DEFAULT_LINE.angleDeg }) => {
        return orientationToleranceDegs;
      }),
      ...pseudolinear.map(() => DEFAULT_LINE.angleDeg),
    ),
  };
  if (tolerance.distanceMm >= 0 && tolerance.angleDeg >= 0) return tolerance;

  throw new SvcError("invalid_argument", "found a constraint with a tolerance below 0");
}
