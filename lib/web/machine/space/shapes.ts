/** Geometries of the machine as three.js draws them, in metres. */

import type { Geometry } from "@viamrobotics/sdk";
import { BoxGeometry, BufferGeometry, CapsuleGeometry, Points, SphereGeometry } from "three";
import { PCDLoader } from "three/examples/jsm/loaders/PCDLoader.js";
import { PLYLoader } from "three/examples/jsm/loaders/PLYLoader.js";
import { STLLoader } from "three/examples/jsm/loaders/STLLoader.js";
import { METRES } from "./pose.ts";

/** A larger mesh or cloud would stop the page. */
const BYTES_MAX = 64 * 1024 * 1024;

/** A surface, or points; `undefined` if the geometry has no extent or is not readable. */
export function shapeOf(
  { geometryType }: Geometry,
): { kind: "surface" | "points"; geometry: BufferGeometry } | undefined {
  switch (geometryType.case) {
    case "box": {
      const { x = 0, y = 0, z = 0 } = geometryType.value.dimsMm ?? {};
      return { kind: "surface", geometry: new BoxGeometry(x * METRES, y * METRES, z * METRES) };
    }
    case "sphere":
      return { kind: "surface", geometry: new SphereGeometry(geometryType.value.radiusMm * METRES, 24, 16) };
    case "capsule": {
      const { radiusMm, lengthMm } = geometryType.value;
      const straight = Math.max(0, lengthMm - 2 * radiusMm) * METRES;
      // The capsule's axis is z; three.js has it along y.
      return {
        kind: "surface",
        geometry: new CapsuleGeometry(radiusMm * METRES, straight, 8, 16).rotateX(Math.PI / 2),
      };
    }
    case "mesh": {
      const { contentType, mesh } = geometryType.value;
      const geometry = read(() => meshOf(contentType, mesh));
      return geometry && { kind: "surface", geometry };
    }
    case "pointcloud": {
      const points = cloudOf(geometryType.value.pointCloud);
      return points && { kind: "points", geometry: points };
    }
  }
  return undefined;
}

/** The points of a PCD file; `undefined` if it is not readable. */
export function cloudOf(pcd: Uint8Array): BufferGeometry | undefined {
  if (pcd.byteLength > BYTES_MAX) return undefined;
  const points: Points | undefined = read(() => new PCDLoader().parse(bufferOf(pcd)));
  return points?.geometry;
}

function meshOf(contentType: string, mesh: Uint8Array): BufferGeometry | undefined {
  if (mesh.byteLength > BYTES_MAX) return undefined;
  if (/stl/i.test(contentType)) return new STLLoader().parse(bufferOf(mesh));
  const geometry = new PLYLoader().parse(bufferOf(mesh));
  geometry.computeVertexNormals();
  return geometry;
}

/** Files come from anywhere: what cannot be read is not drawn. */
function read<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

function bufferOf(bytes: Uint8Array): ArrayBuffer {
  return bytes.slice().buffer as ArrayBuffer;
}
