/**
 * RobotService: the calls of machines. Configuration, certificate, restart orders and logs.
 *
 * It also decides who may call a machine: by default the API keys with a role on it, unless its configuration names
 * others. The machine gets the hashes of the keys.
 *
 * A poll without news costs three short queries: a message is kept as long as none of its sources has changed.
 */

import {
  type AuthConfigSchema,
  type AuthHandlerConfigSchema,
  type ConfigResponse,
  ConfigResponseSchema,
  CredentialsType,
  type RobotService,
} from "../../../proto/gen/robot_config_pb.ts";
import { toDuration } from "../../api/shared/time.ts";
import type { SvcError } from "../../base/error.ts";
import { create, type MessageInitShape } from "../../wire/proto.ts";
import type { ServiceImpl } from "../../wire/service.ts";
import type { Authority } from "../store/authority.ts";
import { robotConfigMessage } from "../config/config_message.ts";
import type { CloudContext } from "../context.ts";
import { Fleet, type Part } from "./fleet.ts";
import { Fragments } from "../config/fragments.ts";
import { type KeyHash, Keys } from "../access/keys.ts";
import type { LogStore } from "../logs/logs.ts";
import { Packages } from "../packages/packages.ts";
import type { MachineTokens } from "../access/machine_tokens.ts";
import { partNames } from "./hosts.ts";
import { PartConfigs } from "../config/part_config.ts";
import { type SharedSecret, SharedSecrets } from "../access/shared_secrets.ts";
import { places } from "../store/store.ts";

/** Interval of polls for restart orders. */
const RESTART_CHECK_MS = 5_000;
/** Limit of kept messages, one per part. */
const KEPT_MAX = 5_000;
const LOCALHOST = ["localhost", "127.0.0.1"];

export function robotHandlers(
  cloud: CloudContext,
  authority: Authority,
  logs: LogStore,
  messages: ConfigMessages,
) {
  const { store, presence, clock } = cloud;
  const fleet = new Fleet(store);
  return {
    async config({ id, agentInfo }) {
      const part = await fleet.part(id);
      const { host, os, ips, version, gitRevision, platform } = agentInfo ?? {};
      presence.saw(
        id,
        agentInfo &&
          {
            host: host!,
            os: os!,
            ips: ips!,
            version: version!,
            git_revision: gitRevision!,
            platform: platform ?? "",
          },
      );
      return await messages.of(part);
    },
    async certificate({ id }) {
      const { fqdn, localFqdn } = partNames(await fleet.part(id), cloud.machineDomain);
      const { certificate, privateKey } = await authority.ofPart(id, [
        fqdn,
        localFqdn,
        // The holder of the private key could pose as any server on the computer of a client that trusts the
        // authority.
        ...(cloud.localhostCertificates ? LOCALHOST : []),
      ]);
      return { id, tlsCertificate: certificate, tlsPrivateKey: privateKey };
    },
    async needsRestart({ id }) {
      presence.saw(id);
      const mustRestart = await fleet.restartOrdered(id) &&
        await store.transaction((sql) => new Fleet(sql).takeRestart(id));
      return { id, mustRestart, restartCheckInterval: toDuration(RESTART_CHECK_MS) };
    },
    async log({ id, logs: entries }) {
      presence.saw(id);
      await logs.add(id, entries, clock.nowMs());
      return {};
    },
  } satisfies ServiceImpl<typeof RobotService>;
}

/** Admits callers with one of these keys. */
function handlerOf(keys: readonly KeyHash[]): MessageInitShape<typeof AuthHandlerConfigSchema> {
  const hashes = Object.fromEntries(keys.map(({ id, hash }) => [id, hash]));
  return { type: CredentialsType.API_KEY, config: { ...hashes, keys: keys.map(({ id }) => id) } };
}

/** Admits callers of the control plane, by their keys and by tokens that it has signed. */
function withOwn(
  auth: ReturnType<typeof robotConfigMessage>["auth"],
  [handler, jwks]: readonly [MessageInitShape<typeof AuthHandlerConfigSchema>, MachineTokens["jwks"]],
): MessageInitShape<typeof AuthConfigSchema> {
  const others = auth?.externalAuthConfig?.jwks?.json?.keys;
  const keys = [...Array.isArray(others) ? others : [], ...jwks];
  return { ...auth, handlers: [handler], externalAuthConfig: { jwks: { json: { keys } } } };
}

interface Kept {
  /** Every source of the message except fragments. */
  readonly stamp: string;
  /** The stamp of each, by id. */
  readonly fragments: ReadonlyMap<string, number>;
  /** Packages whose version is not exact, and the version chosen. */
  readonly packages: readonly Floating[];
  readonly response: ConfigResponse;
}

