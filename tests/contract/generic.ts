import { assertEquals } from "@std/assert";
import { GenericApi } from "../../lib/api/actuators/generic.ts";
import type { Component, Resource } from "../../lib/resource/resource.ts";
import type { Contract } from "./contract.ts";

/** The common promises of the generic component and the generic service. */
export const genericCases: Contract<Resource>["cases"] = {
  "doCommand takes any JSON object and returns an object": async (generic) => {
    const command = { text: "a", number: 1.5, list: [true, null, { deep: [] }], empty: {} };
    assertEquals(typeof await generic.doCommand(command), "object");
  },
  "getStatus returns an object": async (generic) => {
    assertEquals(typeof await generic.getStatus(), "object");
  },
};

export const contract: Contract<Component> = { api: GenericApi, cases: genericCases };
