/**
 * The origin of this machine's configuration: the file itself, or the control plane whose address and credentials it
 * contains.
 */

import { type Traffic, trafficOf } from "../../cloud_client/changes/traffic.ts";
import { ChangeFeed } from "../../cloud_client/changes/change_feed.ts";
import { createDeviceMark } from "../../cloud_client/changes/device_mark.ts";
import { CloudClient } from "../../cloud_client/client.ts";
import type { Environment, MachineName, Platform } from "../../base/host.ts";
import type { Files } from "../../base/files/files.ts";
import { type Clock, race } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Registry } from "../../resource/registry.ts";
import { CloudSource } from "./cloud_source.ts";
import type { CloudConfig } from "./config.ts";
import { ConfigCache } from "./cache.ts";
import type { ConfigSource } from "./source.ts";
import { envDurationMs } from "./env_duration.ts";
import { FileSource } from "./file_source.ts";
import { homeFolder } from "./placeholder.ts";
import { type DecodedDraft, decodeDraft } from "./reading.ts";

/** Time limit of the control plane's first answer. */
const TIMEOUT_VARIABLES = ["SVC_CONFIG_READ_TIMEOUT", "VIAM_CONFIG_READ_TIMEOUT"];

export interface OriginParts {
  /** The file. */
  readonly path: string;
  readonly allowInsecureCredentials: boolean;
  /** The program's version: `0.1.0` */
  readonly version: string;
  readonly registry: Registry;
  readonly host: Environment & Platform & MachineName & Files;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends the wait for the file. */
  readonly stopping?: AbortSignal;
}

export interface Origin {
  readonly source: ConfigSource;
  /** The source's first configuration, if finding the source needed it. */
  readonly read?: DecodedDraft;
  /** The control plane, if there is one. The caller of `originOf` closes it. */
  readonly client?: CloudClient;
  /** Announces its changes at once; close it before the control plane. */
  readonly changes?: ChangeFeed;
  readonly traffic: Traffic;
}

/** Reads the file. Throws if it is unreadable, or if credentials would travel in the clear. */
export async function openOrigin(parts: OriginParts): Promise<Origin> {
  const { path, registry, host, clock, logger, stopping } = parts;
  const env = (name: string) => host.env(name);
  const file = new FileSource({ path, host, clock });
  const first = stopping ? race(file.first(), stopping) : file.first();
  const read = await decodeDraft(await first, registry, env);
  const { draft: { json: local }, decoded: { config: { cloud }, fatal } } = read;

  // The reader of the first configuration reports the file's problems.
  const traffic = trafficOf(cloud?.metered ?? false);
  if (fatal || !cloud) return { source: file, read, traffic };
  if (!cloud.appAddress) {
    logger.warn(`${path}: cloud: there is no app_address, so this file is the whole configuration`);
    return { source: file, read, traffic };
  }

  const client = createClient(cloud, cloud.appAddress, parts);
  leftAside(local, parts, client.address);

  const cache = new ConfigCache({
    home: homeFolder(env),
    partId: cloud.id,
    host,
    logger,
  });
  const refreshMs = cloud.refreshInterval;
  const firstTimeoutMs = envDurationMs(TIMEOUT_VARIABLES, undefined, env, logger);
  const changes = new ChangeFeed({ client, clock, logger, random: Math.random });
  const { rareMs } = traffic;
  return {
    source: new CloudSource({
      client,
      changes,
      local,
      cache,
      refreshMs,
      rareMs,
      firstTimeoutMs,
      clock,
      logger,
    }),
    client,
    changes,
    traffic,
  };
}

function createClient({ id, apiKey, secret }: CloudConfig, address: string, parts: OriginParts): CloudClient {
  const { host, version, clock, allowInsecureCredentials } = parts;
  const { os, arch } = host.platform();
  return new CloudClient({
    address,
    partId: id,
    credentials: apiKey
      ? { type: "api-key", entity: apiKey.id, payload: apiKey.key }
      : { type: "robot-secret", entity: id, payload: secret! },
    allowInsecureCredentials,
    mark: createDeviceMark("svc-server", host.hostname()),
    agent: { host: host.hostname(), os, version, platform: `${os}/${arch === "x64" ? "amd64" : arch}` },
    clock,
  });
}

function leftAside(local: JsonObject, { path, logger }: OriginParts, address: string): void {
  const keys = ["components", "services", "modules", "remotes", "packages", "jobs"];
  const there = keys.filter((key) => Array.isArray(local[key]) && local[key].length > 0);
  if (there.length > 0) {
    logger.warn(`${path}: ${there.join(", ")}: left aside, the configuration comes from ${address}`);
  }
}
