/**
 * The machine's frame system: the configured frames, the present kinematics of its arms, gantries and grippers, and
 * the last known frames of its remotes.
 *
 * A part that cannot be placed is left out, and the log says why, once. Joints are read only if the answer depends on
 * them, so an arm that does not answer affects only what is mounted on it.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { DecodeContext } from "../../base/schema/schema.ts";
import type { Kinematics } from "../../api/shared/kinematics.ts";
import {
  buildFrameSystem,
  type FramePart,
  type FrameSystem,
  type PoseInFrame,
  transformBetween,
  transformPose,
} from "../../geometry/frame_system.ts";
import type { Geometry } from "../../geometry/geometry.ts";
import { type KinematicModel, modelWarnings, parseKinematics } from "../../geometry/kinematics.ts";
import type { RigidTransform } from "../../geometry/pose.ts";
import { frameField, type FrameSettings } from "../../geometry/schema.ts";
import type { ReadJoints } from "../../resource/facets.ts";
import type { FrameView, Scene } from "../../resource/frame_view.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Call, Component, Resource } from "../../resource/resource.ts";
import type { ResourceConfig } from "../config/config.ts";
import type { Node } from "./pass/node.ts";
import type { RemoteFrame } from "./remote_frames.ts";
import type { Registry } from "../../resource/registry.ts";

type Moving = Resource & { getKinematics(call?: Call): Promise<Kinematics> };

/** A component of the machine, or a frame of a remote, as a part. */
interface Placed {
  readonly part: FramePart;
  /** Absent if a remote's frame is not one of its resources. */
  readonly node?: Node;
}

/** The resources of a machine, and the frames of its remotes. */
interface FramesOf {
  readonly nodes: Iterable<Node>;
  readonly remoteFrames: readonly RemoteFrame[];
  readonly registry: Registry;
}

export class Frames implements FrameView {
  readonly #machine: FramesOf;
  readonly #logger: Logger;
  readonly #settings = new WeakMap<ResourceConfig, FrameSettings | string>();
  readonly #models = new WeakMap<Resource, KinematicModel>();
  /** Of each part, and of the whole system. */
  readonly #problems = new LogOnChange();

  constructor({ machine, logger }: { machine: FramesOf; logger: Logger }) {
    this.#machine = machine;
    this.#logger = logger;
  }