interface Floating {
  readonly id: string;
  readonly wanted: string;
  /** `undefined` if there is none. */
  readonly version: string | undefined;
}

/**
 * The configurations of parts as machines get them: the same message object as long as none of its sources has
 * changed.
 */
export class ConfigMessages {
  readonly #kept = new Map<string, Kept>();

  constructor(private readonly cloud: CloudContext, private readonly machineTokens: MachineTokens) {}

  async of(part: Part): Promise<ConfigResponse> {
    const { id, name, machineId, locationId, organizationId } = part;
    const [{ revision }] = await this.cloud.store.query<{ revision: number }>(
      "SELECT revision FROM parts WHERE id = ?",
      id,
    );
    const keys = await new Keys(this.cloud.store).hashesFor(part);
    const secrets = await new SharedSecrets(this.cloud.store).of("location", locationId);
    const { jwks } = this.machineTokens;
    const kids = jwks.map(({ kid }) => kid);
    const stamp = JSON.stringify([
      revision,
      name,
      machineId,
      locationId,
      organizationId,
      keys,
      secrets,
      kids,
    ]);
    const kept = this.#kept.get(id);
    if (kept?.stamp === stamp && await this.#isCurrent(kept, organizationId)) return kept.response;
    const made = await this.#make(part, [handlerOf(keys), jwks], secrets, stamp);
    if (this.#kept.size >= KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value!);
    this.#kept.set(id, made);
    return made.response;
  }

  async #isCurrent({ fragments, packages }: Kept, organizationId: string): Promise<boolean> {
    for (const { id, wanted, version } of packages) {
      if (await this.#versionOf(id, wanted, organizationId) !== version) return false;
    }
    if (fragments.size === 0) return true;
    const rows = await this.cloud.store.query<{ id: string; stamp: number }>(
      `SELECT id, stamp FROM fragments WHERE id IN (${places([...fragments])})`,
      ...fragments.keys(),
    );
    return rows.length === fragments.size && rows.every(({ id, stamp }) => fragments.get(id) === stamp);
  }

  /** The chosen version of a package, if the organization may use one. */
  async #versionOf(id: string, wanted: string, organizationId: string): Promise<string | undefined> {
    try {
      const { item, version } = await new Packages(this.cloud.store).find(id, wanted);
      return item.visibility === "private" && item.organizationId !== organizationId ? undefined : version;
    } catch (error) {
      if (["not_found", "invalid_argument"].includes((error as SvcError).code)) return undefined;
      throw error;
    }
  }

  async #make(
    part: Part,
    access: Parameters<typeof withOwn>[1],
    secrets: readonly SharedSecret[],
    stamp: string,
  ): Promise<Kept> {
    const { store, logger } = this.cloud;
    const { config, revision } = await new PartConfigs(store).get(part.id);
    const { organizationId } = part;
    const resolved = await new Fragments(store).resolve(config, organizationId);
    for (const { path, message } of resolved.problems) {
      logger.warn(`configuration of part ${part.id}: ${path}: ${message}`);
    }
    const fragments = new Map(resolved.fragments.map((one) => [one.id, one.stamp]));
    const message = robotConfigMessage(resolved.config);
    const packages: Floating[] = [];
    for (const one of message.packages) {
      const { package: id, version: wanted } = one;
      const version = await this.#versionOf(id, wanted, organizationId);
      if (version === wanted) continue;
      packages.push({ id, wanted, version });
      // If there is none, the machine gets the reason when it requests it.
      one.version = version ?? wanted;
    }
    const floating = packages.map(({ id, version }) => `${id}@${version ?? "none"}`);
    const inIt = resolved.fragments.map(({ id, revision }) => `${id.slice(0, 8)}.${revision}`);
    const { id, locationId, machineId } = part;
    const response = create(ConfigResponseSchema, {
      config: {
        ...message,
        revision: [revision, ...inIt, ...floating].join("+"),
        overwriteFragmentStatus: resolved.problems.map(({ path, message }) => ({
          error: `${path}: ${message}`,
        })),
        auth: message.auth?.handlers.length ? message.auth : withOwn(message.auth, access),
        cloud: {
          id,
          ...partNames(part, this.cloud.machineDomain),
          primaryOrgId: organizationId,
          locationId,
          machineId,
          // As for keys, the hashes suffice.
          locationSecrets: secrets.map(({ id, hash }) => ({ id, secret: hash })),
        },
      },
    });
    return { stamp, fragments, packages, response };
  }
}
