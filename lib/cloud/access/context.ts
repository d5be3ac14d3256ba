/**
 * What every room of the control plane shares: the store, the rights and limits of callers, and who acts.
 */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import type { Access } from "./access.ts";
import type { Addresses } from "../addresses/addresses.ts";
import type { Actor, Audit } from "./audit.ts";
import type { ClockCheck } from "../store/clock_check.ts";
import type { FileStore } from "../store/files.ts";
import type { Limits } from "./limits.ts";
import type { Presence } from "../tenants/presence.ts";
import type { Secrets } from "../store/secrets/secrets.ts";
import type { Store } from "../store/store.ts";
import type { Usage } from "./usage.ts";

/** Who may create organizations by a call; the command line on the host always may. */
export const ORGANIZATION_MAKERS = ["operator", "anybody"] as const;
export type OrganizationMakers = typeof ORGANIZATION_MAKERS[number];

export interface CloudContext {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly clockCheck: ClockCheck;
  readonly logger: Logger;
  readonly access: Access;
  readonly audit: Audit;
  readonly presence: Presence;
  readonly limits: Limits;
  readonly usage: Usage;
  readonly secrets: Secrets;
  /** `operator`, the default, allows nobody. */
  readonly organizations?: OrganizationMakers;
  /** The public addresses of this control plane. */
  readonly addresses: Addresses;
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
