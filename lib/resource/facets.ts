/**
 * The facets of a resource type: what a machine has to know about a type besides its service. A type declares every
 * facet in its own file in lib/api, and says "none" where it has nothing to declare.
 */

import type { JsonObject } from "../base/schema/schema.ts";
import type { Call, Resource } from "./resource.ts";
import type { CapturedFile } from "./uplink.ts";

export interface Facets<R extends Resource = Resource> {
  /** The fields of a request that name the resource. A request has at least one of them; the first one set counts. */
  readonly namedBy: readonly [string, ...string[]];
  /** The methods that a session answers for: when the caller is lost, the machine stops the resource. */
  readonly monitored: readonly string[] | "none";
  /** Reads where the joints are now (degrees; millimetres of joints that slide), from the base outwards. */
  readonly joints: ReadJoints<R> | "none";
  /** What can be captured besides DoCommand, by its published name. */
  readonly captured: CaptureMethods<R> | "none";
}

export type ReadJoints<R extends Resource = Resource> = (part: R, call: Call) => Promise<readonly number[]>;

export interface CaptureMethods<R extends Resource = Resource> {
  readonly [method: string]: Capture<R>;
}

/** Calls the resource once. `parameters` are the `additional_params` of the configuration. */
export type Capture<R extends Resource = Resource> = (
  resource: R,
  parameters: JsonObject,
  call: Call,
) => Promise<Taken>;

/** What one call gives: a reading, in the published shape of the method's answer, or files. */
export type Taken = { readonly reading: JsonObject } | { readonly files: readonly TakenFile[] };

export type TakenFile = Pick<CapturedFile, "content" | "mimeType" | "annotations">;
