import { assert, assertEquals } from "@std/assert";
import { type Slam, SlamApi } from "../../lib/api/services/slam.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Slam> = {
  api: SlamApi,
  cases: {
    "getPosition returns finite numbers": async (slam) => {
      const { x, y, z, theta } = await slam.getPosition();
      assert([x, y, z, theta].every(Number.isFinite));
    },
    "the joined parts of getPointCloudMap are a PCD file": async (slam) => {
      const cloud = readPcd(await joined(slam.getPointCloudMap()));
      assert(cloud.x.length > 0);
      assertEquals(cloud.rgb?.length, cloud.x.length);
    },
    "the internal state is a file of internalStateFileType": async (slam) => {
      const { internalStateFileType } = await slam.getProperties();
      const state = await joined(slam.getInternalState());
      assert(state.length > 0);
      if (internalStateFileType === ".pbstream") {
        assertEquals([...state.subarray(0, 4)], [0xdb, 0x01, 0xf5, 0x5b]);
      }
    },
    "getProperties names the mapping mode and the sensors": async (slam) => {
      const { mappingMode, sensors } = await slam.getProperties();
      assert(mappingMode !== "unspecified");
      for (const { name, type } of sensors) assert(name !== "" && type !== "unspecified");
    },
  },
};

async function joined(parts: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all = await Array.fromAsync(parts);
  return new Uint8Array(await new Blob(all as BlobPart[]).arrayBuffer());
}
