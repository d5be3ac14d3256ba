/**
 * Configurations in messages: how they come in, what a caller gets to see of them, and who has changed them.
 */

import { AuthenticationType } from "../../../proto/gen/app_pb.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { starred } from "../../base/schema/json_secrets.ts";
import { isObject, type JsonObject } from "../../base/schema/schema.ts";
import type { CallContext } from "../../wire/service.ts";
import type { Ref } from "../access/access.ts";
import { type CloudContext, isPerson } from "../context.ts";

/** A configuration as text where there is one: numbers and their order stay as they are written. */
export function configOf(text: string | undefined, message: JsonObject | undefined): JsonObject | undefined {
  if (!text) return message;
  try {
    const json = JSON.parse(text);
    if (isObject(json)) return json as JsonObject;
  } catch (cause) {
    throw new SvcError("invalid_argument", `the configuration is not JSON: ${messageOf(cause)}`, { cause });
  }
  throw new SvcError(
    "invalid_argument",
    'the configuration is no object, wanted one such as {"components": []}',
  );
}

/** How a caller gets to see configurations. */
export type ConfigView = (config: JsonObject) => JsonObject;

export const asItIs: ConfigView = (config) => config;

/** Owners, and machines their own, see configurations as they are; operators see them with stars for secrets. */
export async function viewOf(
  { access }: CloudContext,
  { entity }: CallContext,
  on: Ref,
  need: "owner" | "insider" = "insider",
): Promise<ConfigView> {
  return await access.may(entity, need, on) ? asItIs : starred;
}

/** Who has made a change, as messages tell it; nobody knows of those that an older version has kept. */
export function editorOf(who: string): { type: AuthenticationType; value: string } {
  const known = who !== "" && !isPerson(who);
  return { type: known ? AuthenticationType.API_KEY : AuthenticationType.UNSPECIFIED, value: who };
}
