/**
 * The commands on datasets: creating them, filling them from files, checking them before training, and exporting them.
 *
 * Adding and exporting can be repeated after an interruption: they skip what is done already.
 *
 * The room owns images and datasets on their way between this computer and a control plane, and the report on them
 * before a training.
 */

import { basename, join } from "node:path";
import { ListDatasetsByOrganizationIDResponseSchema } from "../../../proto/gen/dataset_pb.ts";
import { toTimestamp } from "../../../lib/api/shared/time.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { shellWord } from "../../../lib/base/escape.ts";
import { fileNameFrom } from "../../../lib/base/files/names.ts";
import type { DatasetImage } from "../../../lib/cloud_client/dataset.ts";
import { datasetLine } from "../../../lib/cloud_client/dataset.ts";
import { ModelType, parseModelType } from "../../../lib/cloud_client/training_client.ts";
import { decodeColor } from "../../../lib/geometry/image/image.ts";
import { PICTURE_BYTES_MAX } from "../../../lib/learn/example.ts";
import { create } from "../../../lib/wire/rpc/proto.ts";
import { UsageError } from "../../flags.ts";
import { isoTimes, sizeText, timeText } from "../../table.ts";
import { commaWords, ML_EXIT, type MlCommand, mlCommand } from "../command.ts";
import { localImages, OUTSIDE } from "./local_images.ts";
import { IMPORT_COMMAND } from "./import.ts";
import { fetchImages, findDataset, findPart, jsonNames } from "../lookup.ts";
import { describePreflight, preflight } from "./preflight.ts";
import type { MlCommandContext } from "../command_context.ts";
import { MODEL_TYPE, TAGS_FLAG } from "../submit.ts";
import { addCaptured, FILTER_HELP } from "./captured.ts";
import { LABEL_COMMANDS } from "./labels.ts";
import { EXTENSIONS, imageContent, OF_ALL_IMAGES, processEach, tellSkipped, upload } from "./transfer.ts";
import { counted } from "../../../lib/base/log/counted.ts";

