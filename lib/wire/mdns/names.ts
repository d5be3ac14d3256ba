/**
 * How machines are called in multicast DNS, as the published runtime and its clients have it.
 *
 * A machine is an instance of `_rpc._tcp.local` under each of its names, and once more with dashes for the dots: the
 * dots of a name divide it into labels, which not every browser expects of an instance. TXT tells what it serves.
 */

export const SERVICE = "_rpc._tcp.local";
/** What lists the kinds of services that there are. */
export const SERVICES = "_services._dns-sd._udp.local";
export const DOMAIN = "local";

const LABEL_BYTES_MAX = 63;
/** What is left of the 255 bytes of a name beside the service. */
const INSTANCE_BYTES_MAX = 220;

/** The names as instances, each once; those that DNS cannot have are left out. */
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
  return lower.endsWith(`.${SERVICE}`) ? lower.slice(0, -SERVICE.length - 1) : undefined;
}
