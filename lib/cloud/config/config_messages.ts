/**
 * The configurations of parts as their machines get them.
 *
 * Also decides who may call a machine: by default the API keys with a role on it, unless its configuration names
 * others. The machine gets the hashes of the keys.
 *
 * A poll without news costs three short queries: a message is kept as long as none of its sources has changed, and so
 * is the failure of a configuration that cannot be resolved.
 */

import {
  type AuthConfigSchema,
  type AuthHandlerConfigSchema,
  type ConfigResponse,
  ConfigResponseSchema,
  CredentialsType,
} from "../../../proto/gen/robot_config_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { Json } from "../../base/schema/schema.ts";
import { create, type MessageInitShape } from "../../wire/proto.ts";
import { type KeyHash, Keys } from "../access/keys.ts";
import type { MachineTokens } from "../access/machine_tokens.ts";
import { type SharedSecret, SharedSecrets } from "../access/shared_secrets.ts";
import type { CloudContext } from "../context.ts";
import type { Part } from "../fleet/fleet.ts";
import { partNames } from "../fleet/hosts.ts";
import { Packages } from "../packages/packages.ts";
import type { ConfigResult } from "./config_jobs.ts";
import { robotConfigMessage } from "./config_message.ts";
import { ownsFragments } from "./config_view.ts";
import { type FragmentStamps, UnusableConfig } from "./config_threads.ts";
import { Fragments } from "./fragments.ts";
import { PartConfigs } from "./part_config.ts";

/** Limit of kept messages, one per part. */
const KEPT_MAX = 5_000;
/** A failure may have been the load at the time. */
const FAILURE_MS = 300_000;
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

/** A message and its sources. */
interface Kept {
  /** Every source of the message except fragments. */
  readonly stamp: string;
  readonly fragments: FragmentStamps;
  /** Packages whose version is not exact, and the version chosen. */
  readonly packages: readonly Floating[];
  /** Why there is none: the configuration cannot be resolved. */
  readonly outcome: Outcome | { readonly error: SvcError; readonly untilMs: number };
}

interface Outcome {
  readonly response: ConfigResponse;
  /** The settings of the agent. */
  readonly agent: Json | undefined;
  /** The ids of all fragments in it. */
  readonly used: readonly string[];
}

interface Floating {
  readonly id: string;
  readonly wanted: string;
  /** `undefined` if there is none. */
  readonly version: string | undefined;
}

/** Everything that a message is made of besides the configuration. */
interface Sources {
  readonly stamp: string;
  readonly access: Parameters<typeof withOwn>[1];
  readonly secrets: readonly SharedSecret[];
}

/** The same message object as long as none of its sources has changed. */
export class ConfigMessages {
  readonly #kept = new Map<string, Kept>();
  /** By part and stamp: machines that ask at once wait for one message. */
  readonly #making = new Map<string, Promise<Kept>>();

  constructor(private readonly cloud: CloudContext, private readonly machineTokens: MachineTokens) {}

  /** Equal as long as the configuration is; an unusable one counts too. */
  async identity(part: Part): Promise<unknown> {
    const { outcome } = await this.#current(part);
    return "error" in outcome ? outcome.error : outcome.response;
  }

