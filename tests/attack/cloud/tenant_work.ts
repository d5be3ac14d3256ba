/**
 * What a control plane does for a tenant by itself: triggers and their notifications, runs of pipelines, retention,
 * exports; and the tenant's people. A tenant has a row in each of their tables, so that the matrix sees what calls of others do to it.
 */

import { serialize } from "bson";
import { AppService } from "../../../proto/gen/app_pb.ts";
import { DatasetService } from "../../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../../proto/gen/datasync_pb.ts";
import { Keys, type KeySecret } from "../../../lib/cloud/access/keys.ts";
import { Administrators } from "../../../lib/cloud/access/administrators.ts";
import { Accounts } from "../../../lib/cloud/accounts/accounts.ts";
import { Invitations } from "../../../lib/cloud/accounts/invitations.ts";
import { PasskeyChallenges } from "../../../lib/cloud/accounts/passkeys/challenges.ts";
import { Passkeys } from "../../../lib/cloud/accounts/passkeys/passkeys.ts";
import { ProviderLinks } from "../../../lib/cloud/accounts/provider_links.ts";
import { ProviderVisits } from "../../../lib/cloud/accounts/provider_visits.ts";
import { PersonSessions } from "../../../lib/cloud/accounts/sessions.ts";
import { EXPORT_STATUS, SequenceExports } from "../../../lib/cloud/exports/sequence_exports.ts";
import { DataPipelines, RUN_STATUS } from "../../../lib/cloud/pipelines/pipelines.ts";
import { Parts } from "../../../lib/cloud/tenants/parts.ts";
import { keepHealth } from "../../../lib/cloud/fleet/part_health.ts";
import { checkedPlan } from "../../../lib/cloud/rollouts/plan.ts";
import { NO_PLAN } from "../../../lib/cloud/services/fleet/rollout_service.ts";
import { newRolloutId, Rollouts } from "../../../lib/cloud/rollouts/rollouts.ts";
import { SavedQueries } from "../../../lib/cloud/pipelines/saved_queries.ts";
import { noteRemoved, setRetention } from "../../../lib/cloud/capture/retention_policies.ts";
import type { Sql, Store } from "../../../lib/cloud/store/store.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { silentLogs } from "../../../lib/base/log/log.ts";
import { type DataOrigin, ORIGIN_COLUMNS } from "../../../lib/cloud/capture/origins.ts";
import { storeReadings } from "../../../lib/cloud/data/store_readings.ts";
import { ReadingMoves } from "../../../lib/cloud/readings/mover.ts";
import { ReadingPacker } from "../../../lib/cloud/readings/packer.ts";
import type { FileStore } from "../../../lib/cloud/store/files.ts";
import { Deliveries } from "../../../lib/cloud/notifications/deliveries.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { until } from "../../support/until.ts";

const DEADLINE_MS = 120_000;
const DAY_MS = 24 * 3600 * 1000;
/** Readings in a tenant's file. */
const MOVED = 20;

/** Adds a part to the machine that is never online, with triggers, retention and an image that fires the triggers. */
export async function watchedPart(channel: Channel, robotId: string, secret: string): Promise<string> {
  const app = client(AppService, channel);
  const { partId } = await app.newRobotPart({ robotId, partName: `watched of ${secret}` });
  // No public address: the notification fails at once, and stays as undelivered.
  const webhook = { type: "webhook", value: `http://10.0.0.1/${secret}` };
  const notifications = [{ ...webhook, seconds_between_notifications: 3600 }];
  const capture = { method: "GetImages", retention_policy: { days: 30 } };
  await app.updateRobotPart({
    id: partId,
    name: `watched of ${secret}`,
    robotConfig: {
      components: [{
        name: "eye",
        api: "rdk:component:camera",
        model: "fake",
        service_configs: [{ type: "data_manager", attributes: { capture_methods: [capture] } }],
      }],
      triggers: [
        {
          name: `image of ${secret}`,
          event: { type: "part_data_ingested", data_ingested: { data_types: ["binary"] } },
          notifications,
        },
        {
          name: `error of ${secret}`,
          event: { type: "conditional_logs_ingested", log_levels: ["error"] },
          notifications,
        },
      ],
    },
  });
  const type = DataType.BINARY_SENSOR;
  const about = {
    partId,
    componentName: "eye",
    componentType: "rdk:component:camera",
    methodName: "GetImages",
  };
  await client(DataSyncService, channel).dataCaptureUpload({
    metadata: { ...about, type, fileExtension: ".png" },
    sensorContents: [{ data: { case: "binary", value: new TextEncoder().encode(`watched of ${secret}`) } }],
  });
  return partId;
}

