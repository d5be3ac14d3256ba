/**
 * The resources that a remote offers: those of its newest list, under their names on this machine.
 *
 * They stay known while the remote is not connected, with the reason. Every connection makes new resources of them.
 */

import type { Logger } from "../../base/log/log.ts";
import { ResourceName } from "../../resource/name.ts";
import type { AnyApi, Registry } from "../../resource/registry.ts";
import type { Resource } from "../../resource/resource.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import type { RemoteConfig } from "../config/config.ts";
import type { ForeignApis } from "../modules/foreign_apis.ts";
import type { Relays } from "./relays.ts";

/** Limits for one remote; no well-behaved machine gives a longer name. */
const RESOURCES_MAX = 10_000;
const FULL_NAME_MAX = 400;

/** A resource of a remote, as far as it is known now. */
export interface RemoteResource {
  /** `rdk:component:motor/remote:left` */
  readonly name: ResourceName;
  /** Differs for every connection. */
  readonly fingerprint: string;
  /** Why it cannot be used. */
  readonly problem?: string;
  client(): Resource;
}

/** A resource as a remote offers it. */
interface Offer {
  readonly name: ResourceName;
  readonly api: AnyApi;
  readonly relays: Relays;
}

/** A resource in the list of a remote. */
interface NameMessage {
  readonly namespace: string;
  readonly type: string;
  readonly subtype: string;
  readonly name: string;
}

/** The same with the machines that it comes through. */
export interface ListedResource extends NameMessage {
  readonly relays: Relays;
}

export class OfferedResources {
  #channel: Channel | undefined;
  #connectionId = "";
  /** By full name. */
  #offers: ReadonlyMap<string, Offer> = new Map();
  /** What the newest connection has learned; without a connection it stays. */
  #foreign: ForeignApis | undefined;

  constructor(
    private readonly remote: Pick<RemoteConfig, "name" | "prefix">,
    private readonly registry: Registry,
    private readonly logger: Logger,
  ) {}

  get isConnected(): boolean {
    return this.#channel !== undefined;
  }

  get count(): number {
    return this.#offers.size;
  }

  /** The APIs that only the remote knows. */
  get foreignApis(): Iterable<AnyApi> {
    return this.#foreign?.all ?? [];
  }

  /** The machines that a resource comes through. */
  relaysOf(full: string): Relays | undefined {
    return this.#offers.get(full)?.relays;
  }

  /** All of them; `problem` is the reason why they cannot be used if the remote is not connected. */
  list(problem: string): RemoteResource[] {
    const channel = this.#channel;
    const fingerprint = this.#connectionId;
    return [...this.#offers.values()].map(({ name, api }) => ({
      name,
      fingerprint,
      problem: channel ? undefined : problem,
      client: () => api.client(name, channel!),
    }));
  }

  /** The APIs among them that this machine does not know. */
  unknownApis(listed: readonly ListedResource[]): Set<string> {
    const names = listed.map(({ namespace, type, subtype }) => `${namespace}:${type}:${subtype}`);
    return new Set(names.filter((name) => !this.registry.api(name)));
  }

  /** Adopts a list of the remote. Says whether it is the first of its connection, and whether there are others now. */
  adopt(
    channel: Channel,
    listed: readonly ListedResource[],
    foreign: ForeignApis,
  ): { readonly isFirst: boolean; readonly isChanged: boolean } {
    this.#foreign = foreign;
    const offers = this.#offersOf(listed);
    const isSame = offers.size === this.#offers.size &&
      [...offers.keys()].every((full) => this.#offers.has(full));
    const isFirst = this.#channel === undefined;
    if (isFirst) this.#connectionId = crypto.randomUUID();
    this.#offers = offers;
    this.#channel = channel;
    return { isFirst, isChanged: !isSame };
  }

  /** The connection is lost. */
  disconnect(): void {
    this.#channel = undefined;
  }

  #offersOf(messages: readonly ListedResource[]): Map<string, Offer> {
    const { registry, logger } = this;
    const { name: remote, prefix } = this.remote;
    const names = new Map<string, Offer>();

    // Machines list in random order; sorting makes equal lists equal.
    const sorted = messages.slice(0, RESOURCES_MAX).sort((a, b) => a.name < b.name ? -1 : 1);
    for (const { namespace, type, subtype, name: far, relays } of sorted) {
      const apiName = `${namespace}:${type}:${subtype}`;
      const api = registry.api(apiName) ?? this.#foreign?.get(apiName);
      if (!api) continue;
      const name = nameOf(api, `${remote}:${prefix}${far}`, far);
      if (name) names.set(name.full, { name, api, relays });
      else {
        const shown = `${apiName}/${far}`.slice(0, FULL_NAME_MAX);
        logger.debug(`${shown} of remote "${remote}" is left out: it cannot be a name here`);
      }
    }

    return names;
  }
}

function nameOf({ name: api }: AnyApi, short: string, far: string): ResourceName | undefined {
  const name = ResourceName.of(api, short, far);
  try {
    return far !== "" && name.full.length <= FULL_NAME_MAX && ResourceName.parse(name.full)
      ? name
      : undefined;
  } catch {
    return undefined;
  }
}
