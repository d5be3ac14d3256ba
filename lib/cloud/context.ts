/**
 * What the handlers of the control plane's services work with, and who is behind a call.
 */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log/log.ts";
import { SvcError } from "../base/error.ts";
import type { Problem } from "../base/schema/schema.ts";
import type { CallContext } from "../wire/service.ts";
import type { Access } from "./access/access.ts";
import type { Addresses } from "./addresses.ts";
import type { Actor, Audit } from "./access/audit.ts";
import type { FileStore } from "./store/files.ts";
import type { Limits } from "./access/limits.ts";
import type { Presence } from "./fleet/presence.ts";
import type { Secrets } from "./store/secrets.ts";
import type { Store } from "./store/store.ts";
import type { Usage } from "./access/usage.ts";

/** Who makes organizations by a call; the command line on the host always does. */
export const ORGANIZATION_MAKERS = ["operator", "anybody"] as const;
export type OrganizationMakers = typeof ORGANIZATION_MAKERS[number];

/** Everything wrong with a machine's configuration; what must not be used has errors. */
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
  readonly validate: Validate;
  /** `operator` where left out: nobody does by a call. */
  readonly organizations?: OrganizationMakers;
  /** As what this control plane is known. */
  readonly addresses: Addresses;
  /** Certificates of machines are good for localhost, too. */
  readonly localhostCertificates?: boolean;
}

export function actorOf({ entity, method }: CallContext): Actor {
  return { who: entity ?? "", action: method.name };
}

/** A person at the command line, not an API key, as those who act. */
export function personActing(user: string, action: string): Actor {
  return { who: `${PERSON}${user}`, action };
}

export function isPerson(who: string): boolean {
  return who.startsWith(PERSON);
}

const PERSON = "cli:";

/** Pages continue after the number in their token. */
export function pageStart(token: string): number {
  const number = Number(token);
  if (Number.isSafeInteger(number)) return number;
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}
