/**
 * The common interface of all resources: a name, commands, a status and a close. Also holds the base classes
 * from which drivers and clients derive.
 *
 * The room owns the parts of resources that are independent of their type: names, models, the registry, and
 * the dependency graph.
 */

import { SvcError } from "../base/error.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import type { Geometry } from "../geometry/geometry.ts";
import type { ResourceName } from "./name.ts";

/** The parts of a call besides its arguments. */
export interface Call {
  /** Model-specific arguments from the caller. */
  readonly extra?: JsonObject;
  /** Aborts when the caller goes away; anything that takes time must heed it. */
  readonly signal?: AbortSignal;
  /** Fulfilled when the caller's connection has ended, if it has one of its own. */
  readonly connectionEnded?: Promise<void>;
  /**
   * Told when the reading was taken, in milliseconds since the Unix epoch, by sensors that replay a recording. The
   * readings of all others are of the time of the call.
   */
  readonly taken?: (timeMs: number) => void;
  /**
   * Whether a point cloud may have the field `time`, when each point was measured in seconds relative to the time of the
   * reading. Sensors that take time to sweep add it only on request: published clients do not read such clouds.
   */
  readonly withTimes?: boolean;
}

/** A component or service of a machine. */
export interface Resource {
  /** Its API and name. */
  readonly name: ResourceName;
  /** A model's own command; `unimplemented` if the model has none. */
  doCommand(command: JsonObject, call?: Call): Promise<JsonObject>;
  /** A model's own status; empty if the model has none. */
  getStatus(call?: Call): Promise<JsonObject>;
  /** Called when the weak dependencies have changed. Nobody waits for the result. */
  weakDependenciesChanged?(): Promise<void>;
  /** Called by StopAll: what a person holds, such as a stick, moves nothing until it was let go. */
  stoppedAll?(): void;
  /** Releases everything. Idempotent. */
  close(): Promise<void>;
}

/** A resource that stands for hardware: it may have geometries. */
export interface Component extends Resource {
  /** The shapes that the component occupies, in its own frame. */
  getGeometries(call?: Call): Promise<Geometry[]>;
}

/** A component that moves; StopAll and a lost session stop it. */
export interface Actuator extends Component {
  /** Ends every motion now. Resolves when the order has been given. */
  stop(call?: Call): Promise<void>;
  /** Whether it moves because of an order. */
  isMoving(call?: Call): Promise<boolean>;
}

export function isActuator(resource: Resource): resource is Actuator {
  const { stop, isMoving } = resource as Partial<Actuator>;
  return typeof stop === "function" && typeof isMoving === "function";
}

/** What most resources share: no commands, nothing to close. */
export abstract class BaseResource implements Resource {
  /** `name` is its API and name. */
  constructor(readonly name: ResourceName) {}

  doCommand(_command: JsonObject, _call?: Call): Promise<JsonObject> {
    return Promise.reject(unsupported(this.name, "DoCommand"));
  }

  getStatus(_call?: Call): Promise<JsonObject> {
    return Promise.resolve({});
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** What most components share: no geometries. */
export abstract class BaseComponent extends BaseResource implements Component {
  getGeometries(_call?: Call): Promise<Geometry[]> {
    return Promise.resolve([]);
  }
}

/**
 * The error for a call that this model cannot serve: `motor rdk:component:motor/m does not support GoTo: it
 * has no encoder`.
 */
export function unsupported(name: ResourceName, method: string, why?: string): SvcError {
  return new SvcError("unimplemented", `${name} does not support ${method}${why ? `: ${why}` : ""}`);
}
