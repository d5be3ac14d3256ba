/** Hardware that the machine finds. */

import { DiscoveryClient, type RobotClient } from "@viamrobotics/sdk";
import type { Entry } from "./entries.ts";
import type { SchemaValue } from "./schema.ts";

/** What the machine's discovery services find. */
export async function discovered(
  client: RobotClient,
  services: readonly string[],
): Promise<readonly Entry[]> {
  const found = await Promise.all(
    services.map((name) => new DiscoveryClient(client, name).discoverResources()),
  );
  return found.flat().map(({ name, api, model, attributes }) => ({
    name,
    api,
    model,
    attributes: attributes?.toJson() as SchemaValue | undefined,
  }));
}
