/**
 * A control plane on a port of its own, with something in it, for tests.
 */

import { AppService } from "../../proto/gen/app_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { type Clock, SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { contentOptions } from "../../cli/cloud/serve/content.ts";
import type { ContentOptions } from "../../lib/cloud/sandbox/content/process.ts";
import { NO_SANDBOX } from "../../lib/cloud/sandbox/sandbox.ts";
import type { Addresses } from "../../lib/cloud/addresses/addresses.ts";
import type { IdentityProvider } from "../../lib/cloud/accounts/provider.ts";
import { type Cloud, openCloud } from "../../lib/cloud/cloud.ts";
import { type CreateConfigThread, ownThread } from "../../lib/cloud/config/config_threads.ts";
import type { OrganizationMakers } from "../../lib/cloud/access/context.ts";
import type { Validate } from "../../lib/cloud/config/config_jobs.ts";
import type { Executors } from "../../lib/cloud/executors/executor.ts";
import { DiskSpace } from "../../lib/cloud/store/disk_space.ts";
import type { FileStore } from "../../lib/cloud/store/files.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { type GrantKind, Keys, type NewKey, newKeySecret, type Role } from "../../lib/cloud/access/keys.ts";
import { defaultLimits, type Limits } from "../../lib/cloud/access/limits.ts";
import { Secrets } from "../../lib/cloud/store/secrets/secrets.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import type { SenderOptions } from "../../lib/cloud/notifications/sender.ts";
import { type Channel, client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import type { PageSource } from "../../lib/wire/page/page.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import type { TestDatabase } from "./stores.ts";
import { copyKey } from "./templates.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";

const DEADLINE_MS = 2_000;
export const METRICS_KEY = "key of those who watch";

export interface ServedCloud {
  readonly store: Store;
  readonly cloud: Cloud;
  readonly secrets: Secrets;
  readonly files: FileStore;
  readonly url: string;
  /** A connection without credentials, or with those of a key. */
  channel(key?: NewKey): Promise<Channel>;
  app(key?: NewKey): Promise<ServiceClient<typeof AppService>>;
  robot(key?: NewKey): Promise<ServiceClient<typeof RobotService>>;
  token(key: NewKey): Promise<string>;
}

/** An organization with one of everything, and keys to it. */
export interface World {
  readonly organization: string;
  readonly location: string;
  readonly machine: string;
  readonly part: string;
  readonly owner: NewKey;
  readonly operator: NewKey;
}

/** How the worlds' control planes open uploads: without a sandbox. */
export const CONTENT: ContentOptions = contentOptions({
  host: new DenoHost(),
  clock: new SystemClock(),
  memoryBytes: 2 * 1024 ** 3,
  sandbox: NO_SANDBOX,
});

export interface WorldOptions {
  /** For one answer of a model. */
  readonly inferenceMs?: number;
  readonly clock?: Clock;
  readonly validate?: Validate;
  /** By default checks run with `validate` on the test's own thread. */
  readonly createConfigThread?: CreateConfigThread;
  readonly training?: Executors;
  readonly organizations?: OrganizationMakers;
  readonly localhostCertificates?: boolean;
  readonly limits?: Limits;
  /** Keeps a reserve of the disk free, as `serve` does. */
  readonly keepsReserve?: boolean;
  /** The page for people. */
  readonly page?: PageSource;
  /** Its public addresses. */
  readonly addresses?: Addresses;
  /** Where people sign in elsewhere. */
  readonly provider?: IdentityProvider;
  /** Sends the notifications of triggers. */
  readonly triggers?: SenderOptions;
  /** Where an earlier one was. */
  readonly port?: number;
}

/** Serves the database for as long as `run` takes. */
export async function withCloud(
  database: TestDatabase,
  run: (cloud: ServedCloud) => Promise<void>,
  options: WorldOptions = {},
): Promise<void> {
  const { clock = new SystemClock(), validate = () => Promise.resolve([]), training, port: at = 0 } = options;
  const { createConfigThread, organizations, localhostCertificates, limits, inferenceMs = 30_000 } = options;
  const store = await database.open();
  const real = new SystemClock();
  const logger = silentLogs(real).logger("cloud");
  const disk = new SystemFiles();
  const reserveBytes = (limits ?? defaultLimits()).diskReserveBytes;
  const space = options.keepsReserve
    ? new DiskSpace({ disk, folder: database.folder, reserveBytes, clock: real, logger })
    : undefined;
  const files = await FolderFiles.open(disk, `${database.folder}/files`, { olderThanMs: 0, space });
  const folder = `${database.folder}/keys`;
  await copyKey(folder, clock.nowMs());
  const secrets = await Secrets.open({ store, host: new DenoHost(), folder, clock, logger });
  const cloud = openCloud({
    secrets,
    metricsKey: METRICS_KEY,
    localhostCertificates,
    limits,
    store,
    files,
    clock,
    logger,
    createConfigThread: createConfigThread ?? ownThread(validate),
    organizations,
    inference: { content: CONTENT, timeMs: inferenceMs },
    mapping: { content: CONTENT },
    triggers: options.triggers,
    addresses: options.addresses,
    provider: options.provider,
    page: options.page,
    training: training &&
      {
        host: new SystemFiles(),
        folder: `${database.folder}/training`,
        executors: training,
        runningMax: 100,
      },
  });
  const { table, routes } = cloud;
  const port = await openPort({
    table,
    bind: { host: "127.0.0.1", port: at },
    clock: real,
    http: { routes },
  });
  const channels: Channel[] = [];
  const connect = (header?: Metadata) => {
    const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock: real, header });
    channels.push(channel);
    return channel;
  };
  const token = async ({ id, key }: NewKey) => {
    const credentials = { type: "api-key", payload: key };
    const { authenticate } = client(AuthService, connect());
    return (await authenticate({ entity: id, credentials })).accessToken;
  };
  const channel = async (key?: NewKey) =>
    connect(key && Metadata.from([["authorization", `Bearer ${await token(key)}`]]));
  try {
    await run({
      store,
      cloud,
      secrets,
      files,
      url: port.url,
      channel,
      token,
      app: async (key) => client(AppService, await channel(key)),
      robot: async (key) => client(RobotService, await channel(key)),
    });
  } finally {
    for (const one of channels) one.close();
    await port.close(DEADLINE_MS);
    await cloud.close();
  }
}

let worlds = 0;

export async function newWorld(store: Store, nowMs = 1_700_000_000_000): Promise<World> {
  const name = `world ${++worlds}`;
  const tree = await store.transaction(async (sql) => {
    const organization = await new Organizations(sql).create(name, nowMs);
    const location = await new Locations(sql).create(organization, "hall", "", nowMs);
    const { id: machine, partId: part } = await new Machines(sql).create(location, "rover", nowMs);
    return { organization, location, machine, part };
  });
  const on = (role: Role) => newKey(store, role, "organization", tree.organization);
  return { ...tree, owner: await on("owner"), operator: await on("operator") };
}

/** A machine's own key. */
export function ownKey(store: Store, { machine }: Pick<World, "machine">): Promise<NewKey> {
  return newKey(store, "operator", "machine", machine);
}

export async function newKey(store: Store, role: Role, kind: GrantKind, resourceId: string): Promise<NewKey> {
  const secret = await newKeySecret();
  return await store.transaction((sql) =>
    new Keys(sql).create(secret, role, [{ role, kind, resourceId }], 0)
  );
}
