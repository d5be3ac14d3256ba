/**
 * Mapping sessions in the database: started, worked on by one control plane at a time, stopped, ended.
 *
 * Owns the table `mapping_sessions`. A session is worked on from the beginning of its data, so another control plane
 * can take it over at any time. Everything here runs in the callers' transactions.
 *
 * The room owns mapping sessions: their data in the order of capture, and the maps made of it.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Pose2d } from "../../slam/pose2d.ts";
import { MIME } from "../../geometry/image/image.ts";
import type { LinkedContent } from "../data/links.ts";
import { JOB_LEASE_MS } from "../../base/async/job_runner.ts";
import { isDue } from "../store/due.ts";
import { placeholders, type Sql } from "../store/store.ts";

export interface NewSession {
  readonly organizationId: string;
  readonly locationId: string;
  readonly machineId: string;
  readonly mapName: string;
  /** The version of the map to extend; empty for a new map. */
  readonly existingVersion: string;
  /** The version that the session's map will have. */
  readonly version: string;
  readonly camera: string;
  /** Empty if there is none. */
  readonly movementSensor: string;
  readonly fromUs: number;
  /** The end of the data; absent until the session is stopped. */
  readonly untilUs?: number;
  /** The algorithm's parameters as submitted. */
  readonly config: JsonObject;
  /** The versions that the request names, which this control plane only remembers. */
  readonly slamVersion: string;
  readonly serverVersion: string;
}

export type SessionEnd = "success" | "timeout" | "fail";

export interface MappingSession extends NewSession {
  readonly id: string;
  readonly createdMs: number;
  readonly startedMs?: number;
  readonly stoppedMs?: number;
  readonly endedMs?: number;
  readonly end?: SessionEnd;
  /** The reason of a failure, or the defects of the map. */
  readonly error: string;
  /** When a picture of the map was last requested. */
  readonly askedMs: number;
  /** The last picture, its time, and the robot's pose. */
  readonly sha256?: string;
  readonly bytes: number;
  readonly pictureMs: number;
  readonly pose?: Pose2d;
}

type Nullable = "untilUs" | "startedMs" | "stoppedMs" | "endedMs" | "end" | "sha256";
type Row =
  & Omit<MappingSession, Nullable | "config" | "pose">
  & { readonly [K in Nullable]: MappingSession[K] | null }
  & { readonly config: string; readonly pose: string | null };

const SESSIONS = `SELECT id, organization_id AS "organizationId", location_id AS "locationId",
    machine_id AS "machineId", map_name AS "mapName", existing_version AS "existingVersion", version, camera,
    movement_sensor AS "movementSensor", from_us AS "fromUs", until_us AS "untilUs", config,
    slam_version AS "slamVersion", server_version AS "serverVersion", created_ms AS "createdMs",
    started_ms AS "startedMs", stopped_ms AS "stoppedMs", ended_ms AS "endedMs", outcome AS "end", error,
    asked_ms AS "askedMs", sha256, bytes, picture_ms AS "pictureMs", pose
  FROM mapping_sessions`;
const ACTIVE = "ended_ms IS NULL";
/** Limit of sessions in one list. */
const LISTED_MAX = 1_000;

export class MappingSessions {
  constructor(private readonly sql: Sql) {}

