/**
 * The commands that change what is in a dataset: labels and boxes of its images, the images themselves, and datasets
 * made of others.
 */

import { SvcError } from "../../../lib/base/error.ts";
import type { DatasetImage } from "../../../lib/cloud_client/dataset.ts";
import { decodeColor } from "../../../lib/geometry/image/image.ts";
import { UsageError } from "../../flags.ts";
import { namedOne } from "../../lookup.ts";
import { commaWords, type MlCommand, mlCommand } from "../command.ts";
import type { MlCommandContext } from "../command_context.ts";
import { fetchImages, findDataset } from "../lookup.ts";
import { imageContent } from "./transfer.ts";
import { counted } from "../../../lib/base/log/counted.ts";

/** Ids in one request. */
const IDS_A_CALL = 500;

const ALL_IMAGES = {
  name: "all",
  type: "bool",
  default: false,
  help: "All images of the dataset, in place of IMAGE.",
} as const;

export const LABEL_COMMANDS: readonly MlCommand[] = [
  mlCommand(
    "dataset label",
    ["DATASET", "LABEL", "[IMAGE...]"],
    "Gives images of a dataset a label, or several that commas separate. IMAGE is an id, its beginning, or a file name.",
    [ALL_IMAGES],
    (context, [wanted, label, ...images], { all }) => relabel(context, { wanted, label, images, all }, "add"),
  ),
  mlCommand(
    "dataset unlabel",
    ["DATASET", "LABEL", "[IMAGE...]"],
    "Takes a label from images of a dataset, or several that commas separate.",
    [ALL_IMAGES],
    (context, [wanted, label, ...images], { all }) =>
      relabel(context, { wanted, label, images, all }, "remove"),
  ),
  mlCommand(
    "dataset box",
    ["DATASET", "IMAGE", "LABEL", "CORNERS"],
    "Draws a labeled box: CORNERS are x1,y1,x2,y2 in pixels, or as proportions from 0 to 1 with a dot in each.",
    [],
    async (context, [wanted, image, label, corners]) => {
      const { data } = await context.services();
      const found = await namedImage(context, wanted, image);
      const box = await boxFrom(context, found, corners);
      const request = { binaryDataId: found.id, label, ...box };
      const { bboxId: id } = await data.addBoundingBoxToImageByID(request, context.limits);
      context.print({ id, binaryDataId: found.id, label, ...box }, [id]);
    },
  ),
  mlCommand(
    "dataset unbox",
    ["DATASET", "IMAGE", "BOX"],
    "Removes a box from an image: by its id, or by its label if it is the only one.",
    [],
    async (context, [wanted, image, box]) => {
      const { data } = await context.services();
      const found = await namedImage(context, wanted, image);
      const { id } = namedOne("box", box, found.boxes.map(({ id, label: name }) => ({ id, name })));
      await data.removeBoundingBoxFromImageByID({ binaryDataId: found.id, bboxId: id }, context.limits);
      context.print({ id, binaryDataId: found.id }, [id]);
    },
  ),
  mlCommand(
    "dataset remove",
    ["DATASET", "IMAGE..."],
    "Takes images out of a dataset. They stay with the data of the organization.",
    [],
    async (context, [wanted, ...images]) => {
      const { data } = await context.services();
      const { id: datasetId, name } = await findDataset(context, wanted);
      const ids = (await chosenImages(context, wanted, images, false)).map(({ id }) => id);
      for (const binaryDataIds of batches(ids)) {
        await data.removeBinaryDataFromDatasetByIDs({ binaryDataIds, datasetId }, context.limits);
      }
      context.print({ datasetId, binaryDataIds: ids }, [
        `${counted(ids.length, "image is", "images are")} out of ${name}`,
      ]);
    },
  ),
  mlCommand(
    "dataset merge",
    ["NAME", "DATASET..."],
    "Makes a new dataset with the images of others, which stay as they are.",
    [],
    async (context, [name, ...wanted]) => {
      const { datasets } = await context.services();
      const organizationId = await context.organization();
      const datasetIds = [];
      for (const one of wanted) datasetIds.push((await findDataset(context, one)).id);
      const { datasetId: id } = await datasets.mergeDatasets(
        { name, organizationId, datasetIds },
        context.limits,
      );
      context.print({ id, name }, [id]);
      context.note(`check it with: svc-ml dataset check ${name}`);
    },
  ),
];

