/**
 * A folder of another tool's dataset and its import into a fake control plane, for tests.
 */

import { encodePng } from "../../lib/geometry/image/png.ts";
import { type FakeCloud, withFakeCloud } from "./fake_cloud.ts";
import { envOf, type Outcome, svcMl } from "./program.ts";

export type Files = Record<string, Uint8Array | string>;

export interface Place {
  readonly cloud: FakeCloud;
  /** The dataset's folder, with the test's files. */
  readonly folder: string;
  write(files: Files): Promise<void>;
  /** Imports it. */
  run(...flags: string[]): Promise<Outcome>;
  /** The added images: names, labels, and boxes with their sides in hundredths. */
  added(): [name: string, tags: string[], boxes: string[]][];
}

export function importTest(name: string, run: (place: Place) => Promise<void>): void {
  Deno.test(name, () =>
    withFakeCloud(async (cloud) => {
      cloud.datasets.push({ id: "dataset-1", name: "shapes" });
      const above = await Deno.makeTempDir({ prefix: "svc-ml-" });
      const folder = `${above}/set`;
      await Deno.mkdir(folder);
      try {
        await run({
          cloud,
          folder,
          async write(files) {
            for (const [path, content] of Object.entries(files)) {
              await Deno.mkdir(`${folder}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
              if (typeof content === "string") await Deno.writeTextFile(`${folder}/${path}`, content);
              else await Deno.writeFile(`${folder}/${path}`, content);
            }
          },
          run: (...flags) => svcMl(["dataset", "import", "shapes", folder, ...flags], { env: envOf(cloud) }),
          added: () =>
            [...cloud.images].map(([name, { tags, boxes }]): [string, string[], string[]] => [
              name,
              tags,
              boxes.map((box) => {
                const sides = [
                  box.xMinNormalized,
                  box.yMinNormalized,
                  box.xMaxNormalized,
                  box.yMaxNormalized,
                ];
                return `${box.label} ${sides.map((side) => Math.round(100 * side!)).join(" ")}`;
              }),
            ]).sort(([a], [b]) => a < b ? -1 : 1),
        });
      } finally {
        await Deno.remove(above, { recursive: true });
      }
    }));
}

export function picture(width: number, height: number): Uint8Array {
  return encodePng({ width, height, channels: 1, samples: new Uint8Array(width * height) });
}

export function coco(change: Record<string, unknown> = {}): string {
  return JSON.stringify({
    images: [
      { id: 1, file_name: "a.png", width: 200, height: 100 },
      { id: 2, file_name: "b.png", width: 200, height: 100 },
    ],
    categories: [{ id: 7, name: "cat" }, { id: 90, name: "dog" }],
    annotations: [
      { id: 1, image_id: 1, category_id: 7, bbox: [20, 10, 60, 40], iscrowd: 0 },
      {
        id: 2,
        image_id: 1,
        category_id: 90,
        bbox: [0, 0, 200, 100],
        segmentation: [[0, 0, 200, 0, 200, 100]],
      },
    ],
    ...change,
  });
}

export const IMAGES: Files = { "val2017/a.png": picture(200, 100), "val2017/b.png": picture(100, 50) };
export const INSTANCES = "annotations/instances_val2017.json";

export function voc(
  objects: string,
  { name = "a.png", size = "<size><width>200</width><height>100</height></size>" } = {},
) {
  return `<?xml version="1.0"?><annotation><filename>${name}</filename>${size}${objects}</annotation>`;
}

export function thing(name: string, [xmin, ymin, xmax, ymax]: readonly (number | string)[]): string {
  const box = `<xmin>${xmin}</xmin><ymin>${ymin}</ymin><xmax>${xmax}</xmax><ymax>${ymax}</ymax>`;
  return `<object><name>${name}</name><difficult>0</difficult><bndbox>${box}</bndbox></object>`;
}
