/**
 * The configurations of parts, in the form that their machines get.
 *
 * Also decides who may call a machine: by default the API keys with a role on it, unless its configuration names
 * others. The machine gets the hashes of the keys.
 *
 * A poll without news costs one trip to the database: a message is kept as long as none of its sources has changed, and
 * so is the failure of a configuration that cannot be resolved.
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
import { keepBytes } from "../../wire/rpc/message_bytes.ts";
import { create, type MessageInitShape } from "../../wire/rpc/proto.ts";
import { type KeyHash, Keys } from "../access/keys.ts";
import type { MachineTokens } from "../access/machine_tokens.ts";
import { type SharedSecret, SharedSecrets } from "../access/shared_secrets.ts";
import { Parts, type PartSummary } from "../tenants/parts.ts";
import { partNames } from "../tenants/hosts.ts";
import { Packages } from "../packages/packages.ts";
import { hasCollectors, keepCollectors } from "../capture/retention_policies.ts";
import { hasTriggers, keepTriggers } from "../triggers/outbox.ts";
import type { ConfigResult } from "./config_jobs.ts";
import { robotConfigMessage } from "./config_message.ts";
import { ownsFragments } from "./config_view.ts";
import { type ConfigContext, type FragmentStamps, UnusableConfig } from "./config_threads.ts";
import { FragmentTexts } from "./fragments/fragment_texts.ts";
import { PartConfigs, revisionText } from "./part_config.ts";

/** Limit of kept messages, one per part. */
const KEPT_MAX = 5_000;
/** How long a failure is kept, because high load may have caused it. */
const FAILURE_MS = 300_000;
/** Authentication that admits callers with one of these keys. */
function handlerOf(keys: readonly KeyHash[]): MessageInitShape<typeof AuthHandlerConfigSchema> {
  const hashes = Object.fromEntries(keys.map(({ id, hash }) => [id, hash]));
  return { type: CredentialsType.API_KEY, config: { ...hashes, keys: keys.map(({ id }) => id) } };
}

/** Adds callers of the control plane, by their keys and by tokens that it has signed. */
function withOwn(
  auth: ReturnType<typeof robotConfigMessage>["auth"],
  callers: readonly KeyHash[],
  jwks: MachineTokens["jwks"],
): MessageInitShape<typeof AuthConfigSchema> {
  const others = auth?.externalAuthConfig?.jwks?.json?.keys;
  const keys = [...Array.isArray(others) ? others : [], ...jwks];
  return { ...auth, handlers: [handlerOf(callers)], externalAuthConfig: { jwks: { json: { keys } } } };
}

/** A message and its sources. */
interface Kept {
  readonly organizationId: string;
  /** Every source of the message except fragments and packages. */
  readonly stamp: string;
  readonly fragments: FragmentStamps;
  /** Packages whose version is not exact, and the version chosen. */
  readonly packages: readonly Floating[];
  /** The message, or the reason why the configuration cannot be resolved. */
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

/** The recipient of a message, and whether it is the machine itself. */
export interface ConfigCaller {
  readonly entity: string | undefined;
  readonly isMachine: boolean;
}

/** The sources of a message besides the configuration. */
interface Sources {
  readonly part: PartSummary;
  readonly stamp: string;
  readonly keys: readonly KeyHash[];
  readonly jwks: MachineTokens["jwks"];
  readonly secrets: readonly SharedSecret[];
}

/** The state of a part's message in the database, and the kept message. */
export interface ConfigLook {
  readonly kept: Kept | undefined;
  readonly isAsItWas: boolean;
  readonly sources: Sources;
}

/** The same message object as long as none of its sources has changed. */
export class ConfigMessages {
  readonly #kept = new Map<string, Kept>();
  /** Messages in the making, by part and stamp: concurrent requests wait for the same message. */
  readonly #making = new Map<string, Promise<Kept>>();

  constructor(private readonly cloud: ConfigContext, private readonly machineTokens: MachineTokens) {}

  /** A value that changes whenever the configuration does; an unusable configuration has one, too. */
  async identity(partId: string): Promise<unknown> {
    const { outcome } = await this.#current(await this.look(partId));
    return "error" in outcome ? outcome.error : outcome.response;
  }

  /** Asks the database, in one trip, whether a part's message is still current. */
  async look(partId: string): Promise<ConfigLook> {
    const kept = this.#kept.get(partId);
    const [sources, isAsItWas] = await Promise.all([
      this.#sources(partId),
      kept !== undefined && this.#isCurrent(kept),
    ]);
    return { kept, isAsItWas, sources };
  }

