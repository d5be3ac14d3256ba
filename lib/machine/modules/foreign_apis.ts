/**
 * APIs that only a remote or a module knows: learned from its reflection, so that their resources are visible like any
 * others, and calls of them pass through unchanged.
 *
 * There is one instance per connection, and what it has learned lives as long. APIs that could not be learned are
 * requested again with the next list of names.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import { passthrough } from "../../api/shared/passthrough.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { parseApi } from "../../resource/name.ts";
import type { AnyApi } from "../../resource/registry.ts";
import type { CallOptions, Channel } from "../../wire/rpc/channel.ts";
import { describeService } from "../../wire/grpc/reflection_client.ts";

/** Limit for one peer. */
const APIS_MAX = 200;
/** Services that a machine answers itself; nobody else may answer in their name. */
const OWN_SERVICES = /^(viam\.robot|viam\.module|proto\.rpc(\.webrtc)?\.v\d+|proto\.stream|grpc)\./;

/** Time limit for the peer's descriptions of all of them. */
const LEARN_TIMEOUT_MS = 10_000;

export interface ForeignApisParts {
  /** The peer: `remote "arm-pc"`. */
  readonly peer: string;
  readonly channel: Channel;
  /** The services of the APIs of the peer's resources or models, by API. */
  readonly services: (limits: CallOptions) => Promise<ReadonlyMap<string, string>>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class ForeignApis {
  readonly #apis = new Map<string, AnyApi>();
  /** Of each API. */
  readonly #problems = new LogOnChange();

  constructor(private readonly parts: ForeignApisParts) {}

  get all(): Iterable<AnyApi> {
    return this.#apis.values();
  }

  get(name: string): AnyApi | undefined {
    return this.#apis.get(name);
  }

  /** Learns the unknown ones of `names`, until `signal` aborts. Never rejects. */
  async learn(names: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const unknown = [...names].filter((name) => !this.#apis.has(name)).slice(0, APIS_MAX);
    if (unknown.length === 0) return;

    const late = () => new SvcError("deadline_exceeded", `it took longer than ${LEARN_TIMEOUT_MS / 1000} s`);
    const limit = deadline(this.parts.clock, LEARN_TIMEOUT_MS, late, signal);
    try {
      const services = await this.parts.services(limit);
      for (const name of unknown) {
        await this.#learn(name, services.get(name), limit).catch((error) =>
          this.#warnOnChange(name, chainOf(error))
        );
      }
    } catch (error) {
      for (const name of unknown) this.#warnOnChange(name, chainOf(error));
    } finally {
      limit.done();
    }
  }

  async #learn(name: string, service: string | undefined, limits: CallOptions): Promise<void> {
    parseApi(name);
    if (service === undefined) throw new SvcError("not_found", "it does not name the service of this API");
    if (OWN_SERVICES.test(service)) {
      throw new SvcError("permission_denied", `${service} is reserved for the machine itself`);
    }
    this.#apis.set(name, passthrough(name, await describeService(this.parts.channel, service, limits)));
    this.#problems.clear(name);
  }

  #warnOnChange(name: string, reason: string): void {
    if (!this.#problems.isNew(reason, name)) return;
    const what = `resources of API ${name.slice(0, 200)} of ${this.parts.peer} are left out`;
    this.parts.logger.warn(`${what}: it is not known here, and asking for it failed: ${reason}`);
  }
}
