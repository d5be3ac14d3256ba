/**
 * A world without sensors: a box that turns, a sphere that goes up and down, a capsule that breathes, and a smaller box
 * that comes and goes in front of each. Everything follows from the time since the start.
 */

import {
  type TransformChange,
  type WorldStateStore,
  WorldStateStoreApi,
  type WorldTransform,
} from "../../lib/api/services/world_state_store.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource, type Call } from "../../lib/resource/resource.ts";

const FRAMES_PER_SECOND = 10, FRAMES_PER_SECOND_MAX = 100;
const TURN_MS = 5_000;
const STEP_MS = 3_000;
/** By place: in front of the box, the sphere, the capsule. */
const GUESTS = [["box-front-box", -5000], ["box-front-sphere", 0], ["box-front-capsule", 5000]] as const;

export const FakeWorldStateStore = model({
  api: WorldStateStoreApi,
  name: "rdk:builtin:fake",
  doc: "A world without sensors: shapes that turn, move, breathe, come and go.",
  attributes: object({}),
  construct: ({ name, clock }) => new Fake(name, clock),
});

class Fake extends BaseResource implements WorldStateStore {
  readonly #closing = new AbortController();
  readonly #startMs: number;
  #framesPerSecond = FRAMES_PER_SECOND;

  constructor(name: ResourceName, private readonly clock: Clock) {
    super(name);
    this.#startMs = clock.monotonicMs();
  }

  listUuids(): Promise<readonly Uint8Array[]> {
    return Promise.resolve([...this.#world().keys()].map(bytesOf));
  }

  getTransform(uuid: Uint8Array): Promise<WorldTransform> {
    const found = this.#world().get(new TextDecoder().decode(uuid));
    if (found) return Promise.resolve(found);
    return Promise.reject(new SvcError("not_found", `${this.name}: transform not found`));
  }

  async *streamTransformChanges(call?: Call): AsyncGenerator<TransformChange> {
    const signal = AbortSignal.any([this.#closing.signal, ...call?.signal ? [call.signal] : []]);
    let before = new Set(this.#world().keys());
    for (;;) {
      await this.clock.sleep(1000 / this.#framesPerSecond, signal);
      const now = this.#world();
      for (const [id, transform] of now) {
        if (!before.has(id)) yield { type: "added", transform, updatedFields: [] };
      }
      for (const id of before) {
        if (!now.has(id)) yield { type: "removed", transform: { uuid: bytesOf(id) }, updatedFields: [] };
      }
      yield* movements(this.#elapsedMs());
      before = new Set(now.keys());
    }
  }

  /** `fps`: how many times a second the movements are told. */
  override doCommand({ fps }: JsonObject): Promise<JsonObject> {
    if (typeof fps !== "number") return Promise.resolve({ status: "do command not implemented" });
    if (!(fps > 0 && fps <= FRAMES_PER_SECOND_MAX)) {
      const wanted = `wanted more than 0 and at most ${FRAMES_PER_SECOND_MAX}`;
      return Promise.reject(new SvcError("invalid_argument", `${this.name}: found fps ${fps}, ${wanted}`));
    }
    this.#framesPerSecond = fps;
    return Promise.resolve({ fps });
  }

  override close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", `${this.name} is closed`));
    return Promise.resolve();
  }

  #elapsedMs(): number {
    return this.clock.monotonicMs() - this.#startMs;
  }

  #world(): Map<string, WorldTransform> {
    const elapsedMs = this.#elapsedMs();
    const { thetaDeg, heightMm, radiusMm, lengthMm } = motion(elapsedMs);
    const box = { case: "box" as const, value: { dimsMm: { x: 1000, y: 1000, z: 1000 } } };
    const sphere = { case: "sphere" as const, value: { radiusMm: 500 } };
    const capsule = { case: "capsule" as const, value: { radiusMm, lengthMm } };
    const world = new Map([
      [
        "box-001",
        shape("box-001", "static-box", { x: -5000, theta: thetaDeg }, box, {
          color: [255, 0, 0],
          opacity: 0.5,
        }),
      ],
      [
        "sphere-001",
        shape("sphere-001", "static-sphere", { y: heightMm }, sphere, { color: [0, 0, 255], opacity: 0.7 }),
      ],
      [
        "capsule-001",
        shape("capsule-001", "static-capsule", { x: 5000 }, capsule, { color: [0, 255, 0], opacity: 1 }),
      ],
    ]);

    const step = Math.floor(elapsedMs / STEP_MS);
    if (step % 2 === 0) {
      const [name, x] = GUESTS[step / 2 % GUESTS.length] ?? GUESTS[0];
      const small = { case: "box" as const, value: { dimsMm: { x: 500, y: 500, z: 500 } } };
      const id = `${name}-${step}`;
      world.set(id, shape(id, "dynamic-box", { x, y: -2000 }, small, { color: [255, 0, 255], opacity: 0.3 }));
    }

    return world;
  }
}

function motion(elapsedMs: number) {
  const turn = elapsedMs / TURN_MS, wave = Math.sin(2 * Math.PI * turn), scale = 1 + wave / 2;
  return { thetaDeg: 360 * turn, heightMm: 2000 * wave, radiusMm: 125 * scale, lengthMm: 1000 * scale };
}

function movements(elapsedMs: number): TransformChange[] {
  const { thetaDeg: theta, heightMm: y, radiusMm, lengthMm } = motion(elapsedMs);
  const capsule = { geometryType: { case: "capsule" as const, value: { radiusMm, lengthMm } } };
  const updated = (id: string, changed: WorldTransform, ...updatedFields: string[]): TransformChange => {
    return { type: "updated", transform: { ...changed, uuid: bytesOf(id) }, updatedFields };
  };
  const size = "physicalObject.geometryType.value";
  return [
    updated("box-001", { poseInObserverFrame: { pose: { theta } } }, "poseInObserverFrame.pose.theta"),
    updated("sphere-001", { poseInObserverFrame: { pose: { y } } }, "poseInObserverFrame.pose.y"),
    updated("capsule-001", { physicalObject: capsule }, `${size}.radiusMm`, `${size}.lengthMm`),
  ];
}

type GeometryType = NonNullable<NonNullable<WorldTransform["physicalObject"]>["geometryType"]>;

function shape(
  id: string,
  referenceFrame: string,
  at: { x?: number; y?: number; theta?: number },
  geometryType: GeometryType,
  { color: [r, g, b], opacity }: {
    readonly color: readonly [number, number, number];
    readonly opacity: number;
  },
): WorldTransform {
  return {
    uuid: bytesOf(id),
    referenceFrame,
    poseInObserverFrame: { referenceFrame: "world", pose: { x: 0, y: 0, z: 0, oZ: 1, theta: 0, ...at } },
    physicalObject: { geometryType },
    metadata: { color: { r, g, b }, opacity },
  };
}

function bytesOf(id: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(id);
}