  frameOf({ full, simple, isRemote }: ResourceName): string | undefined {
    const framed = [...this.#machine.nodes].filter(({ config }) => config.frame !== undefined);
    if (!isRemote) {
      const node = framed.find(({ name }) => name.full === full);
      return node && this.#nameOf(node);
    }
    // Of two frames of one name, the frame system has this machine's.
    const isHidden = framed.some((node) => this.#nameOf(node) === simple);
    return !isHidden && this.#machine.remoteFrames.some(({ part }) => part.name === simple)
      ? simple
      : undefined;
  }

  /** The parts with a path to the world, each after its parent, and with them those of `supplemental`. */
  async parts(supplemental: readonly FramePart[], call: Call): Promise<readonly FramePart[]> {
    return this.#whole(await this.#shaped(call), supplemental).parts;
  }

  async scene(supplemental: readonly FramePart[], call: Call): Promise<Scene> {
    const shaped = await this.#shaped(call);
    const system = this.#whole(shaped, supplemental);
    const moving = within(system, shaped).filter(({ part }) => part.kinematics?.joints.length);
    return {
      system,
      inputs: new Map(await Promise.all(moving.map((one) => this.#joints(one, call)))),
      movers: new Map(moving.map(({ part, node }): [string, ResourceName] => [part.name, node!.name])),
    };
  }

  /** All parts with their geometries. */
  async #shaped(call: Call): Promise<Placed[]> {
    const placed = await this.#placed(call);
    return await Promise.all(placed.map(async (one) => ({ ...one, part: await withGeometry(one, call) })));
  }

  /** These parts, and the supplemental ones. */
  #whole(shaped: readonly Placed[], supplemental: readonly FramePart[]): FrameSystem {
    const system = this.#system(shaped.map(({ part }) => part));
    // Transforming the world to itself places the supplemental frames, and refuses impossible ones.
    transformBetween(system, "world", "world", { supplemental });
    return buildFrameSystem([...system.parts, ...supplemental]);
  }

  async transformPose(
    source: PoseInFrame,
    destination: string,
    supplemental: readonly FramePart[],
    call: Call,
  ): Promise<PoseInFrame> {
    return await this.#asked(call, (system, inputs) => {
      return transformPose(system, source, destination, { supplemental, inputs });
    });
  }

  /** The transformation from the source frame to the destination; throws as `transformPose`. */
  async transformBetween(source: string, destination: string, call: Call): Promise<RigidTransform> {
    return await this.#asked(call, (system, inputs) => {
      return transformBetween(system, source, destination, { inputs });
    });
  }

  /** Computes twice: first to learn whose joints matter, then with their present values. */
  async #asked<T>(
    call: Call,
    question: (system: FrameSystem, inputs: ReadonlyMap<string, readonly number[]>) => T,
  ): Promise<T> {
    const placed = await this.#placed(call);
    const system = this.#system(placed.map(({ part }) => part));
    const asked = new NotingMap<readonly number[]>();
    const answer = question(system, asked);
    const moving = within(system, placed).filter(({ part }) =>
      asked.noted.has(part.name) && part.kinematics!.joints.length > 0
    );
    if (moving.length === 0) return answer;
    return question(system, new Map(await Promise.all(moving.map((one) => this.#joints(one, call)))));
  }

  async #placed(call: Call): Promise<Placed[]> {
    const nodes = [...this.#machine.nodes].filter(({ config }) => config.frame !== undefined);
    const placed = await Promise.all(nodes.map(async (node): Promise<Placed | undefined> => {
      try {
        const part = await this.#part(node, call);
        this.#problems.clear(node.name.full);
        return { part, node };
      } catch (error) {
        this.#warnOnce(node.name.full, `the frame of ${node.name} is ignored: ${chainOf(error)}`);
      }
    }));
    return [...placed.filter((one) => one !== undefined), ...this.#ofRemotes()];
  }

  /** The frames of remotes, each with the resource that moves it. */
  #ofRemotes(): Placed[] {
    const frames = this.#machine.remoteFrames;
    if (frames.length === 0) return [];
    const moving = new Map<string, Node>();
    for (const node of this.#machine.nodes) {
      if (node.name.isRemote && this.#readJoints(node)) moving.set(node.name.short, node);
    }
    return frames.map(({ remote, part }) => ({
      part,
      node: part.kinematics && moving.get(`${remote}:${part.name}`),
    }));
  }

  async #part(node: Node, call: Call): Promise<FramePart> {
    const settings = this.#settingsOf(node.config);
    if (typeof settings === "string") throw new SvcError("invalid_argument", settings);

    const { parent, pose, geometry } = settings;
    const name = this.#nameOf(node);
    if (!this.#readJoints(node)) return { name, parent, pose, geometry };
    if (node.state !== "ready") {
      const reason = node.error ?? `it is ${node.state}`;
      throw new SvcError("failed_precondition", `its kinematics are not available: ${reason}`);
    }

    const kinematics = await this.#kinematics(node.instance as Moving, name, call);
    if (kinematics) return { name, parent, pose, geometry, kinematics };
    if (this.#machine.registry.api(node.name.api)?.isRigidWithoutKinematics) {
      return { name, parent, pose, geometry };
    }
    throw new SvcError("failed_precondition", "it reports no kinematics");
  }

  /** The name of a configured frame. */
  #nameOf({ config, name }: Node): string {
    const settings = this.#settingsOf(config);
    return (typeof settings === "string" ? "" : settings.id) || name.short;
  }

  /** How a type's nodes report their joints, if they have any. */
  #readJoints({ name }: Node): ReadJoints | undefined {
    const joints = this.#machine.registry.api(name.api)?.joints;
    return joints === "none" ? undefined : joints;
  }

  /** The present joint positions of a part, with its name. */
  async #joints({ part, node }: Placed, call: Call): Promise<[string, readonly number[]]> {
    const read = node && this.#readJoints(node);
    if (!read || !node.instance) {
      const why = node?.error ?? "no known resource of this name has joints";
      throw new SvcError("failed_precondition", `reading the joints of frame ${part.name}: ${why}`);
    }
    try {
      return [part.name, await read(node.instance, call)];
    } catch (cause) {
      const { code } = SvcError.from(cause);
      throw new SvcError(code, `reading the joints of ${node.name}: ${chainOf(cause)}`, { cause });
    }
  }

  #settingsOf(config: ResourceConfig): FrameSettings | string {
    const known = this.#settings.get(config);
    if (known) return known;
    const at = new DecodeContext();
    const decoded = frameField.decode(config.frame, at);
    const settings = decoded && !at.failed
      ? decoded
      : at.problems.map(({ path, message }) => `${path}: ${message}`).join("; ");
    this.#settings.set(config, settings);
    return settings;
  }

  /** `undefined` if it has none to report. */
  async #kinematics(moving: Moving, name: string, call: Call): Promise<KinematicModel | undefined> {
    const { format, bytes } = await moving.getKinematics(call).catch((error): Kinematics => {
      if (SvcError.from(error).code !== "unimplemented") throw error;
      return { format: "unspecified", bytes: new Uint8Array() };
    });
    if (format === "unspecified") return undefined;
    const known = this.#models.get(moving);
    if (known?.source.format === format && sameBytes(known.source.bytes, bytes)) return known;
    const model = await parseKinematics(bytes, format, name);
    const warnings = modelWarnings(model);
    if (warnings.length > 0) this.#warnOnce(`kinematics ${name}`, warnings.join("; "));
    this.#models.set(moving, model);
    return model;
  }

  #system(parts: readonly FramePart[]): FrameSystem {
    const system = buildFrameSystem(parts);
    if (system.warnings.length > 0) this.#warnOnce("", system.warnings.join("; "));
    else this.#problems.clear();
    return system;
  }

  #warnOnce(about: string, message: string): void {
    if (this.#problems.isNew(message, about)) this.#logger.warn(message);
  }
}

/** Those that are parts of the system: of two of one name, such as those of a remote without prefix, it has one. */
function within(system: FrameSystem, placed: readonly Placed[]): Placed[] {
  const parts = new Set(system.parts);
  return placed.filter(({ part }) => parts.has(part));
}

/** An empty map that records the keys it is asked for. */
class NotingMap<V> extends Map<string, V> {
  readonly noted = new Set<string>();

  override get(key: string): V | undefined {
    this.noted.add(key);
    return undefined;
  }
}

/** A part that does not move and has no configured geometry gets those that its component reports. */
async function withGeometry({ part, node }: Placed, call: Call): Promise<FramePart> {
  const instance = node?.instance;
  if (part.geometry || part.kinematics || !instance) return part;
  const { getGeometries } = instance as Partial<Component>;
  try {
    const geometries: Geometry[] = await getGeometries?.call(instance, call) ?? [];
    return { ...part, geometry: geometries[0], moreGeometries: geometries.slice(1) };
  } catch {
    // Many components report no geometry; the frame stays without.
    return part;
  }
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a === b || (a.length === b.length && a.every((byte, index) => byte === b[index]));
}