export async function startedExport(channel: Channel, datasetId: string): Promise<string> {
  return (await client(DatasetService, channel).startSequenceDatasetExport({ datasetId })).jobId;
}

/** A saved query, and a pipeline with a run that has ended and its result; the organization's retention. */
export async function addQueries(sql: Sql, organization: string, secret: string) {
  const nowMs = Date.now();
  const mql = [serialize({ $limit: 1 })];
  const pipeline = await new DataPipelines(sql).create({
    organizationId: organization,
    name: `pipeline of ${secret}`,
    mql,
    schedule: "0 0 1 1 *",
    hasBackfill: false,
    sourceType: 1,
  }, nowMs);
  await sql.query(
    `INSERT INTO pipeline_runs (id, pipeline_id, from_ms, until_ms, status, due_ms, started_ms, ended_ms, error, attempts,
       runner, lease_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, '', 0)`,
    crypto.randomUUID(),
    pipeline,
    nowMs - 60_000,
    nowMs,
    RUN_STATUS.completed,
    nowMs,
    nowMs,
    nowMs,
    `run of ${secret}`,
  );
  await sql.query(
    "INSERT INTO pipeline_documents (pipeline_id, from_ms, place, document) VALUES (?, ?, 0, ?)",
    pipeline,
    nowMs - 60_000,
    new TextEncoder().encode(`document of ${secret}`),
  );
  await setRetention(sql, organization, { days: 365 });
  await noteRemoved(sql, organization, 1);
  const saved_query = await new SavedQueries(sql).create(organization, `query of ${secret}`, mql, nowMs);
  return { pipeline, saved_query };
}

const MOVED_AGO_MS = 4 * 3_600_000;

/** Readings of a part that are in a file. */
export async function moveReadings(
  store: Store,
  files: FileStore,
  partId: string,
  secret: string,
  tags: readonly string[],
): Promise<void> {
  const [origin] = await store.query<DataOrigin>(
    `SELECT ${ORIGIN_COLUMNS} FROM data_origins o WHERE o.part_id = ? AND o.component_type = ? LIMIT 1`,
    partId,
    "rdk:component:sensor",
  );
  // Their hour is over, and no retention ends them before the attacks do.
  const beganUs = (Date.now() - MOVED_AGO_MS) * 1000;
  const readings = Array.from({ length: MOVED }, (_, minute) => ({
    capturedUs: beganUs + minute * 60_000_000,
    receivedUs: beganUs + minute * 60_000_000,
    payload: { readings: { note: `moved reading of ${secret}` } },
  }));
  await storeReadings({ store, files }, origin, readings, tags, 0);
  const clock = new SystemClock();
  const parts = {
    store,
    files,
    clock,
    logger: silentLogs(clock).logger("mover"),
    packer: new ReadingPacker(clock, undefined),
  };
  const limits = { readingsMin: MOVED, readingsMax: MOVED, bytesMax: 1024 ** 2 };
  await store.transaction((sql) => {
    return sql.query("UPDATE reading_moves SET next_ms = 0 WHERE organization_id = ?", origin.organizationId);
  });
  await new ReadingMoves(parts, limits).run(new AbortController().signal);
}

