/** Pictures and point clouds of cameras, files and callers. */

import { decodeImage, encodeImage, imageSize, MIME, mimeTypeOf } from "../../../lib/geometry/image/image.ts";
import type { Intrinsics } from "../../../lib/geometry/image/lens.ts";
import { readPcd, writePcd } from "../../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../../lib/geometry/cloud/point_cloud.ts";
import { Segmenter } from "../../../lib/geometry/cloud/segmentation.ts";
import { viewpointOf } from "../../../lib/geometry/cloud/viewpoint.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import { withOrientation } from "../../support/phone_photo.ts";
import type { Target } from "../target.ts";

const [WIDTH, HEIGHT] = [12, 8];

function pictures() {
  const random = randomFrom(1);
  const rgba = Uint8Array.from({ length: WIDTH * HEIGHT * 4 }, () => 256 * random());
  const data = Uint16Array.from({ length: WIDTH * HEIGHT }, () => 4000 * random());
  return {
    color: { kind: "color" as const, image: { width: WIDTH, height: HEIGHT, rgba } },
    depth: { kind: "depth" as const, map: { width: WIDTH, height: HEIGHT, data } },
  };
}

function clouds(): Uint8Array[] {
  const random = randomFrom(2);
  const column = () => Float32Array.from({ length: 40 }, () => random());
  const words = () => Uint32Array.from({ length: 40 }, () => 0xffffff * random());
  const cloud = createCloud({ x: column(), y: column(), z: column(), rgb: words(), label: words() });
  return (["ascii", "binary", "binary_compressed"] as const).map((form) => writePcd(cloud, form));
}

function readPicture(bytes: Uint8Array): void {
  mimeTypeOf(bytes);
  imageSize(bytes);
  decodeImage(bytes);
}

/** Depth is looked at for objects, too. */
function readDepth(bytes: Uint8Array): void {
  const decoded = decodeImage(bytes);
  if (decoded.kind !== "depth") return;
  const { width, height } = decoded.map;
  const lens: Intrinsics = {
    widthPx: width,
    heightPx: height,
    focalXPx: 10,
    focalYPx: 10,
    centerXPx: width / 2,
    centerYPx: height / 2,
  };
  new Segmenter(lens, {
    minPointsInPlane: 10,
    minPointsInSegment: 1,
    maxDistFromPlaneMm: 50,
    groundAngleToleranceDeg: 90,
    clusteringRadius: 1,
    clusteringStrictness: 5,
  }).segment(decoded.map);
}

export const MEDIA: readonly Target[] = [
  {
    name: "media/jpeg",
    covers: ["geometry/image/jpeg.ts", "geometry/image/image.ts"],
    samples: () => {
      const file = encodeImage(pictures().color, MIME.jpeg);
      return [file, withOrientation(file, 6)];
    },
    words: ["Exif\0\0", "II*\0", "MM\0*", "\xff\xe1", "\xff\xc0", "\xff\xda"],
    read: readPicture,
  },
  {
    name: "media/png",
    covers: ["geometry/image/png.ts", "geometry/image/image.ts"],
    samples: () => [encodeImage(pictures().color, MIME.png), encodeImage(pictures().depth, MIME.png)],
    words: ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"],
    read: readPicture,
  },
  {
    name: "media/raw",
    covers: ["geometry/image/"],
    samples: () => [encodeImage(pictures().color, MIME.rgba)],
    read: readPicture,
  },
  {
    name: "media/depth",
    covers: ["geometry/image/depth.ts", "geometry/cloud/"],
    samples: () => [encodeImage(pictures().depth, MIME.depth), encodeImage(pictures().depth, MIME.png)],
    read: readDepth,
  },
  {
    name: "media/pcd",
    covers: ["geometry/cloud/pcd.ts", "geometry/cloud/lzf.ts", "geometry/cloud/viewpoint.ts"],
    samples: clouds,
    words: [
      "FIELDS x y z rgb",
      "SIZE 8",
      "TYPE F",
      "COUNT 0",
      "WIDTH 0",
      "HEIGHT 1",
      "VIEWPOINT",
      "DATA binary_compressed\n",
      "POINTS",
    ],
    read: (bytes) => {
      viewpointOf(bytes);
      readPcd(bytes);
    },
  },
];
