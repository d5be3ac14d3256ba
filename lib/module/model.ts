/**
 * A model of a module: like a model of the machine, without the machine's ports. A resource may leave methods out;
 * defaults complete it, so that a small model is a few lines.
 */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log/log.ts";
import type { ConfigField } from "../base/schema/schema.ts";
import type { ResourceName } from "../resource/name.ts";
import type { Api, Dependencies } from "../resource/registry.ts";
import { BaseComponent, BaseResource, type Resource } from "../resource/resource.ts";

/** The inputs from which a resource is built. */
export interface ModuleConstruction<A> {
  /** Name of the resource to construct. */
  readonly name: ResourceName;
  /** The decoded attributes of its configuration. */
  readonly attributes: A;
  /** The machine's resources that its configuration names; calls go through the machine. */
  readonly dependencies: Dependencies;
  /** Writes to the log of the machine. */
  readonly logger: Logger;
  /** Time: tests replace it. */
  readonly clock: Clock;
  /** Aborts when the machine no longer waits for the resource. */
  readonly signal: AbortSignal;
}

/** The members with a default: a model may leave them out. */
export type Usual = "name" | "doCommand" | "getStatus" | "getGeometries" | "close";

/** A resource of type `R`: its methods, as a plain object or an instance of a class. */
export type Made<R extends Resource> = Omit<R, Usual> & Partial<Pick<R, Usual & keyof R>>;

/** A model of a module. */
export interface ModuleModel<R extends Resource = Resource, A = unknown> {
  /** The API that the model serves. */
  readonly api: Api<R>;
  /** `acme:weather:thermometer`: namespace, family, name. */
  readonly name: string;
  /** One line for people. */
  readonly doc?: string;
  /** The fields of the attributes; settings that name resources (`.names()`) become dependencies. */
  readonly attributes: ConfigField<A>;
  /** Makes the resource. A thrown error is the reason for which the machine shows it as unhealthy. */
  construct(from: ModuleConstruction<NonNullable<A>>): Made<R> | Promise<Made<R>>;
}

/** A model of any API, with any attributes. */
// deno-lint-ignore no-explicit-any
export type AnyModuleModel = ModuleModel<any, any>;

/** Infers a model's types from its parts. */
export function model<R extends Resource, A>(definition: ModuleModel<R, A>): ModuleModel<R, A> {
  return definition;
}

/** The resource, completed with the default members. */
export function completed(made: Made<Resource>, name: ResourceName): Resource {
  const isComponent = name.api.split(":")[1] === "component";
  const usual = isComponent ? new UsualComponent(name) : new UsualResource(name);
  const own = made as Partial<Record<Usual, unknown>>;
  own.name ??= name;
  own.doCommand ??= usual.doCommand.bind(usual);
  own.getStatus ??= usual.getStatus.bind(usual);
  own.close ??= usual.close.bind(usual);
  if (usual instanceof UsualComponent) own.getGeometries ??= usual.getGeometries.bind(usual);
  return own as Resource;
}

class UsualResource extends BaseResource {}
class UsualComponent extends BaseComponent {}