/** A rollout of a program that a person has paused, to all parts of the organization, and what this part reports. */
export async function addRollout(
  sql: Sql,
  organizationId: string,
  partId: string,
  secret: string,
): Promise<string> {
  const nowMs = Date.now();
  const parts = await new Parts(sql).ofOrganization(organizationId);
  const plan = checkedPlan({ ...NO_PLAN, steps: ["50%"] });
  const change = { kind: "svc-server", id: "", version: `1.0.0-${secret}` } as const;
  const id = newRolloutId();
  const made = { id, organizationId, name: `rollout of ${secret}`, change, plan, who: "" };
  await new Rollouts(sql).add(made, parts.map((part) => ({ id: part.id, step: 0 })), nowMs);
  await new Rollouts(sql).turn(id, ["running"], "paused", `reason of ${secret}`, nowMs);
  await keepHealth(sql, partId, {
    revision: "1",
    unhealthy: [`arm: broken arm of ${secret}`],
    heldBack: false,
  }, nowMs);
  return id;
}

/** A time that no attack lasts until. */
const FAR_MS = Date.parse("2100-01-01T00:00:00Z");

/** A person with a role, who is signed in, and one who is invited. Returns the account's id. */
export async function addPeople(
  sql: Sql,
  organization: string,
  secret: string,
  key: KeySecret,
): Promise<string> {
  const nowMs = Date.now();
  const grant = { role: "operator", kind: "organization", resourceId: organization } as const;
  const person = { email: `ann@${secret}.example`, name: `Ann of ${secret}`, secret: key };
  const account = await new Accounts(sql).create(person, nowMs);
  await new Keys(sql).grant(account, grant);
  await new Administrators(sql).add(account, secret, nowMs);
  const browser = { address: "127.0.0.1", agent: `browser of ${secret}` };
  await new PersonSessions(sql).begin(account, browser, nowMs, nowMs + DAY_MS);
  const issuer = "https://provider.example";
  await new ProviderLinks(sql).link(account, { issuer, subject: secret }, nowMs);
  const visit = { issuer, sessionId: null, invitationId: null, name: "", returnTo: secret, stays: false };
  // It would last ten minutes, and a further one from the same address might end it: nothing but an attack may.
  await new ProviderVisits(sql).begin({ ...visit, address: secret }, FAR_MS);
  const passkey = { id: secret, name: `passkey of ${secret}`, rpId: "cloud.example", publicKey: secret };
  await new Passkeys(sql).add({ ...passkey, accountId: account, counter: 1 }, nowMs);
  const challenge = {
    origin: "https://cloud.example",
    sessionId: null,
    name: "",
    email: secret,
    stays: false,
  };
  await new PasskeyChallenges(sql).begin({ ...challenge, address: secret }, FAR_MS);
  await new Invitations(sql).invite(organization, `bob@${secret}.example`, [grant], nowMs);
  return account;
}

/** Waits until the control plane has done all of a tenant's work, so that the tenant's rows stay as they are. */
export async function workEnded(store: Store, ids: {
  readonly organization: string;
  readonly sequence_export: string;
  readonly training_job: string;
  readonly mapping_session: string;
}): Promise<void> {
  const isEnded = async (table: string, id: string) => {
    const text = `SELECT ended_ms AS "endedMs" FROM ${table} WHERE id = ?`;
    const [row] = await store.query<{ endedMs: number | null }>(text, id);
    return row?.endedMs !== null;
  };
  await until(async () => {
    const sent = await new Deliveries(store).list({ organizationId: ids.organization, limit: 10 });
    if (sent.length === 0 || sent.some(({ state }) => state !== "dead")) return false;
    if ((await new SequenceExports(store).get(ids.sequence_export)).status === EXPORT_STATUS.running) {
      return false;
    }
    return await isEnded("training_jobs", ids.training_job) &&
      await isEnded("mapping_sessions", ids.mapping_session);
  }, { withinMs: DEADLINE_MS });
}
