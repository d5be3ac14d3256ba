/**
 * Finds a machine by its name at a control plane.
 */

import { AppService } from "../../../proto/gen/app_pb.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { connectApp } from "../../../lib/cloud_client/app_channel.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import type { Credentials } from "../../../lib/wire/dial/renewed_token.ts";
import { type Nameable, namedOne } from "../../lookup.ts";

interface NameAccount {
  readonly baseUrl: string;
  readonly credentials: Credentials;
  readonly ca?: string;
}

/** The full host name of the machine with this name, id, or unique beginning of an id. */
export async function machineFqdn(
  wanted: string,
  { baseUrl, credentials: { entity: keyId, payload: key }, ca }: NameAccount,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<string> {
  const channel = connectApp({ address: baseUrl, keyId, key, ca, clock });
  try {
    const app = client(AppService, channel);
    const { organizations } = await app.listOrganizations({}, { signal });
    const parts: Nameable[] = [];
    for (const { id: organizationId } of organizations) {
      const { locationSummaries } = await app.listMachineSummaries({ organizationId }, { signal });
      parts.push(
        ...locationSummaries.flatMap(({ machineSummaries }) => machineSummaries).flatMap(namedParts),
      );
    }
    const { id } = namedOne("machine", wanted, parts);
    const { part } = await app.getRobotPart({ id }, { signal });
    if (!part?.fqdn) throw new SvcError("not_found", `${baseUrl} gives no host name for "${wanted}"`);
    return part.fqdn;
  } finally {
    channel.close();
  }
}

/** A machine's name means its main part. */
function namedParts(
  { machineName, machineId, partSummaries }: {
    readonly machineName: string;
    readonly machineId: string;
    readonly partSummaries: readonly { partId: string; partName: string; isMainPart: boolean }[];
  },
): Nameable[] {
  return partSummaries.map(({ partId: id, partName: name, isMainPart }) => ({
    id,
    name,
    also: isMainPart ? [machineName, machineId] : [],
  }));
}