  /** Throws `failed_precondition` for a configuration that cannot be resolved. */
  async forCaller(part: Part, entity: string | undefined): Promise<ConfigResponse> {
    return (await this.#outcomeFor(part, entity)).response;
  }

  /** The settings of a part's agent. */
  async agentFor(part: Part, entity: string | undefined): Promise<Json | undefined> {
    return (await this.#outcomeFor(part, entity)).agent;
  }

  /** The machine itself and owners of its fragments see everything; others see stars for secrets of fragments. */
  async #outcomeFor(part: Part, entity: string | undefined): Promise<Outcome> {
    const { outcome } = await this.#current(part);
    if ("error" in outcome) throw outcome.error;
    const { used } = outcome;
    if (used.length === 0 || await this.cloud.access.may(entity, "machine", { kind: "part", id: part.id })) {
      return outcome;
    }
    if (await ownsFragments(this.cloud, entity, used)) return outcome;
    const masked = await this.#make(part, await this.#sources(part), true);
    if ("error" in masked.outcome) throw masked.outcome.error;
    return masked.outcome;
  }

  async #current(part: Part): Promise<Kept> {
    const { id } = part;
    const sources = await this.#sources(part);
    const isCurrent = async (kept: Kept) =>
      kept.stamp === sources.stamp && await this.#isCurrent(kept, part.organizationId);
    const kept = this.#kept.get(id);
    if (kept && await isCurrent(kept)) return kept;
    const key = `${id} ${sources.stamp}`;
    const joined = await this.#making.get(key);
    if (joined && await isCurrent(joined)) return joined;
    const making = this.#make(part, sources);
    this.#making.set(key, making);
    try {
      const made = await making;
      if (this.#kept.size >= KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value!);
      this.#kept.set(id, made);
      return made;
    } finally {
      if (this.#making.get(key) === making) this.#making.delete(key);
    }
  }

  async #sources(part: Part): Promise<Sources> {
    const { id, machineId, locationId, organizationId } = part;
    const { store } = this.cloud;
    const [{ revision }] = await store.query<{ revision: number }>(
      "SELECT revision FROM parts WHERE id = ?",
      id,
    );
    const keys = await new Keys(store).hashesFor(part);
    const secrets = await new SharedSecrets(store).of("location", locationId);
    const { jwks } = this.machineTokens;
    const kids = jwks.map(({ kid }) => kid);
    const names = partNames(part, this.cloud.machineDomain);
    const stamp = JSON.stringify([
      revision,
      names,
      machineId,
      locationId,
      organizationId,
      keys,
      secrets,
      kids,
    ]);
    return { stamp, access: [handlerOf(keys), jwks], secrets };
  }

  async #isCurrent({ fragments, packages, outcome }: Kept, organizationId: string): Promise<boolean> {
    if ("error" in outcome && this.cloud.clock.nowMs() >= outcome.untilMs) return false;
    for (const { id, wanted, version } of packages) {
      if (await this.#versionOf(id, wanted, organizationId) !== version) return false;
    }
    return await new Fragments(this.cloud.store).hasStamps(fragments);
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

  async #make(part: Part, sources: Sources, masked = false): Promise<Kept> {
    const { store, logger, configs, clock } = this.cloud;
    const { id, organizationId } = part;
    const { text, revision } = await new PartConfigs(store).textOf(id);
    const stamps = new Map<string, number>();
    const { stamp } = sources;
    let resolved: ConfigResult;
    try {
      resolved = await configs.run(store, organizationId, { kind: "fill", text, masked }, stamps);
    } catch (thrown) {
      if (!(thrown instanceof UnusableConfig)) throw thrown;
      const told = `the configuration of part ${id} cannot be used: ${thrown.message}`;
      logger.warn(told);
      const failure = new SvcError("failed_precondition", told, { cause: thrown });
      const outcome = { error: failure, untilMs: clock.nowMs() + FAILURE_MS };
      return { stamp, fragments: stamps, packages: [], outcome };
    }
    for (const { path, message } of resolved.problems) {
      logger.warn(`configuration of part ${id}: ${path}: ${message}`);
    }
    const { packages, response } = await this.#message(part, sources, resolved, revision);
    const used = resolved.used.map(({ id }) => id);
    return { stamp, fragments: stamps, packages, outcome: { response, agent: resolved.agent, used } };
  }

  async #message(part: Part, { access, secrets }: Sources, resolved: ConfigResult, revision: number) {
    const { id, locationId, machineId, organizationId } = part;
    const message = robotConfigMessage(resolved.config ?? {});
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
    const inIt = resolved.used.map(({ id, revision }) => `${id.slice(0, 8)}.${revision}`);
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
    return { packages, response };
  }
}
