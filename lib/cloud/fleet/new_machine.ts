/**
 * Changes of a machine's owner: creates a machine with a key of its own and the content of its file, and moves a
 * machine to another organization.
 */

import type { JsonObject } from "../../base/schema/schema.ts";
import { type Grant, Keys, type NewKey, type newKeySecret } from "../access/keys.ts";
import type { Sql } from "../store/store.ts";
import { Locations } from "../tenants/locations.ts";
import { MachineTags } from "../tenants/machine_tags.ts";
import { Machines } from "../tenants/machines.ts";
import { Parts } from "../tenants/parts.ts";

/** Creates a machine with a key that allows only the calls of a machine. */
export async function createMachine(
  sql: Sql,
  secret: Awaited<ReturnType<typeof newKeySecret>>,
  locationId: string,
  name: string,
  nowMs: number,
): Promise<{ id: string; partId: string; key: NewKey }> {
  const machine = await new Machines(sql).create(locationId, name, nowMs);
  const grant: Grant = { role: "operator", kind: "machine", resourceId: machine.id };
  return { ...machine, key: await new Keys(sql).create(secret, `machine ${name}`, [grant], nowMs) };
}

/**
 * Renames and moves a machine. In another organization it starts afresh: its keys, secrets, certificates, roles and
 * tags end, and its logs and captured data stay with the former organization, which also gets the map of a running
 * session. Its names, configuration and metadata move with it.
 */
export async function moveMachine(
  sql: Sql,
  id: string,
  to: { readonly name: string; readonly locationId: string },
  nowMs: number,
): Promise<void> {
  const before = await new Locations(sql).get((await new Machines(sql).get(id)).locationId);
  const after = await new Locations(sql).get(to.locationId);
  await new Machines(sql).update(id, to.name, to.locationId, nowMs);
  if (before.organizationId === after.organizationId) return;
  await new Keys(sql).endOn(id);
  await new MachineTags(sql).removeAll(id);
  const parts = "(SELECT id FROM parts WHERE machine_id = ?)";
  await sql.query(`DELETE FROM shared_secrets WHERE part_id IN ${parts}`, id);
  await sql.query(`DELETE FROM certificates WHERE part_id IN ${parts}`, id);
  await sql.query(`DELETE FROM agents WHERE part_id IN ${parts}`, id);
  // The session gets no more data.
  await sql.query(
    `UPDATE mapping_sessions SET stopped_ms = COALESCE(stopped_ms, ?), until_us = COALESCE(until_us, ?)
     WHERE machine_id = ? AND ended_ms IS NULL`,
    nowMs,
    nowMs * 1000,
    id,
  );
  // A rollout of the former organization would keep the new one from its own, perhaps for ever.
  await sql.query(
    `UPDATE rollout_parts SET is_open = 0, reason = 'it was moved to another organization',
       state = CASE WHEN state = 'waiting' THEN 'skipped' ELSE 'kept' END
     WHERE is_open = 1 AND part_id IN ${parts}`,
    id,
  );
  await new Parts(sql).startAfresh(id, nowMs);
}

/** The content of the machine's file. */
export function cloudSection(partId: string, { id, key }: NewKey, address: string): JsonObject {
  return { cloud: { id: partId, app_address: address, api_key: { id, key } } };
}