export const DATASET_COMMANDS: readonly MlCommand[] = [
  mlCommand("dataset create", ["NAME"], "Creates an empty dataset.", [], async (context, [name]) => {
    const { datasets } = await context.services();
    const organizationId = await context.organization();
    const { id } = await datasets.createDataset({ name, organizationId }, context.limits);
    context.print({ id, name }, [id]);
    context.note(`add images with: svc-ml dataset add ${shellWord(name)} FOLDER`);
  }),
  mlCommand("dataset list", [], "Lists the datasets of an organization.", [], async (context) => {
    const { datasets } = await context.services();
    const organizationId = await context.organization();
    const all = (await datasets.listDatasetsByOrganizationID({ organizationId }, context.limits)).datasets;
    all.sort((a, b) => a.name < b.name ? -1 : 1);
    const message = create(ListDatasetsByOrganizationIDResponseSchema, { datasets: all });
    context.listMessage(ListDatasetsByOrganizationIDResponseSchema, message, {
      columns: [{ heading: "NAME", cutTo: 20 }, { heading: "CREATED (UTC)", rank: 1 }, {
        heading: "ID",
        cutTo: 9,
      }],
      rows: all.map(({ id, name, timeCreated }) => [name, timeText(timeCreated), id]),
      empty: "there is no dataset yet: svc-ml dataset create NAME makes one",
    }, await jsonNames(context));
  }),
  mlCommand(
    "dataset rename",
    ["DATASET", "NAME"],
    "Gives a dataset another name.",
    [],
    async (context, [wanted, name]) => {
      const { datasets } = await context.services();
      const { id } = await findDataset(context, wanted);
      await datasets.renameDataset({ id, name }, context.limits);
      context.print({ id, name }, [id]);
    },
  ),
  mlCommand(
    "dataset delete",
    ["DATASET"],
    "Removes a dataset. Its images stay with the data of the organization.",
    [],
    async (context, [wanted]) => {
      const { datasets } = await context.services();
      const { id, name } = await findDataset(context, wanted);
      await datasets.deleteDataset({ id }, context.limits);
      context.print({ id, name }, [id]);
    },
  ),
  mlCommand(
    "dataset images",
    ["DATASET"],
    "Lists the images of a dataset with their labels, the oldest first.",
    [],
    async (context, [wanted]) => {
      const dataset = await findDataset(context, wanted);
      const images = await fetchImages(context, dataset.id);
      context.list(() => ({ datasetId: dataset.id, datasetName: dataset.name, images: isoTimes(images) }), {
        columns: [
          { heading: "NAME", cutTo: 16 },
          { heading: "LABELS", cutTo: 12 },
          { heading: "SIZE", rank: 2 },
          { heading: "CAPTURED (UTC)", rank: 1 },
          { heading: "ID", cutTo: 9 },
        ],
        rows: images.map(({ id, fileName, bytes, capturedMs, ...image }) => [
          fileName || "-",
          labelsText(image),
          sizeText(bytes),
          timeText(toTimestamp(capturedMs)),
          id,
        ]),
        empty: `${dataset.name} has no image yet: svc-ml dataset add ${
          shellWord(dataset.name)
        } FOLDER adds some`,
      });
    },
  ),
  mlCommand(
    "dataset add",
    ["DATASET", "[PATH...]"],
    "Uploads images into a dataset: files, folders with one folder for each label, or folders with a dataset.jsonl. " +
      "With --filter, adds captured images.",
    [
      ...OF_ALL_IMAGES,
      { name: "filter", type: "list", default: [], value: "KEY=VALUE", help: FILTER_HELP },
      {
        name: OUTSIDE,
        type: "bool",
        default: false,
        help: "Also take files outside a folder, if its dataset.jsonl names them or its links lead to them.",
      },
    ],
    async (context, [wanted, ...paths], flags) => {
      const { tags, labels, partId: part, outside } = flags as unknown as {
        tags: string[];
        labels: string[];
        partId: string;
        outside: boolean;
      };
      const { filter } = flags as unknown as { readonly filter: readonly string[] };
      if (filter.length > 0 === paths.length > 0) {
        throw new UsageError("name files or folders, or captured images with --filter KEY=VALUE");
      }
      if (filter.length > 0) {
        const { id, name } = await findDataset(context, wanted);
        const added = await addCaptured(context, id, filter);
        return context.print({ datasetId: id, binaryDataIds: added }, [
          `${counted(added.length, "image is", "images are")} in ${name}`,
        ]);
      }
      const { images, skipped } = await localImages(context, paths, commaWords(tags, labels), { outside });
      if (images.length === 0) {
        const found = skipped.map(({ path, reason }) => `${path}: ${reason}`).join("; ");
        throw new SvcError(
          "invalid_argument",
          `there is no JPEG or PNG in ${paths.join(", ")}${found && `: ${found}`}`,
        );
      }
      const services = await context.services();
      const dataset = await findDataset(context, wanted);
      const partId = await findPart(context, part);
      const ids = await processEach(
        context,
        "added",
        images,
        (image) => upload(context, services, image, { partId, datasetId: dataset.id }),
      );
      tellSkipped(context, skipped);
      context.print({ datasetId: dataset.id, binaryDataIds: ids, skipped }, [
        `${counted(ids.length, "image is", "images are")} in ${dataset.name}${
          skipped.length > 0 ? `, ${counted(skipped.length, "file")} left out` : ""
        }`,
      ]);
    },
  ),
  IMPORT_COMMAND,
  ...LABEL_COMMANDS,
  mlCommand(
    "dataset check",
    ["[DATASET]"],
    "Reports whether a model can be trained on a dataset: labels, unreadable or unused images, and what is missing.",
    [
      { ...MODEL_TYPE, default: "" },
      ...TAGS_FLAG,
      {
        name: "quick",
        type: "bool",
        default: false,
        help: "Only check the labels: fetch and decode no image.",
      },
    ],
    async (context, [wanted = ""], { modelType, tags, labels, quick }) => {
      const dataset = await findDataset(context, wanted);
      const images = await fetchImages(context, dataset.id);
      const type = modelType === "" ? assumedType(context, images) : parseModelType(modelType);
      const unreadable = quick ? new Map<string, string>() : await findUnreadable(context, images);
      const found = preflight({
        datasetId: dataset.id,
        type,
        labels: commaWords(tags, labels),
        images,
        unreadable,
      });
      context.print(found, describePreflight(found));
      if (found.ready) {
        const name = shellWord(dataset.name);
        context.note(`train with: svc-ml submit --model-type ${spelledType(type)} --dataset ${name}`);
      }
      return found.ready ? ML_EXIT.ok : ML_EXIT.conflict;
    },
  ),
  mlCommand(
    "dataset export",
    ["DATASET"],
    "Writes a dataset to a folder: data/ with the images, and dataset.jsonl as training scripts read it.",
    [{
      name: "destination",
      short: "d",
      type: "string",
      default: "",
      value: "FOLDER",
      help: "The target folder; by default one with the dataset's name.",
    }],
    async (context, [wanted], { destination }) => {
      const services = await context.services();
      const dataset = await findDataset(context, wanted);
      const images = await fetchImages(context, dataset.id);
      const folder = destination || fileNameFrom(dataset.name);
      await context.host.makeFolder(join(folder, "data"));
      let there = 0;
      await processEach(context, "written", images, async (image) => {
        const path = join(folder, imagePath(image));
        // Files are written completely or not at all.
        if (image.bytes > 0 && await context.host.fileSize(path) === image.bytes) there++;
        else await context.host.writeFile(path, await imageContent(context, services, image));
      });
      const lines = images.map((image) => `${datasetLine(image, imagePath(image))}\n`);
      await context.host.writeFile(join(folder, "dataset.jsonl"), lines.join(""));
      if (there > 0) context.note(`${there} of them were there already`);
      context.print({ datasetId: dataset.id, destination: folder, images: images.length }, [
        `${
          counted(images.length, `image of ${dataset.name} is`, `images of ${dataset.name} are`)
        } in ${folder}`,
      ]);
    },
  ),
];

