/**
 * What every resource is, whatever its type: something with a name that takes commands, tells its status and can
 * be closed; and the base classes from which drivers and clients derive.
 *
 * The room owns what a resource is, apart from its type: names, models, the registry, and who depends on whom.
 */

import { SvcError } from "../base/error.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import type { Geometry } from "../geometry/geometry.ts";
import type { ResourceName } from "./name.ts";

/** What comes with a call besides its arguments. */
export interface Call {
  /** Model-specific arguments, as given by the caller. */
  readonly extra?: JsonObject;
  /** Aborts when the caller goes away; whatever takes time heeds it. */
  readonly signal?: AbortSignal;
}

export interface Resource {
  readonly name: ResourceName;
  /** A model's own command; `unimplemented` where it has none. */
  doCommand(command: JsonObject, call?: Call): Promise<JsonObject>;
  /** A model's own status; empty where it has none. */
  getStatus(call?: Call): Promise<JsonObject>;
  /** Told when the resources that its model sees have changed. Nobody waits for it. */
  seenChanged?(): Promise<void>;
  /** Lets go of everything. Idempotent. */
  close(): Promise<void>;
}

export interface Component extends Resource {
  /** The shapes the component takes up, in its own frame. */
  getGeometries(call?: Call): Promise<Geometry[]>;
}

/** A component that moves: what StopAll and a lost session stop. */
export interface Actuator extends Component {
  stop(call?: Call): Promise<void>;
  isMoving(call?: Call): Promise<boolean>;
}

export function isActuator(resource: Resource): resource is Actuator {
  const { stop, isMoving } = resource as Partial<Actuator>;
  return typeof stop === "function" && typeof isMoving === "function";
}

export abstract class BaseResource implements Resource {
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

export abstract class BaseComponent extends BaseResource implements Component {
  getGeometries(_call?: Call): Promise<Geometry[]> {
    return Promise.resolve([]);
  }
}

/** For what this model cannot do: `motor rdk:component:motor/m does not support GoTo: it has no encoder`. */
export function unsupported(name: ResourceName, method: string, why?: string): SvcError {
  return new SvcError("unimplemented", `${name} does not support ${method}${why ? `: ${why}` : ""}`);
}
