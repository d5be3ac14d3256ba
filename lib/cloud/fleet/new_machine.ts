/**
 * A new machine for a person: its own key, and the content of its file.
 */

import type { JsonObject } from "../../base/schema/schema.ts";
import { type Grant, Keys, type NewKey, type newKeySecret } from "../access/keys.ts";
import type { Sql } from "../store/store.ts";
import { Fleet } from "./fleet.ts";

/** Creates a machine with a key that allows it what a machine does and nothing else. */
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

/** The content of the machine's file. */
export function cloudSection(partId: string, { id, key }: NewKey, address: string): JsonObject {
  return { cloud: { id: partId, app_address: address, api_key: { id, key } } };
}
