/**
 * The shared context of the control plane's handlers, and the caller of a call.
 */

import { toMs } from "../api/shared/time.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log/log.ts";
import { SvcError } from "../base/error.ts";
import type { Problem } from "../base/schema/schema.ts";
import type { CallContext } from "../wire/rpc/service.ts";
import type { Access } from "./access/access.ts";
import type { IdentityProvider } from "./accounts/provider.ts";
import type { Addresses } from "./addresses.ts";
import type { Actor, Audit } from "./access/audit.ts";
import type { ConfigThreads } from "./config/config_threads.ts";
import type { FileStore } from "./store/files.ts";
import type { Limits } from "./access/limits.ts";
import type { ReadingPacker } from "./readings/packer.ts";
import type { Presence } from "./fleet/presence.ts";
import type { Secrets } from "./store/secrets.ts";
import type { Store } from "./store/store.ts";
import type { Usage } from "./access/usage.ts";

/** Who may create organizations by a call; the command line on the host always may. */
export const ORGANIZATION_MAKERS = ["operator", "anybody"] as const;
export type OrganizationMakers = typeof ORGANIZATION_MAKERS[number];

/** Every problem of a machine's configuration; an unusable one has errors. */
export type Validate = (json: unknown) => readonly Problem[];

export interface CloudContext {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly access: Access;
  readonly audit: Audit;
  readonly presence: Presence;
  readonly limits: Limits;
  readonly usage: Usage;
  readonly secrets: Secrets;
  /** Checks and resolves configurations. */
  readonly configs: ConfigThreads;
  /** Makes files of readings. */
  readonly packer: ReadingPacker;
  /** `operator`, the default, allows nobody. */
  readonly organizations?: OrganizationMakers;
  /** The public addresses of this control plane. */
  readonly addresses: Addresses;
  /** Where people sign in elsewhere; absent if the operator has named no provider. */
  readonly provider?: IdentityProvider;
  /** The domain of the machines' names, if it is not the default one. */
  readonly machineDomain?: string;
  /** Makes certificates of machines valid for localhost, too. */
  readonly localhostCertificates?: boolean;
}

export function actorOf({ entity, method }: CallContext): Actor {
  return { who: entity ?? "", action: method.name };
}

/** The actor name of a person at the command line, as opposed to an API key. */
export function personActing(user: string, action: string): Actor {
  return { who: `${PERSON}${user}`, action };
}

export function isPerson(who: string): boolean {
  return who.startsWith(PERSON);
}

const PERSON = "cli:";

/** The number in a page's token, after which the page continues. */
export function pageStart(token: string): number {
  const number = Number(token);
  if (Number.isSafeInteger(number)) return number;
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}

/** A bound of time in whole milliseconds, which both databases can compare; `undefined` if there is none. */
export function boundMs(time: { seconds: bigint; nanos: number } | undefined): number | undefined {
  if (!time) return undefined;
  return Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Math.floor(toMs(time))));
}
