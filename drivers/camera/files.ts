/**
 * Picture files for cameras. Each call reads the file again and returns the picture in its encoded form.
 */

import type { ReadFiles } from "../../lib/base/files/files.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import { type DepthMap, depthToCloud } from "../../lib/geometry/image/depth.ts";
import {
  type ColorImage,
  decodeImage,
  encodeImage,
  MIME,
  mimeTypeOf,
  packedRgb,
} from "../../lib/geometry/image/image.ts";
import { jpegHeader } from "../../lib/geometry/image/jpeg.ts";
import type { Distortion, Intrinsics } from "../../lib/geometry/image/lens.ts";
import { writePcd } from "../../lib/geometry/cloud/pcd.ts";
import type { ResourceName } from "../../lib/resource/name.ts";

export class PictureFiles {
  constructor(private readonly camera: ResourceName, private readonly files: ReadFiles) {}

  async read<T>(path: string, decode: (bytes: Uint8Array) => T): Promise<T> {
    try {
      return decode(await this.files.readFile(path));
    } catch (cause) {
      const problem = `${this.camera} cannot show the file ${path}: ${chainOf(cause)}`;
      throw new SvcError(SvcError.from(cause).code, problem, { cause });
    }
  }

  /** A colour image as JPEG; a JPEG file is returned unchanged, unless its orientation has to be applied. */
  readColor(path: string): Promise<Uint8Array> {
    return this.read(path, (bytes) => {
      const isUpright = mimeTypeOf(bytes) === MIME.jpeg && jpegHeader(bytes).orientation === 1;
      return isUpright ? bytes : jpegOf(colorOf(bytes));
    });
  }

  readDepth(path: string): Promise<Uint8Array> {
    return this.read(path, (bytes) => encodeImage({ kind: "depth", map: depthOf(bytes) }, MIME.depth));
  }

  /** The points of a depth image as a PCD file, with the colours of the colour image if there is one. */
  async readCloud(
    depthPath: string,
    colorPath: string | undefined,
    lens: Intrinsics,
    distortion?: Distortion,
  ): Promise<Uint8Array> {
    const depth = await this.read(depthPath, depthOf);
    const color = colorPath ? await this.read(colorPath, colorOf) : undefined;
    if (color && (color.width !== depth.width || color.height !== depth.height)) {
      const found = `a colour image of ${color.width} x ${color.height} pixels`;
      const problem = `${found} and a depth image of ${depth.width} x ${depth.height}`;
      throw new SvcError("failed_precondition", `${this.camera} cannot make a point cloud of ${problem}`);
    }
    return writePcd(depthToCloud(depth, lens, { rgb: color && packedRgb(color), distortion }));
  }
}

export function jpegOf(image: ColorImage): Uint8Array {
  return encodeImage({ kind: "color", image }, MIME.jpeg);
}

function colorOf(bytes: Uint8Array): ColorImage {
  const decoded = decodeImage(bytes);
  if (decoded.kind === "color") return decoded.image;
  throw new SvcError("invalid_argument", "it is a depth image, wanted a colour image");
}

function depthOf(bytes: Uint8Array): DepthMap {
  const decoded = decodeImage(bytes);
  if (decoded.kind === "depth") return decoded.map;
  throw new SvcError(
    "invalid_argument",
    "it is a colour or 8-bit image, wanted a depth image (16-bit grey PNG or image/vnd.viam.dep)",
  );
}
