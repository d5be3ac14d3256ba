/**
 * Uploads in pieces go to the disk as they come: memory does not grow with them.
 *
 * Small ones by default; `SVC_TEST_UPLOAD_MIB=2200 deno test -A tests/cloud/upload_test.ts` uploads more than 2 GiB
 * each, which needs as much room for temporary files.
 */

import { createHash } from "node:crypto";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { PackageService, PackageType } from "../../proto/gen/packages_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

const MIB = 1024 ** 2;
const UPLOAD_MIB = Number(Deno.env.get("SVC_TEST_UPLOAD_MIB") ?? 8);
/** By which the memory of the server may grow, whatever the size: what waits to be cleared away, mostly. */
const GROWTH_BYTES_MAX = 256 * MIB;
/** Uploads may take longer than other calls. */
const UPLOAD_MS = 15 * 60_000;

interface Uploading {
  readonly channel: Channel;
  readonly example: Example;
  readonly pieces: () => AsyncGenerator<Uint8Array>;
}

const UPLOADS: Record<string, (uploading: Uploading) => Promise<unknown>> = {
  async createPackage({ channel, example, pieces }) {
    const { createPackage } = client(PackageService, channel);
    const info = {
      organizationId: example.organizationId,
      name: "large",
      version: "1.0.0",
      type: PackageType.MODULE,
    };
    await createPackage(
      (async function* () {
        yield { package: { case: "info" as const, value: info } };
        for await (const value of pieces()) yield { package: { case: "contents" as const, value } };
      })(),
      { timeoutMs: UPLOAD_MS },
    );
  },
  async uploadModuleFile({ channel, example: { organizationId }, pieces }) {
    const app = client(AppService, channel);
    const { moduleId } = await app.createModule({ organizationId, name: "large" });
    const value = { moduleId, version: "1.0.0", platform: "any" };
    await app.uploadModuleFile(
      (async function* () {
        yield { moduleFile: { case: "moduleFileInfo" as const, value } };
        for await (const value of pieces()) yield { moduleFile: { case: "file" as const, value } };
      })(),
      { timeoutMs: UPLOAD_MS },
    );
  },
  async fileUpload({ channel, example: { partId }, pieces }) {
    const { fileUpload } = client(DataSyncService, channel);
    const value = { partId, type: DataType.FILE, fileName: "large", fileExtension: ".bin" };
    await fileUpload(
      (async function* () {
        yield { uploadPacket: { case: "metadata" as const, value } };
        for await (const data of pieces()) {
          yield {
            uploadPacket: { case: "fileContents" as const, value: { data } },
          };
        }
      })(),
      { timeoutMs: UPLOAD_MS },
    );
  },
  async streamingDataCaptureUpload({ channel, example: { partId }, pieces }) {
    const { streamingDataCaptureUpload } = client(DataSyncService, channel);
    const uploadMetadata = {
      partId,
      type: DataType.BINARY_SENSOR,
      componentName: "eye",
      methodName: "GetImages",
    };
    const value = { uploadMetadata, sensorMetadata: {} };
    await streamingDataCaptureUpload(
      (async function* () {
        yield { uploadPacket: { case: "metadata" as const, value } };
        for await (const value of pieces()) yield { uploadPacket: { case: "data" as const, value } };
      })(),
      { timeoutMs: UPLOAD_MS },
    );
  },
};

for (const [name, upload] of Object.entries(UPLOADS)) {
  Deno.test(`${name} writes a stream of ${UPLOAD_MIB} MiB to disk without holding it in memory`, async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
    const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
    const cloud = await serveCloud(["--data", folder]);
    const channel = await connected(cloud.url, example);
    try {
      const before = await peakBytes(cloud.pid);
      const hash = createHash("sha256");
      const pieces = async function* () {
        const piece = new Uint8Array(MIB);
        // As archives begin.
        piece.set([0x1f, 0x8b]);
        for (let number = 0; number < UPLOAD_MIB; number++) {
          new DataView(piece.buffer).setUint32(4, number);
          hash.update(piece);
          yield piece.slice();
        }
      };
      await upload({ channel, example, pieces });
      const sha256 = hash.digest("hex");
      const { size } = await Deno.stat(`${folder}/files/${sha256.slice(0, 2)}/${sha256}`);
      assertEquals(size, UPLOAD_MIB * MIB);
      const after = await peakBytes(cloud.pid);
      if (before !== undefined && after !== undefined) {
        const growth = Math.round((after - before) / MIB);
        assert(growth * MIB < GROWTH_BYTES_MAX, `the server's memory has grown by ${growth} MiB`);
      }
    } finally {
      channel.close();
      await cloud.stop();
      await Deno.remove(folder, { recursive: true });
    }
  });
}

async function connected(url: string, { ownerKey: { id: entity, key: payload } }: Example): Promise<Channel> {
  const { host } = new URL(url);
  const clock = new SystemClock();
  const stranger = connectGrpc(host, { clock });
  const { authenticate } = client(AuthService, stranger);
  const { accessToken } = await authenticate({ entity, credentials: { type: "api-key", payload } });
  stranger.close();
  return connectGrpc(host, { clock, header: Metadata.from([["authorization", `Bearer ${accessToken}`]]) });
}

/** The most memory that a process has had so far, where the system tells. */
async function peakBytes(pid: number): Promise<number | undefined> {
  if (Deno.build.os !== "linux") return undefined;
  const text = await Deno.readTextFile(`/proc/${pid}/status`);
  assertMatch(text, /VmHWM/);
  return Number(/VmHWM:\s*(\d+) kB/.exec(text)![1]) * 1024;
}
