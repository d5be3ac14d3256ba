/**
 * `dataset import`: imports images with annotations in other tools' formats into a dataset.
 *
 * It reads and checks everything before it uploads anything. It skips an image if any of its annotations is unreadable.
 */

import { relative, resolve } from "node:path";
import { SvcError } from "../../../lib/base/error.ts";
import type { Flag } from "../../flags.ts";
import { table } from "../../table.ts";
import { commaWords, type MlCommand, mlCommand, unknownWord } from "../command.ts";
import { cocoFiles, readCoco } from "../formats/coco.ts";
import { Folder, type Problems } from "../formats/folder.ts";
import { readVoc, vocFiles } from "../formats/voc.ts";
import { readYolo, yoloFiles } from "../formats/yolo.ts";
import { type LocalImage, looked } from "./local_images.ts";
import { findDataset, findPart } from "../lookup.ts";
import type { MlCommandContext } from "../command_context.ts";
import { OF_ALL_IMAGES, processEach, upload } from "./transfer.ts";
import { counted } from "../../../lib/base/log/counted.ts";

/** Limit of problems listed one by one. */
const LISTED_MAX = 20;

interface Format {
  /** The sign of the format, for people. */
  readonly sign: string;
  /** The files with annotations or class names; empty if the folder has another format. */
  files(folder: Folder): string[] | Promise<string[]>;
  read(folder: Folder, files: readonly string[]): Promise<void>;
}

const FORMATS = {
  coco: {
    sign: "instances*.json, _annotations.coco.json or other .json with images, annotations and categories",
    files: cocoFiles,
    read: readCoco,
  },
  yolo: {
    sign: "data.yaml or classes.txt",
    files: yoloFiles,
    read: async (folder: Folder, files: readonly string[]) => {
      // A folder of this format has one file, `yoloFiles` or the caller found it.
      for (const file of files.slice(0, 1)) await readYolo(folder, file);
    },
  },
  voc: { sign: "Annotations/*.xml", files: vocFiles, read: readVoc },
} satisfies { readonly [name: string]: Format };
type FormatName = keyof typeof FORMATS;
export const FORMAT_NAMES = Object.keys(FORMATS) as readonly FormatName[];

const FLAGS = [
  {
    name: "format",
    type: "string",
    default: "",
    value: "FORMAT",
    help: `${FORMAT_NAMES.join(", ")}; by default the format that the folder shows.`,
  },
  {
    name: "annotations",
    type: "string",
    default: "",
    value: "FILE",
    help: "The file in the folder that describes the images (coco) or names the classes (yolo).",
  },
  ...OF_ALL_IMAGES,
  { name: "dry-run", type: "bool", default: false, help: "Only report what would be added." },
] as const satisfies readonly Flag[];

export const IMPORT_COMMAND: MlCommand = mlCommand(
  "dataset import",
  ["DATASET", "FOLDER"],
  "Uploads images with their boxes into a dataset, from a folder in COCO, YOLO or Pascal VOC format.",
  FLAGS,
  async (context, [wanted, path], flags) => {
    const { format: chosen, annotations, partId: part, dryRun } = flags;
    const { tags, labels } = flags as unknown as { tags: string[]; labels: string[] };
    const folder = await Folder.open(context.host, path, context.signal);
    const { format, files } = await detectFormat(folder, chosen, annotations);
    await FORMATS[format].read(folder, files);
    const { images, skipped } = await looked(
      context.host,
      [...folder.images.values()],
      commaWords(tags, labels),
    );
    for (const { path, reason } of skipped) folder.leftOut.add(path, reason);
    tell(context, "left out", folder.leftOut);
    tell(context, "warning:", folder.warnings);
    if (images.length === 0) {
      throw new SvcError("invalid_argument", `there is no image to add in ${path}, in the form of ${format}`);
    }
    const dataset = await findDataset(context, wanted);
    const ids = dryRun ? [] : await uploaded(context, images, dataset.id, part);
    const about = aboutOf(images, folder);
    context.print({
      datasetId: dataset.id,
      format,
      ...about,
      binaryDataIds: ids,
      skipped: folder.leftOut.all,
      warnings: folder.warnings.all,
    }, describe(about, `${dryRun ? "would be" : "are"} in ${dataset.name}`));
    if (dryRun) context.note("nothing has been uploaded");
  },
);

