/**
 * GetInference against organizations that mean harm: their models read nothing, end by their time and within their
 * memory, and others get their answers meanwhile.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { MLInferenceService } from "../../proto/gen/ml_inference_pb.ts";
import { type ArchiveFile, packed } from "../../lib/base/files/archive.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { encodePng } from "../../lib/geometry/image/png.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { endlessModel, fileReaders, greedyModel } from "../attack/hostile_models.ts";
import { bombPictures } from "../attack/hostile_pictures.ts";
import { colorsModel } from "../support/onnx_models.ts";
import { sqliteTest } from "./stores.ts";
import { newDataset } from "./training_world.ts";
import { newWorld, type ServedCloud, withCloud } from "./world.ts";

const RED = encodePng({
  width: 6,
  height: 4,
  channels: 3,
  samples: Uint8Array.from({ length: 72 }, (_, index) => index % 3 === 0 ? 255 : 0),
});

/** An organization with models and pictures, and inference on them. */
async function tenant({ store, files, channel }: ServedCloud) {
  const world = await newWorld(store);
  const { getInference } = client(MLInferenceService, await channel(world.owner));
  const organizationId = world.organization;
  const upload = async (name: string, model: Uint8Array) => {
    const file = await files.put(packed([
      entry("model.onnx", model),
      entry("labels.txt", new TextEncoder().encode("red\ngreen\nblue\n")),
    ]));
    const info = {
      organizationId,
      name,
      version: "1",
      type: "ml_model",
      platform: "",
      metadata: {},
      file,
    } as const;
    await store.transaction((sql) => new Packages(sql).add(info, 0));
  };
  const picture = async (bytes: Uint8Array) => {
    await newDataset(store, files, world, [{ bytes }]);
    const query = "SELECT id FROM binary_data ORDER BY rowid DESC LIMIT 1";
    return (await store.query<{ id: string }>(query))[0].id;
  };
  const ask = async (name: string, image: string) => {
    try {
      const about = { registryItemId: `${organizationId}:${name}`, registryItemVersion: "1", organizationId };
      const { annotations } = await getInference({ ...about, binaryDataId: image }, { timeoutMs: 60_000 });
      return `ok: ${annotations!.classifications[0]?.label}`;
    } catch (error) {
      const { code, message } = SvcError.from(error);
      return `${code}: ${message}`;
    }
  };
  return { upload, picture, ask };
}

function entry(path: string, bytes: Uint8Array): ArchiveFile {
  return { path, bytes: bytes.length, content: [bytes] };
}

sqliteTest(
  "GetInference refuses a model with external data before the runtime opens it",
  (database) =>
    withCloud(database, async (cloud) => {
      const { upload, picture, ask } = await tenant(cloud);
      const image = await picture(RED);
      // The files that the runtime would find from the program's folder.
      const readers = fileReaders("deno.json", 16).filter(({ name }) =>
        /^a (constant|branch of)|in memory/.test(name)
      );
      assertEquals(readers.length, 3);
      for (const [index, { name, model }] of readers.entries()) {
        await upload(`reader${index}`, model);
        const answer = await ask(`reader${index}`, image);
        assertStringIncludes(
          answer,
          'invalid_argument: cannot load the ONNX model: the values of "w" are in',
          name,
        );
      }
    }),
);

sqliteTest(
  "models that never end stop at their time limit, and other organizations go first",
  (database) =>
    withCloud(database, async (cloud) => {
      const [one, two, good] = [await tenant(cloud), await tenant(cloud), await tenant(cloud)];
      const over: string[] = [];
      const asked: Promise<string>[] = [];
      for (const [name, bad] of [["one", one], ["two", two]] as const) {
        await bad.upload("endless", endlessModel());
        const image = await bad.picture(RED);
        for (let call = 0; call < 2; call++) {
          asked.push(bad.ask("endless", image).finally(() => over.push(name)));
        }
      }
      await good.upload("colors", colorsModel());
      const image = await good.picture(RED);
      assertEquals(await good.ask("colors", image), "ok: red");
      assert(over.length < 4, "it did not wait for all of them");
      for (const answer of await Promise.all(asked)) {
        assertStringIncludes(
          answer,
          'deadline_exceeded: version "1" of "endless" has not answered within 6 s',
        );
      }
      assertEquals(over.toSorted(), ["one", "one", "two", "two"]);
      assertEquals(await good.ask("colors", image), "ok: red");
    }, { inferenceMs: 6_000 }),
);

sqliteTest(
  "a model that takes all memory fails without harm to the next inference",
  (database) =>
    withCloud(database, async (cloud) => {
      const { upload, picture, ask } = await tenant(cloud);
      const image = await picture(RED);
      await upload("greedy", greedyModel(8 * 1024 ** 3));
      await upload("colors", colorsModel());
      assertStringIncludes(await ask("greedy", image), "resource_exhausted: ");
      assertEquals(await ask("colors", image), "ok: red");
    }),
);

sqliteTest(
  "GetInference refuses pictures that decode to too much memory",
  (database) =>
    withCloud(database, async (cloud) => {
      const { upload, picture, ask } = await tenant(cloud);
      await upload("colors", colorsModel());
      for (const { name, bytes } of bombPictures()) {
        const answer = await ask("colors", await picture(bytes));
        assertStringIncludes(answer, "invalid_argument: cannot read the ", name);
      }
      assertEquals(await ask("colors", await picture(RED)), "ok: red");
    }),
);
