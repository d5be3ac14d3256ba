/** The part that a caller names by its host name. */

import { SvcError } from "../../base/error.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import { type Part, Parts } from "../tenants/parts.ts";
import { everyName, MACHINE_DOMAIN } from "../tenants/hosts.ts";
import type { AccessLevel } from "./access.ts";
import { actorOf, type CloudContext } from "./context.ts";

const HOST_CHARS_MAX = 253;
const HOST_SHOWN_CHARS = 80;
const HOST_NAME = /^[\w-]+(\.[\w-]+)+$/;

/** The part with a host name. */
async function partAt({ store, machineDomain }: CloudContext, host: string): Promise<Part | undefined> {
  if (host.length > HOST_CHARS_MAX || host.includes("\0")) return undefined;
  const [word = "", locationId = ""] = host.split(".");
  const part = await new Parts(store).atHost(locationId, word);
  return part && everyName(part, machineDomain).includes(host) ? part : undefined;
}

/** An address, or the name that people give a machine, is no host name; nobody's key would help. */
function requireName(host: string): void {
  if (HOST_NAME.test(host)) return;
  const found = host === "" ? "no host" : `the host ${JSON.stringify(host.slice(0, HOST_SHOWN_CHARS))}`;
  throw new SvcError(
    "invalid_argument",
    `found ${found}, wanted the DNS name of a machine, such as main.LOCATION.${MACHINE_DOMAIN} (svc-cloud hosts ` +
      "prints it)",
  );
}

/**
 * The part of a host name, for a caller with `need` on it. Throws `invalid_argument` for other texts, and
 * `permission_denied`, with the same words, for a caller without the role and for a missing part; records the attempt.
 */
export async function partFor(
  cloud: CloudContext,
  ctx: CallContext,
  host: string,
  need: AccessLevel,
): Promise<Part> {
  const { access, audit } = cloud;
  requireName(host);
  const part = await partAt(cloud, host);
  const refused = new SvcError("permission_denied", `this needs an API key that opens the machine "${host}"`);
  if (!part) throw refused;
  const ref = { kind: "part", id: part.id } as const;
  if (await access.may(ctx.entity, need, ref)) return part;
  await audit.refused(actorOf(ctx), [ref]);
  throw refused;
}