interface Relabeling {
  readonly wanted: string;
  readonly label: string;
  readonly images: readonly string[];
  readonly all: boolean;
}

async function relabel(
  context: MlCommandContext,
  { wanted, label, images, all }: Relabeling,
  how: "add" | "remove",
): Promise<void> {
  const { data } = await context.services();
  const tags = commaWords([label]);
  const chosen = await chosenImages(context, wanted, images, all);
  for (const binaryDataIds of batches(chosen.map(({ id }) => id))) {
    const request = { binaryDataIds, tags };
    if (how === "add") await data.addTagsToBinaryDataByIDs(request, context.limits);
    else await data.removeTagsFromBinaryDataByIDs(request, context.limits);
  }
  const has = chosen.length === 1 ? "has" : "have";
  const done = how === "add" ? has : `no longer ${has}`;
  context.print({ binaryDataIds: chosen.map(({ id }) => id), labels: tags }, [
    `${counted(chosen.length, "image")} ${done} ${tags.join(", ")}`,
  ]);
}

/** The named images of a dataset, or all. */
async function chosenImages(
  context: MlCommandContext,
  wanted: string,
  words: readonly string[],
  all: boolean,
): Promise<readonly DatasetImage[]> {
  if (all === words.length > 0) throw new UsageError("name images, or give --all for all of them");
  const images = await fetchNamedImages(context, wanted);
  return all ? images : words.map((word) => namedOne("image", word, images));
}

async function namedImage(context: MlCommandContext, wanted: string, word: string): Promise<DatasetImage> {
  return namedOne("image", word, await fetchNamedImages(context, wanted));
}

/** The images of a dataset, named as their files. */
async function fetchNamedImages(context: MlCommandContext, wanted: string) {
  const images = await fetchImages(context, (await findDataset(context, wanted)).id);
  return images.map((image) => ({ ...image, name: image.fileName }));
}

async function boxFrom(context: MlCommandContext, image: DatasetImage, corners: string) {
  const sides = corners.split(",").map(Number);
  const [x1 = NaN, y1 = NaN, x2 = NaN, y2 = NaN] = sides;
  if (sides.length !== 4 || sides.some((one) => !Number.isFinite(one) || one < 0)) {
    throw new UsageError(
      `CORNERS: found "${corners}", wanted x1,y1,x2,y2 such as 10,20,110,80 or 0.1,0.2,0.5,0.8`,
    );
  }
  const areProportions = sides.every((one) => one <= 1);
  const { width, height } = areProportions ? { width: 1, height: 1 } : await fetchSize(context, image);
  const box = {
    xMinNormalized: Math.min(x1, x2) / width,
    yMinNormalized: Math.min(y1, y2) / height,
    xMaxNormalized: Math.max(x1, x2) / width,
    yMaxNormalized: Math.max(y1, y2) / height,
  };
  if (box.xMaxNormalized > 1 || box.yMaxNormalized > 1) {
    throw new UsageError(`CORNERS: found "${corners}" in an image of ${width} by ${height} pixels`);
  }
  return box;
}

async function fetchSize(context: MlCommandContext, image: DatasetImage) {
  const content = await imageContent(context, await context.services(), image);
  const { width, height } = decodeColor(content, `reading ${image.fileName}`);
  if (width > 0 && height > 0) return { width, height };
  throw new SvcError("data_loss", `${image.fileName} has ${width} by ${height} pixels`);
}

function* batches(ids: readonly string[]): Generator<string[]> {
  for (let at = 0; at < ids.length; at += IDS_A_CALL) yield ids.slice(at, at + IDS_A_CALL);
}
