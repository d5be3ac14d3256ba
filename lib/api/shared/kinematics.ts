/**
 * Kinematics of arms, gantries and grippers: reads the files that describe links and joints, and converts
 * them to and from messages.
 */

import {
  type GetKinematicsRequest,
  type GetKinematicsResponse,
  KinematicsFileFormat,
} from "../../../proto/gen/common_pb.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import { SvcError } from "../../base/error.ts";
import { type KinematicModel, parseKinematics } from "../../geometry/kinematics.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import type { Call } from "../../resource/resource.ts";
import { callOf } from "./resource.ts";

/** A file with a shape. */
export interface Mesh {
  /** `ply`, `stl`, `glb`, … */
  readonly contentType: string;
  /** The content of the file. */
  readonly mesh: Uint8Array;
}

/** A description of links and joints, as `parseKinematics` of lib/geometry/kinematics.ts reads it. */
export interface Kinematics {
  /** `unspecified` means that the part has no description. */
  readonly format: "sva" | "urdf" | "unspecified";
  /** The file in that format; empty if `unspecified`. */
  readonly bytes: Uint8Array;
  /** The meshes that the file refers to, by their paths in it. */
  readonly meshes?: { readonly [path: string]: Mesh };
}

/**
 * Reads a model from a file in the format of its extension.
 *
 * @throws invalid_argument for a file that is not a model; `not_found` if there is no such file
 */
export async function readModel(
  files: ReadFiles,
  path: string,
  componentName: string,
): Promise<KinematicModel> {
  const formats = [[".json", "sva"], [".urdf", "urdf"]] as const;
  const format = formats.find(([ending]) => path.endsWith(ending))?.[1];
  if (!format) {
    const wanted = "only files with .json and .urdf extensions are supported";
    throw new SvcError(
      "invalid_argument",
      `reading the kinematics of ${componentName} from ${path}: ${wanted}`,
    );
  }
  return await parseKinematics(await files.readFile(path), format, componentName);
}

interface Kinematic {
  getKinematics(call?: Call): Promise<Kinematics>;
}

/** GetKinematics, for every API whose parts have joints. */
export function kinematicsHandlers(find: (name: string) => Kinematic) {
  return {
    getKinematics: async (request: GetKinematicsRequest, ctx: CallContext) => {
      const { format, bytes, meshes } = await find(request.name).getKinematics(callOf(request, ctx));
      return { format: FORMATS[format], kinematicsData: bytes, meshesByUrdfFilepath: { ...meshes } };
    },
  };
}

export function fromKinematicsMessage(message: GetKinematicsResponse): Kinematics {
  const { format, kinematicsData: bytes, meshesByUrdfFilepath } = message;
  const named = Object.entries(FORMATS).find(([, number]) => number === format)?.[0] ?? "unspecified";
  return { format: named as Kinematics["format"], bytes, meshes: fromMeshMessages(meshesByUrdfFilepath) };
}

export function fromMeshMessages(messages: { [name: string]: Mesh }): { [name: string]: Mesh } {
  return Object.fromEntries(
    Object.entries(messages).map(([name, { contentType, mesh }]) => [name, { contentType, mesh }]),
  );
}

const FORMATS = {
  unspecified: KinematicsFileFormat.UNSPECIFIED,
  sva: KinematicsFileFormat.SVA,
  urdf: KinematicsFileFormat.URDF,
} as const;