  /** Throws `already_exists` if the machine has a session of this organization already. */
  async add(session: NewSession, nowMs: number): Promise<string> {
    const active = await this.active(session);
    if (active) {
      throw new SvcError(
        "already_exists",
        `the machine is mapped already, in session ${active.id}: stop it first`,
      );
    }
    const id = randomUUID();
    await this.sql.query(
      `INSERT INTO mapping_sessions (id, organization_id, location_id, machine_id, map_name, existing_version,
         version, camera, movement_sensor, from_us, until_us, config, slam_version, server_version, created_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      session.organizationId,
      session.locationId,
      session.machineId,
      session.mapName,
      session.existingVersion,
      session.version,
      session.camera,
      session.movementSensor,
      session.fromUs,
      session.untilUs ?? null,
      JSON.stringify(session.config),
      session.slamVersion,
      session.serverVersion,
      nowMs,
    );
    return id;
  }

  async get(id: string): Promise<MappingSession> {
    const [row] = await this.sql.query<Row>(`${SESSIONS} WHERE id = ?`, id);
    if (row) return sessionOf(row);
    throw new SvcError("not_found", `there is no mapping session "${id}"`);
  }

  /** The picture of a session's map; `undefined` if there is no such session, or no picture. */
  async findPicture(id: string): Promise<LinkedContent | undefined> {
    const [row] = await this.sql.query<{ sha256: string; bytes: number; name: string }>(
      `SELECT sha256, bytes, map_name AS name FROM mapping_sessions WHERE id = ? AND sha256 IS NOT NULL`,
      id,
    );
    if (!row) return undefined;
    return { ...row, id, fileName: `${row.name}.pcd`, fileExt: ".pcd", mimeType: MIME.pcd };
  }

  /** The unfinished session of a machine. Sessions of its former organization do not belong to the present one. */
  async active(
    { machineId, organizationId }: Pick<MappingSession, "machineId" | "organizationId">,
  ): Promise<MappingSession | undefined> {
    const [row] = await this.sql.query<Row>(
      `${SESSIONS} WHERE machine_id = ? AND organization_id = ? AND ${ACTIVE}`,
      machineId,
      organizationId,
    );
    return row && sessionOf(row);
  }

  /** The newest sessions of an organization, or of one of its locations. */
  async list(organizationId: string, locationId = ""): Promise<MappingSession[]> {
    const [only, values] = locationId === "" ? ["", []] : [" AND location_id = ?", [locationId]];
    const rows = await this.sql.query<Row>(
      `${SESSIONS} WHERE organization_id = ?${only} ORDER BY created_ms DESC, id LIMIT ?`,
      organizationId,
      ...values,
      LISTED_MAX,
    );
    return rows.map(sessionOf);
  }

  /** Ends the data of a session now. Throws `failed_precondition` if it has ended. */
  async stop(id: string, nowMs: number): Promise<MappingSession> {
    const session = await this.get(id);
    if (session.endedMs !== undefined) {
      throw new SvcError(
        "failed_precondition",
        `mapping session ${id} has ended already: ${session.error || "its map is in the registry"}`,
      );
    }
    await this.sql.query(
      `UPDATE mapping_sessions SET stopped_ms = COALESCE(stopped_ms, ?), until_us = COALESCE(until_us, ?) WHERE id = ?`,
      nowMs,
      nowMs * 1000,
      id,
    );
    return session;
  }

  /** Requests a picture of a map in the making. */
  async ask(id: string, nowMs: number): Promise<void> {
    await this.sql.query(`UPDATE mapping_sessions SET asked_ms = ? WHERE id = ? AND ${ACTIVE}`, nowMs, id);
  }

  /**
   * A session without a runner, other than `mine`: the oldest session of the organization with the fewest running
   * sessions, so that no organization delays the others.
   */
  async waiting(mine: readonly string[], nowMs: number): Promise<MappingSession | undefined> {
    const lapsed = isDue("lease_ms", nowMs - 1, JOB_LEASE_MS);
    const [row] = await this.sql.query<Row>(
      `${SESSIONS} WHERE ${ACTIVE} AND (runner IS NULL OR ${lapsed.text})
       ${mine.length > 0 ? `AND id NOT IN (${placeholders(mine)})` : ""}
       ORDER BY (SELECT COUNT(*) FROM mapping_sessions AS o WHERE o.organization_id = mapping_sessions.organization_id
         AND o.ended_ms IS NULL AND o.runner IS NOT NULL AND o.lease_ms >= ?), created_ms, id LIMIT 1`,
      ...lapsed.values,
      ...mine,
      nowMs,
    );
    return row && sessionOf(row);
  }

  /** Takes a session; false if it has ended, or another runner has taken it. */
  async take(runner: string, id: string, leaseMs: number, nowMs: number): Promise<boolean> {
    const lapsed = isDue("lease_ms", nowMs - 1, JOB_LEASE_MS);
    const rows = await this.sql.query(
      `UPDATE mapping_sessions SET runner = ?, lease_ms = ?, started_ms = COALESCE(started_ms, ?)
       WHERE id = ? AND ${ACTIVE} AND (runner IS NULL OR ${lapsed.text}) RETURNING id`,
      runner,
      leaseMs,
      nowMs,
      id,
      ...lapsed.values,
    );
    return rows.length > 0;
  }

  /** Renews the lease of the sessions of `runner`, and returns them. */
  async renew(runner: string, leaseMs: number): Promise<MappingSession[]> {
    await this.sql.query(
      `UPDATE mapping_sessions SET lease_ms = ? WHERE runner = ? AND ${ACTIVE}`,
      leaseMs,
      runner,
    );
    const rows = await this.sql.query<Row>(`${SESSIONS} WHERE runner = ? AND ${ACTIVE}`, runner);
    return rows.map(sessionOf);
  }

  /** Lets another control plane continue with all of a runner's sessions, or with one. */
  async leave(runner: string, id?: string): Promise<void> {
    const [only, values] = id === undefined ? ["", []] : [" AND id = ?", [id]];
    await this.sql.query(
      `UPDATE mapping_sessions SET runner = NULL WHERE runner = ?${only} AND ${ACTIVE}`,
      runner,
      ...values,
    );
  }

  /** Stores a picture of the map; returns the content of the previous one, for the caller to release. */
  async picture(
    id: string,
    picture: {
      readonly sha256: string;
      readonly bytes: number;
      readonly atMs: number;
      readonly pose?: Pose2d;
    },
  ): Promise<string | undefined> {
    const { sha256 } = await this.get(id);
    await this.sql.query(
      "UPDATE mapping_sessions SET sha256 = ?, bytes = ?, picture_ms = ?, pose = ? WHERE id = ?",
      picture.sha256,
      picture.bytes,
      picture.atMs,
      picture.pose ? JSON.stringify(picture.pose) : null,
      id,
    );
    return sha256 === picture.sha256 ? undefined : sha256;
  }

  /** Ends the session of `runner`; false if it has lost it. */
  async end(runner: string, id: string, end: SessionEnd, error: string, nowMs: number): Promise<boolean> {
    const rows = await this.sql.query(
      `UPDATE mapping_sessions SET outcome = ?, error = ?, ended_ms = ?, runner = NULL
       WHERE id = ? AND runner = ? AND ${ACTIVE} RETURNING id`,
      end,
      error,
      nowMs,
      id,
      runner,
    );
    return rows.length > 0;
  }

  /** Removes sessions that ended before `beforeMs`; returns their pictures, for the caller to release. */
  async forget(beforeMs: number): Promise<string[]> {
    const rows = await this.sql.query<{ sha256: string | null }>(
      "DELETE FROM mapping_sessions WHERE ended_ms < ? RETURNING sha256",
      beforeMs,
    );
    return rows.flatMap(({ sha256 }) => sha256 ?? []);
  }
}

function sessionOf({ config, pose, ...row }: Row): MappingSession {
  const { untilUs, startedMs, stoppedMs, endedMs, end, sha256 } = row;
  return {
    ...row,
    untilUs: untilUs ?? undefined,
    startedMs: startedMs ?? undefined,
    stoppedMs: stoppedMs ?? undefined,
    endedMs: endedMs ?? undefined,
    end: end ?? undefined,
    sha256: sha256 ?? undefined,
    config: JSON.parse(config),
    pose: pose === null ? undefined : JSON.parse(pose),
  };
}
