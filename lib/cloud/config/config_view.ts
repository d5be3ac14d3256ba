/**
 * Configurations in messages: reads them, hides their secrets from callers, and names the author of each
 * change.
 */

import { AuthenticationType } from "../../../proto/gen/app_pb.ts";
import { SvcError } from "../../base/error.ts";
import { starred } from "../../base/schema/json_secrets.ts";
import type { JsonObject, Problem } from "../../base/schema/schema.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import type { Ref } from "../access/access.ts";
import { type CloudContext, isPerson } from "../access/context.ts";
import { placeholders } from "../store/store.ts";

const PROBLEMS_SHOWN = 50;

/** The text of a configuration: as given, with its numbers and order preserved, or made from the message. */
export function textOf(text: string | undefined, message: JsonObject | undefined): string | undefined {
  return text || (message && JSON.stringify(message));
}

/** A caller's view of configurations. */
export type ConfigView = (config: JsonObject) => JsonObject;

export const asItIs: ConfigView = (config) => config;

/** Owners, and machines for their own, see configurations unchanged; operators see stars for secrets. */
export async function chooseConfigView(
  { access }: CloudContext,
  { entity }: CallContext,
  on: Ref,
  need: "owner" | "machine_or_owner" = "machine_or_owner",
): Promise<ConfigView> {
  return await access.may(entity, need, on) ? asItIs : starred;
}

/** Whether a caller owns all of these fragments, and so sees their secrets. */
export async function ownsFragments(
  { store, access }: CloudContext,
  entity: string | undefined,
  ids: readonly string[],
): Promise<boolean> {
  if (ids.length === 0) return true;
  const owners = await store.query<{ id: string }>(
    `SELECT DISTINCT organization_id AS id FROM fragments WHERE id IN (${placeholders(ids)})`,
    ...ids,
  );
  for (const { id } of owners) {
    if (!await access.may(entity, "owner", { kind: "organization", id })) return false;
  }
  return true;
}

/** Throws `invalid_argument` with the errors among the problems. */
export function requireNoErrors(problems: readonly Problem[]): void {
  const errors = problems.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return;
  const lines = errors.slice(0, PROBLEMS_SHOWN).map(({ path, message }) =>
    path ? `${path}: ${message}` : message
  );
  const more = errors.length > lines.length ? [`and ${errors.length - lines.length} more problems`] : [];
  const listed = [...lines, ...more].join("; ");
  throw new SvcError("invalid_argument", `the configuration is not saved: ${listed}`);
}

/** The author of a change for messages; unknown for changes of an older version. */
export function editorOf(who: string): { type: AuthenticationType; value: string } {
  const known = who !== "" && !isPerson(who);
  return { type: known ? AuthenticationType.API_KEY : AuthenticationType.UNSPECIFIED, value: who };
}
