import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { DataSyncService, type UploadMetadata } from "../../proto/gen/datasync_pb.ts";
import { SystemFiles } from "../base/files/system_files.ts";
import { SvcError } from "../base/error.ts";
import { silentLogs } from "../base/log/log.ts";
import { client } from "../wire/rpc/channel.ts";
import { memoryChannel } from "../wire/rpc/memory.ts";
import { service, ServiceTable } from "../wire/rpc/service.ts";
import type { CloudClient } from "./client.ts";
import { uploadPath } from "./path_upload.ts";

const { signal } = new AbortController();

/** Uploads from a folder with these files; returns what came with each. */
async function uploaded(
  files: { readonly [name: string]: string },
  path: string,
  given: Partial<UploadMetadata> = {},
) {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const received: Partial<UploadMetadata>[] = [];
  const clock = new FakeClock();
  const table = new ServiceTable(clock);
  table.add(service(DataSyncService, {
    fileUpload: async (requests) => {
      for await (const { uploadPacket } of requests) {
        if (uploadPacket.case === "metadata") received.push(uploadPacket.value);
      }
      return { binaryDataId: `id ${received.length}` };
    },
  }));
  const sync = client(DataSyncService, memoryChannel(table));
  const dataSync: CloudClient["dataSync"] = (_, use) => use(sync, {});
  const parts = {
    client: { partId: "p", dataSync },
    host: new SystemFiles(),
    rules: { folders: [folder], own: [], setting: "x" },
    logger: silentLogs(clock).logger("upload"),
  };
  try {
    for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${folder}/${name}`, text);
    const { ids } = await uploadPath(`${folder}/${path}`, given, parts, signal);
    return {
      ids,
      received: received.map(({ partId, fileName, fileExtension }) => [partId, fileName, fileExtension]),
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("uploadPath: each file goes under its own name and ending", async () => {
  const { ids, received } = await uploaded({ "a.csv": "1,2", "b.jpg": "x", c: "y" }, "");
  assertEquals(ids, ["id 1", "id 2", "id 3"]);
  assertEquals(received.toSorted(), [["p", "a.csv", ".csv"], ["p", "b.jpg", ".jpg"], ["p", "c", ""]]);
});

Deno.test("uploadPath: a given name and ending are those of a single file; a given ending is that of each", async () => {
  const given = { fileName: "other", fileExtension: ".txt" };
  assertEquals((await uploaded({ "a.csv": "1" }, "a.csv", given)).received, [["p", "other", ".txt"]]);
  const { received } = await uploaded({ "a.csv": "1", "b.jpg": "x" }, "", given);
  assertEquals(received.toSorted(), [["p", "a.csv", ".txt"], ["p", "b.jpg", ".txt"]]);
  await assertRejects(() => uploaded({}, "none.csv"), SvcError, "there is no file in");
});
