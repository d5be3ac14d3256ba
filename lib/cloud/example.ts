/**
 * The example of `init` and `serve --demo`: an organization with a dataset to train from, keys, and a machine that
 * shows similar pictures to the model once it is trained.
 */

import { onePiece } from "../base/files/byte_reader.ts";
import { join, resolve } from "node:path";
import type { WriteFiles } from "../base/files/files.ts";
import type { Clock } from "../base/clock.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import { BinaryData } from "./data/binary_data.ts";
import { Datasets } from "./data/datasets.ts";
import { keepFile } from "./store/file_refs.ts";
import type { FileStore } from "./store/files.ts";
import { Locations } from "./tenants/locations.ts";
import { Organizations } from "./tenants/organizations.ts";
import { Parts } from "./tenants/parts.ts";
import { Keys, newKeySecret } from "./access/keys.ts";
import { checkForOperator, savePartConfig } from "./fleet/part_saving.ts";
import type { ConfigThreads } from "./config/config_threads.ts";
import type { Store } from "./store/store.ts";
import { MIME } from "../geometry/image/image.ts";
import type { Example } from "../learn/example.ts";
import { drawExamples, pngOf } from "../learn/example_scene.ts";
import { cloudSection, createMachine } from "./fleet/new_machine.ts";

/** The name of the example's model, also in the machine's configuration. */
const EXAMPLE_MODEL = "things";
export const EXAMPLE_DATASET = "things";
export const EXAMPLE_IMAGES = 240;
/** Pictures without objects, from which a model learns, too. */
const EMPTY_IMAGES = 30;
const DATASET_SEED = 1;
/** Pictures of the machine's camera; none of them is in the dataset. */
const CAMERA_IMAGES = 24;
const CAMERA_SEED = 2;
const IMAGE_BYTES_MAX = 1024 * 1024;
const EXAMPLE_ORGANIZATION = "example";

export interface ExampleIds {
  readonly url: string;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly locationId: string;
  readonly machineId: string;
  readonly partId: string;
  /** Pictures to train from. */
  readonly datasetId?: string;
  readonly ownerKey: { readonly id: string; readonly key: string };
  /** The content of the machine's file. */
  readonly config: JsonObject;
}

/** Receives the number of training pictures made so far, and their total. */
type PicturesHeard = (made: number, total: number) => void;

interface ExampleParts {
  readonly store: Store;
  readonly files: FileStore;
  readonly host: WriteFiles;
  readonly configs: ConfigThreads;
  /** The folder of the example. */
  readonly data: string;
  readonly clock: Clock;
}

/**
 * Creates a first organization with a location, a machine and keys, and with `withData` the training data. Does
 * nothing if there is an organization already.
 */
export async function makeExample(
  parts: ExampleParts,
  url: string,
  { withData, heard = () => {} }: { readonly withData: boolean; readonly heard?: PicturesHeard },
): Promise<ExampleIds | undefined> {
  const { store, clock, data } = parts;
  if ((await new Organizations(store).all()).length > 0) return undefined;
  const [personal, own] = [await newKeySecret("svc-cloud"), await newKeySecret("svc-cloud")];
  const nowMs = clock.nowMs();
  const pictures = resolve(data, "example");
  const made = await store.transaction(async (sql) => {
    if ((await new Organizations(sql).all()).length > 0) return undefined;
    const organizationId = await new Organizations(sql).create(EXAMPLE_ORGANIZATION, nowMs);
    const locationId = await new Locations(sql).create(organizationId, "home", "", nowMs);
    const owner = { role: "owner", kind: "organization", resourceId: organizationId } as const;
    const ownerKey = await new Keys(sql).create(personal, "example owner", [owner], nowMs);
    const machine = await createMachine(sql, own, locationId, "example-machine", nowMs);
    const made = { organizationId, locationId, machine, ownerKey };
    if (!withData) return { ...made, datasetId: undefined };
    const datasetId = await new Datasets(sql).create(organizationId, EXAMPLE_DATASET, "images", nowMs);
    return { ...made, datasetId };
  });
  if (!made) return undefined;
  const { machine: { id: machineId, partId, key }, ...example } = made;
  if (example.datasetId !== undefined) {
    const part = await new Parts(store).get(partId);
    const text = JSON.stringify(machineConfig(example.organizationId, pictures));
    const checked = await checkForOperator(parts, part, text);
    await store.transaction((sql) => savePartConfig(sql, part, checked, "svc-cloud", nowMs));
    heard(0, EXAMPLE_IMAGES);
    await fillDataset(parts, partId, example.datasetId, heard);
    await writePictures(parts.host, pictures);
  }
  return {
    url,
    ...example,
    organizationName: EXAMPLE_ORGANIZATION,
    machineId,
    partId,
    config: cloudSection(partId, key, url),
  };
}

/** A camera with pictures, and the model that training will create. */
function machineConfig(organizationId: string, folder: string): JsonObject {
  const model = EXAMPLE_MODEL;
  return {
    components: [{
      name: "camera",
      api: "rdk:component:camera",
      model: "replay",
      attributes: { folder, frame_rate: 0 },
    }],
    services: [
      {
        name: `${model}-model`,
        api: "rdk:service:mlmodel",
        model: "onnx_cpu",
        attributes: { model_path: `\${packages.ml_model.${model}}` },
      },
      {
        name: model,
        api: "rdk:service:vision",
        model: "mlmodel",
        attributes: { mlmodel_name: `${model}-model`, camera_name: "camera" },
      },
    ],
    packages: [{ name: model, package: `${organizationId}/${model}`, type: "ml_model", version: "latest" }],
  };
}

async function fillDataset(
  { store, files, clock }: ExampleParts,
  partId: string,
  datasetId: string,
  heard: PicturesHeard,
): Promise<void> {
  const part = await new Parts(store).get(partId);
  const { organizationId, locationId, machineId, machineName, name: partName } = part;
  const origin = {
    ...{ organizationId, locationId, machineId, machineName, partId, partName },
    ...{
      componentType: "rdk:component:camera",
      componentName: "camera",
      methodName: "GetImages",
      parameters: "{}",
    },
  };
  let made = 0;
  for (const picture of drawTrainingPictures()) {
    const nowMs = clock.nowMs();
    const upload = {
      origin,
      fileName: `thing-${made}`,
      fileExt: ".png",
      mimeType: MIME.png,
      tags: picture.labels,
      datasetIds: [datasetId],
      boxes: picture.boxes,
      classifications: [],
    };
    await keepFile(
      store,
      files,
      onePiece(pngOf(picture)),
      IMAGE_BYTES_MAX,
      (file) => store.transaction((sql) => new BinaryData(sql).add(upload, file, nowMs)),
    );
    made++;
    heard(made, EXAMPLE_IMAGES);
  }
}

function* drawTrainingPictures(): Generator<Example> {
  yield* drawExamples(EXAMPLE_IMAGES - EMPTY_IMAGES, DATASET_SEED, { things: [1, 4] });
  yield* drawExamples(EMPTY_IMAGES, DATASET_SEED + 2, { things: [0, 0] });
}

async function writePictures(files: WriteFiles, folder: string): Promise<void> {
  await files.makeFolder(folder);
  let index = 0;
  for (const picture of drawExamples(CAMERA_IMAGES, CAMERA_SEED)) {
    await files.writeFile(join(folder, `${index++}.png`), pngOf(picture));
  }
}
