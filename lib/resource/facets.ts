/**
 * The facets of a resource type: facts that a machine needs about a type besides its service. A type declares
 * every facet in its own file in lib/api, or declares "none".
 */

import type { JsonObject } from "../base/schema/schema.ts";
import type { Call, Resource } from "./resource.ts";
import type { CapturedAnnotations } from "./uploader.ts";

/** The facts that a machine needs about a resource type besides its service. */
export interface Facets<R extends Resource = Resource> {
  /** The fields of a request that name the resource. A request has at least one of them; the first one set counts. */
  readonly namedBy: readonly [string, ...string[]];
  /**
   * The methods that belong to a session: if the session's client is lost, the machine stops the resource.
   */
  readonly monitored: readonly string[] | "none";
  /** Reads the present joint positions (degrees; millimetres for sliding joints), from the base outwards. */
  readonly joints: ReadJoints<R> | "none";
  /** A part with joints that does not report its kinematics counts as rigid; without this, nobody knows its end. */
  readonly isRigidWithoutKinematics?: true;
  /** The data that can be captured besides DoCommand, by published method name. */
  readonly captured: CaptureMethods<R> | "none";
}

/** Reads the present joint positions of a part. */
export type ReadJoints<R extends Resource = Resource> = (part: R, call: Call) => Promise<readonly number[]>;

/** The methods whose answers can be captured, by published name. */
export interface CaptureMethods<R extends Resource = Resource> {
  /** Calls the method of this name. */
  readonly [method: string]: CaptureCall<R>;
}

/** Calls the resource once. `parameters` are the `additional_params` of the configuration. */
export type CaptureCall<R extends Resource = Resource> = (
  resource: R,
  parameters: JsonObject,
  call: Call,
) => Promise<CaptureResult>;

/** The result of one call: a reading, in the published shape of the method's answer, or files. */
export type CaptureResult = { readonly reading: JsonObject } | { readonly files: readonly TakenFile[] };

/** A captured file, before the machine gives it a time and an origin. */
export interface TakenFile {
  /** Such as `image/jpeg`. */
  readonly mimeType: string;
  /** The findings in a picture. */
  readonly annotations?: CapturedAnnotations;
  /** The content of the file. */
  readonly content: Uint8Array;
}
