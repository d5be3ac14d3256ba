/**
 * A vision service of your own: finds what has a colour in a camera's picture. The box of its detection encloses
 * every pixel whose red, green and blue are near the wanted ones; its confidence is the share of the box that they fill.
 */

// deno-lint-ignore-file require-await -- every method of a resource gives a promise

import {
  CameraApi,
  decodeColor,
  type Detection,
  integer,
  list,
  type Made,
  model,
  number,
  object,
  serveModule,
  SvcError,
  text,
  unsupported,
  type Vision,
  VisionApi,
} from "svc-module";

const colors = model({
  api: VisionApi,
  name: "example:colors:finder",
  attributes: object({
    camera: text("a camera").required().names("camera"),
    rgb: list(integer("of red, green or blue", { min: 0, max: 255 }), "the wanted colour: red, green, blue")
      .required(),
    near: number("how far each of the three may be off", { min: 0, max: 255 }).default(40),
    label: text("the name of what has this colour").default("coloured"),
  }).required(),
  construct: ({ name, attributes: { camera, rgb, near, label }, dependencies }): Made<Vision> => {
    if (rgb!.length !== 3) {
      throw new SvcError(
        "invalid_argument",
        `attributes.rgb: found ${rgb!.length} numbers, wanted red, green, blue`,
      );
    }
    const source = dependencies.get(CameraApi, camera!);

    const find = (picture: Uint8Array): Detection[] => {
      const { width, height, rgba } = decodeColor(picture, `${name} looks for a colour`);
      const box = { xMin: width, yMin: height, xMax: -1, yMax: -1 };
      let found = 0;
      for (let y = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
          const at = 4 * (y * width + x);
          if (rgb!.some((wanted, channel) => Math.abs((rgba[at + channel] ?? 0) - wanted) > near!)) continue;
          found++;
          box.xMin = Math.min(box.xMin, x);
          box.yMin = Math.min(box.yMin, y);
          box.xMax = Math.max(box.xMax, x + 1);
          box.yMax = Math.max(box.yMax, y + 1);
        }
      }
      if (found === 0) return [];
      const confidence = found / ((box.xMax - box.xMin) * (box.yMax - box.yMin));
      return [{ className: label!, confidence, box }];
    };
    const take = async (wanted: string) => {
      if (wanted !== "" && wanted !== camera) {
        throw new SvcError("not_found", `${name} looks through "${camera}", not through "${wanted}"`);
      }
      const { images: [picture] } = await source.getImages();
      if (!picture) throw new SvcError("unavailable", `${camera} gives no picture`);
      return picture;
    };
    const noClasses = () => unsupported(name, "GetClassifications", "it finds boxes only");
    const noObjects = (method: string) => unsupported(name, method, "a picture has no depth");

    return {
      getDetections: async ({ image }) => find(image),
      getDetectionsFromCamera: async (wanted) => find((await take(wanted)).image),
      getClassifications: async () => {
        throw noClasses();
      },
      getClassificationsFromCamera: async () => {
        throw noClasses();
      },
      getObjectPointClouds: async () => {
        throw noObjects("GetObjectPointClouds");
      },
      getDetections3D: async () => {
        throw noObjects("GetDetections3D");
      },
      getProperties: async () => ({
        classifications: false,
        detections: true,
        objectPointClouds: false,
        detections3D: false,
        defaultCamera: camera,
      }),
      captureAllFromCamera: async (wanted, { image, detections }) => {
        const picture = await take(wanted);
        return {
          image: image ? picture : undefined,
          detections: detections ? find(picture.image) : [],
          classifications: [],
          objects: [],
          detections3D: [],
        };
      },
    };
  },
});

await serveModule([colors]);
