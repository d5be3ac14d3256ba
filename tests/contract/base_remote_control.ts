import { assertEquals } from "@std/assert";
import { BaseRemoteControlApi } from "../../lib/api/services/base_remote_control.ts";
import type { Resource } from "../../lib/resource/resource.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Resource> = {
  api: BaseRemoteControlApi,
  cases: {
    "getStatus returns an object": async (service) => {
      assertEquals(typeof await service.getStatus(), "object");
    },
  },
};
