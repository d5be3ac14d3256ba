import { assertEquals, assertRejects } from "@std/assert";
import { type DataManager, DataManagerApi } from "../../lib/api/services/data_manager.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<DataManager> = {
  api: DataManagerApi,
  cases: {
    "getStatus counts waiting files and bytes": async (manager) => {
      const { waiting_files, waiting_bytes, capturing } = await manager.getStatus();
      assertEquals([waiting_files, waiting_bytes, capturing], [0, 0, 0]);
    },
    "sync fails without a control plane": async (manager) => {
      const { code } = await assertRejects(() => manager.sync(), SvcError, "control plane");
      assertEquals(code, "failed_precondition");
    },
    "uploadBinaryDataToDatasets refuses a file without datasets": async (manager) => {
      const file = { content: new Uint8Array(1), mimeType: "image/png", tags: [], datasetIds: [] };
      const run = () => manager.uploadBinaryDataToDatasets(file);
      assertEquals((await assertRejects(run, SvcError, "dataset")).code, "invalid_argument");
    },
  },
};
