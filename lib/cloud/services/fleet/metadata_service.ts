/**
 * AppService, metadata: notes of people about organizations, locations, machines and parts, as JSON of their own.
 *
 * It is deleted with its subject. Everybody who may view the subject may read it, so it is no place for secrets.
 */

import type { AppService } from "../../../../proto/gen/app_pb.ts";
import { SvcError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { requireWithin } from "../../access/limits.ts";
import type { Sql } from "../../store/store.ts";

const TABLES = { organization: "organizations", location: "locations", machine: "machines", part: "parts" };
type Noted = keyof typeof TABLES;

export function metadataHandlers({ store, audit, limits }: CloudContext) {
  const read = async (kind: Noted, id: string) => ({ data: await readMetadata(store, kind, id) });
  const write = async (kind: Noted, id: string, data: JsonObject = {}, ctx: CallContext) => {
    const text = JSON.stringify(data);
    requireWithin(limits, "metadataLetters", text.length);
    await audit.change(actorOf(ctx), { kind, id }, async (sql) => {
      await readMetadata(sql, kind, id);
      await sql.query(`UPDATE ${TABLES[kind]} SET metadata = ? WHERE id = ?`, text, id);
    });
    return {};
  };
  return {
    getOrganizationMetadata: ({ organizationId }) => read("organization", organizationId),
    updateOrganizationMetadata: ({ organizationId, data }, ctx) =>
      write("organization", organizationId, data, ctx),
    getLocationMetadata: ({ locationId }) => read("location", locationId),
    updateLocationMetadata: ({ locationId, data }, ctx) => write("location", locationId, data, ctx),
    getRobotMetadata: ({ id }) => read("machine", id),
    updateRobotMetadata: ({ id, data }, ctx) => write("machine", id, data, ctx),
    getRobotPartMetadata: ({ id }) => read("part", id),
    updateRobotPartMetadata: ({ id, data }, ctx) => write("part", id, data, ctx),
  } satisfies ServiceImpl<typeof AppService>;
}

async function readMetadata(sql: Sql, kind: Noted, id: string): Promise<JsonObject> {
  const text = `SELECT metadata FROM ${TABLES[kind]} WHERE id = ?`;
  const [row] = await sql.query<{ metadata: string }>(text, id);
  if (row) return JSON.parse(row.metadata);
  throw new SvcError("not_found", `there is no ${kind} "${id}"`);
}