  /** Throws `failed_precondition` for a configuration that cannot be resolved. */
  async forCaller(look: ConfigLook, caller: ConfigCaller): Promise<ConfigResponse> {
    return (await this.#outcomeFor(look, caller)).response;
  }

  /** The settings of a part's agent. */
  async agentFor(partId: string, caller: ConfigCaller): Promise<Json | undefined> {
    return (await this.#outcomeFor(await this.look(partId), caller)).agent;
  }

  /** The machine itself and owners of its fragments see everything; others see stars for secrets of fragments. */
  async #outcomeFor(look: ConfigLook, { entity, isMachine }: ConfigCaller): Promise<Outcome> {
    const { outcome } = await this.#current(look);
    if ("error" in outcome) throw outcome.error;
    const { used } = outcome;
    if (isMachine || used.length === 0 || await ownsFragments(this.cloud, entity, used)) return outcome;
    const masked = await this.#make(await this.#sources(look.sources.part.id), true);
    if ("error" in masked.outcome) throw masked.outcome.error;
    return masked.outcome;
  }

  async #current({ kept, isAsItWas, sources }: ConfigLook): Promise<Kept> {
    const { stamp, part: { id: partId } } = sources;
    if (kept && isAsItWas && kept.stamp === stamp) return kept;
    const key = `${partId} ${stamp}`;
    const joined = await this.#making.get(key);
    if (joined?.stamp === stamp && await this.#isCurrent(joined)) return joined;
    const making = this.#make(sources);
    this.#making.set(key, making);
    try {
      const made = await making;
      if (this.#kept.size >= KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value!);
      this.#kept.set(partId, made);
      return made;
    } finally {
      if (this.#making.get(key) === making) this.#making.delete(key);
    }
  }

  async #sources(partId: string): Promise<Sources> {
    const { store } = this.cloud;
    const [part, keys, secrets] = await Promise.all([
      new Parts(store).summary(partId),
      new Keys(store).hashesFor(partId),
      new SharedSecrets(store).ofLocationWith(partId),
    ]);
    const { jwks } = this.machineTokens;
    const { revision, machineId, locationId, organizationId } = part;
    const stamp = JSON.stringify([
      revision,
      partNames(part, this.cloud.machineDomain),
      machineId,
      locationId,
      organizationId,
      keys,
      secrets,
      jwks.map(({ kid }) => kid),
    ]);
    return { part, stamp, keys, jwks, secrets };
  }

  /** Whether the sources that its stamp does not cover are unchanged. */
  async #isCurrent({ fragments, packages, outcome, organizationId }: Kept): Promise<boolean> {
    if ("error" in outcome && this.cloud.clock.nowMs() >= outcome.untilMs) return false;
    for (const { id, wanted, version } of packages) {
      if (await this.#resolveVersion(id, wanted, organizationId) !== version) return false;
    }
    return await new FragmentTexts(this.cloud.store).hasStamps(fragments);
  }

  /** The chosen version of a package, if the organization may use one. */
  async #resolveVersion(id: string, wanted: string, organizationId: string): Promise<string | undefined> {
    try {
      const { item, version } = await new Packages(this.cloud.store).find(id, wanted);
      return item.visibility === "private" && item.organizationId !== organizationId ? undefined : version;
    } catch (error) {
      if (["not_found", "invalid_argument"].includes(SvcError.from(error).code)) return undefined;
      throw error;
    }
  }

  async #make(sources: Sources, masked = false): Promise<Kept> {
    const { store, logger, configs, clock } = this.cloud;
    const { id, organizationId } = sources.part;
    const { text, revision } = await new PartConfigs(store).readText(id);
    const stamps = new Map<string, number>();
    const { stamp } = sources;
    let resolved: ConfigResult;
    try {
      resolved = await configs.run(store, organizationId, { kind: "fill", text, masked }, stamps);
    } catch (thrown) {
      if (!(thrown instanceof UnusableConfig)) throw thrown;
      const reported = `the configuration of part ${id} cannot be used: ${thrown.message}`;
      logger.warn(reported);
      const failure = new SvcError("failed_precondition", reported, { cause: thrown });
      const outcome = { error: failure, untilMs: clock.nowMs() + FAILURE_MS };
      return { organizationId, stamp, fragments: stamps, packages: [], outcome };
    }
    if (!masked) await this.#keepDerived(sources.part, resolved);
    for (const { path, message } of resolved.problems) {
      logger.warn(`configuration of part ${id}: ${path}: ${message}`);
    }
    const { packages, response } = await this.#message(sources, resolved, revision);
    const used = resolved.used.map(({ id }) => id);
    // Each machine asks for it again and again.
    if (!masked) keepBytes(ConfigResponseSchema, response);
    const outcome = { response, agent: resolved.agent, used };
    return { organizationId, stamp, fragments: stamps, packages, outcome };
  }

  /** A fragment may have changed since the configuration was saved. */
  async #keepDerived({ id, seenMs }: PartSummary, { triggers, collectors }: ConfigResult): Promise<void> {
    const { store, presence } = this.cloud;
    if (!await hasCollectors(store, id, collectors)) {
      await store.transaction((sql) => keepCollectors(sql, id, collectors));
    }
    if (await hasTriggers(store, id, triggers)) return;
    const isOnline = presence.state(presence.seenMs(id, seenMs)) === "online";
    await store.transaction((sql) => keepTriggers(sql, id, triggers, isOnline));
  }

  async #message({ part, keys, jwks, secrets }: Sources, resolved: ConfigResult, revision: number) {
    const { id, locationId, machineId, organizationId } = part;
    const message = robotConfigMessage(resolved.config ?? {});
    const packages: Floating[] = [];
    for (const one of message.packages) {
      const { package: id, version: wanted } = one;
      const version = await this.#resolveVersion(id, wanted, organizationId);
      if (version === wanted) continue;
      packages.push({ id, wanted, version });
      // If there is none, the machine gets the reason when it requests it.
      one.version = version ?? wanted;
    }
    const floating = packages.map(({ id, version }) => `${id}@${version ?? "none"}`);
    const response = create(ConfigResponseSchema, {
      config: {
        ...message,
        revision: [revisionText(revision, resolved.used), ...floating].join("+"),
        overwriteFragmentStatus: resolved.problems.map(({ path, message }) => ({
          error: `${path}: ${message}`,
        })),
        auth: message.auth?.handlers.length ? message.auth : withOwn(message.auth, keys, jwks),
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