async function detectFormat(
  folder: Folder,
  chosen: string,
  given: string,
): Promise<{ format: FormatName; files: readonly string[] }> {
  const spelled = FORMAT_NAMES.find((name) => name === chosen.toLowerCase());
  if (chosen !== "" && !spelled) throw unknownWord("format", chosen, FORMAT_NAMES);
  const named = given === "" ? undefined : fileIn(folder, given);
  let byEnding: FormatName | undefined;
  if (/\.json$/i.test(named ?? "")) byEnding = "coco";
  else if (/\.(ya?ml|txt|names)$/i.test(named ?? "")) byEnding = "yolo";
  const found = await Promise.all(
    FORMAT_NAMES.map(async (format) => ({ format, files: await FORMATS[format].files(folder) })),
  );
  const possible = found
    .filter(({ format, files }) => spelled || byEnding ? format === (spelled || byEnding) : files.length > 0);
  const signs = FORMAT_NAMES.map((name) => `${FORMATS[name].sign} (${name})`).join(", ");
  if (possible.length > 1) {
    const several = possible.map(({ format, files }) => `${files[0]} of ${format}`).join(" and ");
    throw new SvcError("invalid_argument", `${folder.path} has ${several}: tell which one with --format`);
  }
  const [only] = possible;
  if (!only) {
    throw new SvcError(
      "invalid_argument",
      `${folder.path} has no annotations that are known: wanted ${signs}`,
    );
  }
  const { format, files } = only;
  if (named !== undefined) return { format, files: [named] };
  if (files.length > 0) return { format, files };
  const wanted = `wanted ${FORMATS[format].sign}, or the file by --annotations`;
  throw new SvcError("invalid_argument", `${folder.path} is not in the form of ${format}: ${wanted}`);
}

/** Resolves a path from the working folder, or else from the dataset's folder. */
function fileIn(folder: Folder, given: string): string {
  const fromHere = relative(resolve(folder.path), resolve(given));
  const found = folder.find(fromHere, given);
  if (found !== undefined) return found;
  throw new SvcError("not_found", `--annotations: there is no file "${given}" in ${folder.path}`);
}

async function uploaded(
  context: MlCommandContext,
  images: readonly LocalImage[],
  datasetId: string,
  part: string,
): Promise<string[]> {
  const services = await context.services();
  const partId = await findPart(context, part);
  return await processEach(
    context,
    "added",
    images,
    (image) => upload(context, services, image, { partId, datasetId }),
  );
}

interface About {
  readonly images: number;
  readonly imagesWithBoxes: number;
  /** Boxes by label. */
  readonly boxes: { readonly [label: string]: number };
  readonly imagesLeftOut: number;
  readonly warningsInAll: number;
}

function aboutOf(images: readonly LocalImage[], { leftOut, warnings }: Folder): About {
  const boxes = images.flatMap((image) => image.boxes.map(({ label }) => label)).sort();
  return {
    images: images.length,
    imagesWithBoxes: images.filter((image) => image.boxes.length > 0).length,
    boxes: Object.fromEntries(
      [...Map.groupBy(boxes, (label) => label)].map(([label, all]) => [label, all.length]),
    ),
    imagesLeftOut: leftOut.count,
    warningsInAll: warnings.count,
  };
}

function describe(
  { images, imagesWithBoxes, boxes, imagesLeftOut, warningsInAll }: About,
  where: string,
): string[] {
  const rows = Object.entries(boxes).map(([label, count]) => [label, String(count)]);
  return [
    ...rows.length > 0 ? table([["LABEL", "BOXES"], ...rows]) : [],
    `${counted(images, "image")} ${where}, ${imagesWithBoxes} of them with boxes` +
    `${imagesLeftOut > 0 ? `; ${imagesLeftOut} left out` : ""}${
      warningsInAll > 0 ? `; ${counted(warningsInAll, "warning")}` : ""
    }`,
  ];
}

function tell(context: MlCommandContext, what: string, { all, count }: Problems): void {
  for (const { path, reason } of all.slice(0, LISTED_MAX)) context.note(`${what} ${path}: ${reason}`);
  if (count > LISTED_MAX) context.note(`${what} ${count - LISTED_MAX} more; see --json`);
}
