/**
 * The machine's frames with their present poses and geometries, the clouds of chosen cameras, and what world state stores
 * hold: asked while the scene is seen.
 */

import {
  ArmClient,
  BaseClient,
  CameraClient,
  GantryClient,
  type Geometry,
  GripperClient,
  type RobotClient,
  type Transform,
  WorldStateStoreClient,
} from "@viamrobotics/sdk";
import { useLink } from "../link/page_link.svelte.ts";
import { poll } from "../link/poll.svelte.ts";
import { useStatus } from "../link/machine_status.svelte.ts";
import type { WirePose } from "./pose.ts";
import { parentOf, parentsInStore } from "./stored_frames.ts";

const FRAMES_EVERY_MS = 5000;
const POSES_EVERY_MS = 250;
const CLOUDS_EVERY_MS = 1000;
const FRAMES_MAX = 100;
const TRANSFORMS_MAX = 200;
const WORLD = "world";
const ORIGIN: WirePose = { x: 0, y: 0, z: 0, oX: 0, oY: 0, oZ: 1, theta: 0 };

/** Types whose resources tell their own geometries, by the present position of their joints. */
const MOVING = { arm: ArmClient, gantry: GantryClient, gripper: GripperClient, base: BaseClient } as const;

export interface SceneFrame {
  readonly name: string;
  readonly parent: string;
  /** In the world. */
  readonly pose: WirePose;
  readonly geometries: readonly Geometry[];
  /** The pose in the world of what the geometries are relative to. */
  readonly geometriesPose: WirePose;
}

export interface SceneCloud {
  readonly camera: string;
  readonly pose: WirePose;
  readonly pcd: Uint8Array;
  /** In place of the points' own. */
  readonly colour?: string;
}

interface KnownFrame {
  readonly name: string;
  readonly parent: string;
  readonly geometry?: Geometry;
}

export class SceneFrames {
  readonly #link = useLink();
  readonly #status = useStatus();
  /** Cameras whose points are shown. */
  clouded = $state<string[]>([]);

  readonly #known = poll(knownFrames, FRAMES_EVERY_MS);
  readonly #poses = poll((client) => this.#posed(client), POSES_EVERY_MS);
  readonly #clouds = poll((client) => this.#fetchClouds(client), CLOUDS_EVERY_MS, {
    enabled: () => this.clouded.length > 0,
  });
  readonly #transforms = poll((client) => this.#fetchStores(client), CLOUDS_EVERY_MS, {
    enabled: () => this.#named("world_state_store").length > 0,
  });

  readonly frames = $derived(this.#poses.value ?? []);
  readonly clouds = $derived(this.clouded.length > 0 ? this.#clouds.value ?? [] : []);
  readonly stored = $derived(this.#transforms.value ?? []);
  readonly cameras = $derived(this.#named("camera"));
  readonly problem = $derived(this.#known.problem ?? this.#poses.problem ?? this.#clouds.problem);
  readonly isEmpty = $derived(this.#known.value?.length === 0);

  get isConnected(): boolean {
    return this.#link.isConnected;
  }

  #named(type: string): string[] {
    return this.#status.resources.filter((one) => one.type === type && one.state === "ready").map((
      { name },
    ) => name);
  }

  async #posed(client: RobotClient): Promise<SceneFrame[]> {
    const known = this.#known.value ?? [];
    const types = new Map(this.#status.resources.map(({ name, type }) => [name, type]));
    return await Promise.all(
      known.slice(0, FRAMES_MAX).map(async ({ name, parent, geometry }) => {
        const pose = await fetchPose(client, name);
        const own = await ownGeometries(client, types.get(name), name);
        if (own) {
          return {
            name,
            parent,
            pose,
            geometries: own,
            geometriesPose: await fetchPose(client, `${name}_origin`, pose),
          };
        }
        return { name, parent, pose, geometries: geometry ? [geometry] : [], geometriesPose: pose };
      }),
    );
  }

  async #fetchClouds(client: RobotClient): Promise<SceneCloud[]> {
    const found = await Promise.allSettled(this.clouded.map(async (camera) => ({
      camera,
      pose: await fetchPose(client, camera),
      pcd: await new CameraClient(client, camera).getPointCloud(),
    })));
    const failed = found.find((one) => one.status === "rejected");
    const clouds = found.flatMap((one) => one.status === "fulfilled" ? [one.value] : []);
    if (failed && clouds.length === 0) throw failed.reason;
    return clouds;
  }

  async #fetchStores(client: RobotClient): Promise<SceneFrame[]> {
    const names = new Set((this.#known.value ?? []).flatMap(({ name }) => [name, `${name}_origin`]));
    const all = await Promise.all(
      this.#named("world_state_store").map(async (name) => {
        const store = new WorldStateStoreClient(client, name);
        const uuids = (await store.listUUIDs()).slice(0, TRANSFORMS_MAX);
        const transforms = fulfilled(await Promise.allSettled(uuids.map((uuid) => store.getTransform(uuid))))
          .filter((one) => one !== undefined);
        const stored = new Map(transforms.map((one) => [one.referenceFrame, one]));
        // One whose place is unknown is not drawn.
        return fulfilled(
          await Promise.allSettled(transforms.map(async (one): Promise<SceneFrame> => {
            const { referenceFrame: name, physicalObject } = one;
            const pose = await storedPose(client, one, stored, names);
            const geometries = physicalObject ? [physicalObject] : [];
            return { name, parent: parentOf(one), pose, geometries, geometriesPose: pose };
          })),
        );
      }),
    );
    return all.flat();
  }
}

