/**
 * Finds a machine by its name at a control plane.
 */

import { AppService } from "../../../proto/gen/app_pb.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { suggest } from "../../../lib/base/schema/suggest.ts";
import { connectApp } from "../../../lib/cloud_client/app_channel.ts";
import { client } from "../../../lib/wire/channel.ts";
import type { Credentials } from "../../../lib/wire/dial/dial.ts";

const NAMES_SHOWN = 12;
/** A shorter word is not the beginning of an id. */
const ID_CHARS_MIN = 4;

interface NameAccount {
  readonly baseUrl: string;
  readonly credentials: Credentials;
  readonly ca?: string;
}

interface NamedPart {
  readonly id: string;
  readonly part: string;
  readonly machine: string;
  readonly machineId: string;
  readonly isMain: boolean;
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
    const parts: NamedPart[] = [];
    for (const { id: organizationId } of organizations) {
      const { locationSummaries } = await app.listMachineSummaries({ organizationId }, { signal });
      parts.push(
        ...locationSummaries.flatMap(({ machineSummaries }) => machineSummaries).flatMap(namedParts),
      );
    }
    const { id } = chosenPart(wanted, parts, baseUrl);
    const { part } = await app.getRobotPart({ id }, { signal });
    if (!part?.fqdn) throw new SvcError("not_found", `${baseUrl} gives no host name for "${wanted}"`);
    return part.fqdn;
  } finally {
    channel.close();
  }
}

function namedParts(
  { machineName, machineId, partSummaries }: {
    readonly machineName: string;
    readonly machineId: string;
    readonly partSummaries: readonly { partId: string; partName: string; isMainPart: boolean }[];
  },
): NamedPart[] {
  return partSummaries.map(({ partId: id, partName: part, isMainPart: isMain }) => ({
    ...{ id, part, isMain },
    machine: machineName,
    machineId,
  }));
}

function chosenPart(wanted: string, parts: readonly NamedPart[], baseUrl: string): NamedPart {
  const isBeginning = (id: string) => wanted.length >= ID_CHARS_MIN && id.startsWith(wanted);
  const ways: ((one: NamedPart) => boolean)[] = [
    ({ id, machineId, isMain }) => id === wanted || (machineId === wanted && isMain),
    ({ machine, isMain }) => machine === wanted && isMain,
    ({ part }) => part === wanted,
    ({ id, machineId, isMain }) => isBeginning(id) || (isBeginning(machineId) && isMain),
  ];
  for (const way of ways) {
    const found = parts.filter(way);
    if (found.length === 1) return found[0];
    if (found.length > 1) {
      const listed = found.slice(0, NAMES_SHOWN).map(({ part, id }) => `${part} (${id})`).join(", ");
      throw new SvcError("invalid_argument", `"${wanted}" means ${found.length} parts: ${listed}`);
    }
  }
  const names = [...new Set(parts.flatMap(({ machine, part }) => [machine, part]))];
  const near = suggest(wanted, names);
  const known = names.length === 0
    ? "the key sees none"
    : `the key sees ${names.slice(0, NAMES_SHOWN).join(", ")}${names.length > NAMES_SHOWN ? ", …" : ""}`;
  throw new SvcError(
    "not_found",
    `${baseUrl} has no machine "${wanted}"${near ? `; did you mean ${near}?` : `: ${known}`}`,
  );
}