/** The type of model that the labels are for; tells the person which one it assumes. */
function assumedType(context: MlCommandContext, images: readonly DatasetImage[]): ModelType {
  const hasBoxes = images.some(({ boxes }) => boxes.length > 0);
  const labels = images.map(({ tags, classifications }) => tags.length + classifications.length);
  const some = labels.filter((count) => count > 0).length;
  const several = labels.filter((count) => count > 1).length;
  let [type, why] = [ModelType.SINGLE_LABEL_CLASSIFICATION, "most images have one label, and none has boxes"];
  if (several > some / 2) {
    [type, why] = [
      ModelType.MULTI_LABEL_CLASSIFICATION,
      "most images have several labels, and none has boxes",
    ];
  }
  if (hasBoxes || some === 0) {
    [type, why] = [ModelType.OBJECT_DETECTION, hasBoxes ? "images have boxes" : "no image has a label"];
  }
  context.note(`assuming --model-type ${spelledType(type)}: ${why}`);
  return type;
}

function spelledType(type: ModelType): string {
  return ModelType[type].toLowerCase().replaceAll("_", "-");
}

/** `cat, dog 2x`: labels of the whole, then the kinds of boxes with their counts. */
function labelsText(
  { tags, classifications, boxes }: Pick<DatasetImage, "tags" | "classifications" | "boxes">,
): string {
  const whole = [...new Set([...tags, ...classifications.map(({ label }) => label)])];
  const counts = Map.groupBy(boxes, ({ label }) => label);
  return [...whole, ...[...counts].map(([label, all]) => `${label} ${all.length}x`)].join(", ") || "-";
}

/** The images that a trainer would leave out because it cannot decode them, by id, with the reason. */
async function findUnreadable(
  context: MlCommandContext,
  images: readonly DatasetImage[],
): Promise<Map<string, string>> {
  const services = await context.services();
  const unreadable = new Map<string, string>();
  await processEach(context, "read", images, async (image) => {
    const content = await imageContent(context, services, image);
    try {
      if (content.length > PICTURE_BYTES_MAX) {
        throw new SvcError(
          "invalid_argument",
          `it has ${content.length} bytes, wanted at most ${PICTURE_BYTES_MAX}`,
        );
      }
      decodeColor(content, "reading an image");
    } catch (error) {
      unreadable.set(image.id, messageOf(error));
    }
  });
  return unreadable;
}

/** Path of an exported image, from the folder of the dataset. */
function imagePath({ id, fileName, mimeType }: DatasetImage): string {
  const base = basename(fileName);
  const extension = /\.[A-Za-z0-9]+$/.test(base) ? "" : EXTENSIONS[mimeType] ?? "";
  return `data/${fileNameFrom(base === "" ? id : `${id}_${base}`)}${extension}`;
}