function fulfilled<T>(settled: readonly PromiseSettledResult<T>[]): T[] {
  return settled.flatMap((one) => one.status === "fulfilled" ? [one.value] : []);
}

/** The pose of a stored transform in the world. Rejects if nothing leads there. */
async function storedPose(
  client: RobotClient,
  transform: Transform,
  stored: ReadonlyMap<string, Transform>,
  names: ReadonlySet<string>,
): Promise<WirePose> {
  const frame = parentOf(transform);
  const pose = { ...ORIGIN, ...transform.poseInObserverFrame?.pose };
  if (frame === WORLD) return pose;
  const parents = parentsInStore(transform, stored, (name) => names.has(name));
  // The machine may know more frames than it lists, such as the links of an arm.
  return await poseInWorld(client, frame, pose, [...parents ?? []]);
}

async function knownFrames(client: RobotClient): Promise<KnownFrame[]> {
  const parts = await client.frameSystemConfig([]);
  return parts.map(({ frame }) => ({
    name: frame?.referenceFrame ?? "",
    parent: frame?.poseInObserverFrame?.referenceFrame || WORLD,
    geometry: frame?.physicalObject,
  }));
}

/** The pose of a frame in the world; of one that the machine does not know, `other`. */
async function fetchPose(client: RobotClient, frame: string, other: WirePose = ORIGIN): Promise<WirePose> {
  try {
    return await poseInWorld(client, frame, ORIGIN);
  } catch {
    return other;
  }
}

/** A pose in a frame as it is in the world. Rejects if the machine does not know the frame. */
export async function poseInWorld(
  client: RobotClient,
  frame: string,
  pose: WirePose,
  supplementalTransforms: Transform[] = [],
): Promise<WirePose> {
  const answer = await client.robotService.transformPose({
    source: { referenceFrame: frame, pose },
    destination: WORLD,
    supplementalTransforms,
  });
  return { ...ORIGIN, ...answer.pose?.pose };
}

/** `undefined` for a resource that tells none. */
async function ownGeometries(
  client: RobotClient,
  type: string | undefined,
  name: string,
): Promise<Geometry[] | undefined> {
  const Client = MOVING[type as keyof typeof MOVING];
  if (!Client) return undefined;
  try {
    const found = await new Client(client, name).getGeometries();
    return found.length > 0 ? found : undefined;
  } catch {
    return undefined;
  }
}
