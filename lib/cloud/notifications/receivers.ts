/** Who gets a notification: its address or URL itself, or the addresses of the machine's owners. */

import { Accounts } from "../accounts/accounts.ts";
import type { Sql } from "../store/store.ts";
import { ALL_OWNERS, type TriggerNotification } from "../triggers/settings.ts";

/** Owners of a machine that get a mail of one event. */
const OWNERS_MAX = 100;

/** The receivers of a notification about a part, at present; none if no account is an owner of its machine. */
export async function findReceivers(
  sql: Sql,
  { type, value }: Pick<TriggerNotification, "type" | "value">,
  partId: string,
): Promise<readonly string[]> {
  if (type !== "email" || value !== ALL_OWNERS) return [value];
  return await new Accounts(sql).readOwners(partId, OWNERS_MAX);
}
