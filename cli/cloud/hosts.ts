/**
 * The command that prints how the names of machines lead to this control plane: published programs dial nothing else.
 */

import { isIP } from "node:net";
import { notedAddress } from "../../lib/cloud/addresses/addresses.ts";
import { type Part, Parts } from "../../lib/cloud/tenants/parts.ts";
import { notedDomain, partNames } from "../../lib/cloud/tenants/hosts.ts";
import { chosenOrganization, type CloudCommand, cloudCommand, ORG } from "./command_context.ts";
import { UsageError } from "../flags.ts";

/** The port that published programs dial behind a name. */
const PUBLISHED_PORT = "443";

export const HOSTS_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "hosts",
    [],
    "Prints the lines for /etc/hosts or DNS by which published programs find the machines.",
    [ORG, {
      name: "address",
      type: "string",
      default: "",
      value: "IP",
      help: "The IP address of svc-cloud as these programs reach it; by default the one that serve last had.",
    }],
    async ({ store, print }, _, { org, address }) => {
      const { id } = await chosenOrganization(store, org);
      const url = await notedAddress(store);
      const parts = await new Parts(store).ofOrganization(id);
      const found = {
        address: addressOf(address, url),
        domain: await notedDomain(store),
        port: portOf(url),
      };
      const names = parts.map((part) => partNames(part, found.domain).fqdn);
      print({ ...found, names }, linesOf(found, names, parts));
    },
  ),
];

function addressOf(given: string, url: string | undefined): string {
  const host = given || (url === undefined ? "localhost" : new URL(url).hostname.replace(/^\[|\]$/g, ""));
  const address = host === "localhost" ? "127.0.0.1" : host;
  if (isIP(address) !== 0) return address;
  throw new UsageError(`--address: wanted the IP address of svc-cloud, found "${host}"`);
}

function portOf(url: string | undefined): string {
  if (url === undefined) return "8090";
  const { port, protocol } = new URL(url);
  return port || (protocol === "https:" ? PUBLISHED_PORT : "80");
}

function linesOf(
  { address, domain, port }: { readonly address: string; readonly domain: string; readonly port: string },
  names: readonly string[],
  parts: readonly Pick<Part, "locationId">[],
): string[] {
  const type = isIP(address) === 6 ? "AAAA" : "A";
  const locations = [...new Set(parts.map(({ locationId }) => locationId))];
  return [
    "# /etc/hosts on each computer whose programs dial machines by name:",
    ...names.map((name) => `${address} ${name}`),
    "",
    "# or, for all machines, one line for dnsmasq:",
    `#   address=/${domain}/${address}`,
    "# or a wildcard record in your DNS for each location:",
    ...locations.map((id) => `#   *.${id}.${domain}. ${type} ${address}`),
    ...(port === PUBLISHED_PORT ? [] : [
      "",
      `# Published programs dial port ${PUBLISHED_PORT}, and svc-cloud serves on ${port}: start it with`,
      `# --listen 0.0.0.0:${PUBLISHED_PORT}, or forward the port (docs/clients.md).`,
    ]),
  ];
}
