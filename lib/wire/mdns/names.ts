/**
 * Names of machines in multicast DNS, as the published runtime and its clients use them.
 *
 * A machine is an instance of `_rpc._tcp.local` under each of its names, and again with dashes for the dots: dots
 * divide a name into labels, which not every browser expects of an instance. TXT lists its transports.
 */

export const DNS_SD_SERVICE = "_rpc._tcp.local";
/** The name that lists all service types. */
export const SERVICES = "_services._dns-sd._udp.local";
export const DOMAIN = "local";

const LABEL_BYTES_MAX = 63;
/** The bytes of a name, of 255, that the service leaves. */
const INSTANCE_BYTES_MAX = 220;

/** The names as instances, each once; leaves out names that DNS cannot hold. */
export function instancesOf(names: readonly string[]): string[] {
  const all = names.flatMap((name) => [name, name.replaceAll(".", "-")]).map((name) => name.toLowerCase());
  return [...new Set(all)].filter(isInstance);
}

function isInstance(name: string): boolean {
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  return bytes(name) <= INSTANCE_BYTES_MAX &&
    name.split(".").every((label) => label !== "" && bytes(label) <= LABEL_BYTES_MAX);
}

/** The instance in `rover._rpc._tcp.local`. */
export function instanceIn(name: string): string | undefined {
  const lower = name.toLowerCase().replace(/\.$/, "");
  return lower.endsWith(`.${DNS_SD_SERVICE}`) ? lower.slice(0, -DNS_SD_SERVICE.length - 1) : undefined;
}
