/**
 * A machine as it is made for a person: with a key of its own, and what to put into its file.
 */

import type { JsonObject } from "../../base/schema/schema.ts";
import { type Grant, Keys, type NewKey, type newKeySecret } from "../access/keys.ts";
import type { Sql } from "../store/store.ts";
import { Fleet } from "./fleet.ts";

/** A machine with a key of its own, that lets it do what a machine does and no more. */
export async function createMachine(
  sql: Sql,
  secret: Awaited<ReturnType<typeof newKeySecret>>,
  locationId: string,
  name: string,
  nowMs: number,
): Promise<{ id: string; partId: string; key: NewKey }> {
  const machine = await new Fleet(sql).createMachine(locationId, name, nowMs);
  const grant: Grant = { role: "operator", kind: "machine", resourceId: machine.id };
  return { ...machine, key: await new Keys(sql).create(secret, `machine ${name}`, [grant], nowMs) };
}

/** What to put into the file of a machine. */
export function cloudSection(partId: string, { id, key }: NewKey, address: string): JsonObject {
  return { cloud: { id: partId, app_address: address, api_key: { id, key } } };
}
