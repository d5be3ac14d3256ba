import { assert, assertEquals } from "@std/assert";
import { type Discovery, DiscoveryApi } from "../../lib/api/services/discovery.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Discovery> = {
  api: DiscoveryApi,
  cases: {
    "discoverResources returns configuration entries with unique names": async (discovery) => {
      const found = await discovery.discoverResources();
      assert(found.length > 0, "the machine of the tests has something to be found");
      assertEquals(new Set(found.map(({ name }) => name)).size, found.length);
      for (const { name, api, model, attributes } of found) {
        assert(/^[\w-]+$/.test(name), name);
        assertEquals([api, model].map((one) => one.split(":").length), [3, 3]);
        assertEquals(typeof attributes, "object");
      }
    },
  },
};
