/**
 * Configurations in messages: reading them, hiding their secrets from callers, and the author of each change.
 */

import { AuthenticationType } from "../../../proto/gen/app_pb.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { starred } from "../../base/schema/json_secrets.ts";
import { isObject, type JsonObject } from "../../base/schema/schema.ts";
import type { CallContext } from "../../wire/service.ts";
import type { Ref } from "../access/access.ts";
import { type CloudContext, isPerson } from "../context.ts";

/** A configuration's text if it exists, with its numbers and order as written. */
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

/** A caller's view of configurations. */
export type ConfigView = (config: JsonObject) => JsonObject;

export const asItIs: ConfigView = (config) => config;

/** Owners, and machines for their own, see configurations unchanged; operators see stars for secrets. */
export async function viewOf(
  { access }: CloudContext,
  { entity }: CallContext,
  on: Ref,
  need: "owner" | "insider" = "insider",
): Promise<ConfigView> {
  return await access.may(entity, need, on) ? asItIs : starred;
}

/** The author of a change for messages; unknown for changes of an older version. */
export function editorOf(who: string): { type: AuthenticationType; value: string } {
  const known = who !== "" && !isPerson(who);
  return { type: known ? AuthenticationType.API_KEY : AuthenticationType.UNSPECIFIED, value: who };
}
