import { assert, assertEquals, assertRejects } from "@std/assert";
import { type WorldStateStore, WorldStateStoreApi } from "../../lib/api/services/world_state_store.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<WorldStateStore> = {
  api: WorldStateStoreApi,
  cases: {
    "getTransform returns the transform of each id, with that id": async (store) => {
      for (const uuid of await store.listUuids()) {
        const found = await store.getTransform(uuid).catch((error) => SvcError.from(error));
        // It may be gone meanwhile.
        if (found instanceof SvcError) assertEquals(found.code, "not_found");
        else assertEquals(found.uuid, uuid);
      }
    },
    "getTransform refuses an unknown id": async (store) => {
      const error = await assertRejects(() => store.getTransform(new Uint8Array([1, 2, 3])), SvcError);
      assertEquals(error.code, "not_found");
    },
    "streamTransformChanges tells changes with ids, until its call is aborted": async (store) => {
      const stop = new AbortController();
      const follow = async () => {
        for await (const { transform } of store.streamTransformChanges({ signal: stop.signal })) {
          assert((transform.uuid?.length ?? 0) > 0);
          stop.abort();
        }
      };
      await follow().catch(() => {});
      assert(stop.signal.aborted);
    },
  },
};
