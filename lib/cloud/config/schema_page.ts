/**
 * `/machine-schema.json`: the JSON Schema of a machine's configuration, for editors.
 *
 * It is the same for everybody, and reveals nothing about tenants. A configuration thread makes it once.
 */

import { messageOf, SvcError } from "../../base/error.ts";
import { textAnswer } from "../../wire/port/routes.ts";
import type { ConfigThreads } from "./config_threads.ts";
import type { Route } from "../../wire/port/route.ts";

export function schemaPages(configs: Pick<ConfigThreads, "machineSchema">): ReadonlyMap<string, Route> {
  const route: Route = async ({ method }) => {
    if (method !== "GET" && method !== "HEAD") return textAnswer(405, "wanted GET");
    try {
      return {
        status: 200,
        contentType: "application/json",
        body: await configs.machineSchema(),
        fields: [["cache-control", "no-cache"]],
      };
    } catch (error) {
      const status = SvcError.from(error).code === "unimplemented" ? 404 : 503;
      return textAnswer(status, `there is no schema: ${messageOf(error)}`);
    }
  };
  return new Map([["/machine-schema.json", route]]);
}
