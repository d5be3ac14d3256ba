/**
 * Limits the addresses that requests on behalf of others may reach: public ones, and those that the operator allows.
 *
 * Without this rule, anybody who may write a URL into a configuration could reach the network of the server: its own
 * ports, its neighbours behind the firewall, and the metadata service that gives cloud computers their credentials.
 */

import { isIP } from "node:net";
import { SvcError } from "../../base/error.ts";
import { AddressBlocks, unmapped } from "../../base/address/blocks.ts";

/** IPv4: the special-purpose addresses of IANA's registry, and the metadata service that Azure has at a public one. */
const SPECIAL_V4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
];

/** IPv6: global addresses are these, without tunnels that lead to IPv4 addresses, and without examples. */
const GLOBAL_V6 = ["2000::/3"];
const SPECIAL_V6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];

/** A host name that the operator allows, whatever its address. */
const NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/;

export class PublicAddresses {
  readonly #special: AddressBlocks;
  readonly #globalV6 = new AddressBlocks(GLOBAL_V6);
  readonly #allowed: AddressBlocks;
  readonly #names: ReadonlySet<string>;

  /** `allowed`: addresses and networks, and names of hosts. Throws `invalid_argument`. */
  constructor(allowed: readonly string[] = []) {
    const isName = (one: string) => NAME.test(one.toLowerCase()) && isIP(one) === 0;
    this.#special = new AddressBlocks([...SPECIAL_V4, ...SPECIAL_V6]);
    this.#names = new Set(allowed.filter(isName).map((one) => one.toLowerCase()));
    this.#allowed = new AddressBlocks(allowed.filter((one) => !isName(one)));
  }

  /** Chooses the address to connect to. Throws `permission_denied` if any address of the host is not allowed. */
  choose(host: string, addresses: readonly string[]): string {
    const [first] = addresses;
    if (first === undefined) throw new SvcError("unavailable", `the name "${host}" has no address`);
    if (this.#names.has(host.toLowerCase())) return first;
    const inside = addresses.find((one) => !this.#isReachable(one));
    if (inside === undefined) return first;
    const named = inside === host ? host : `"${host}" is ${inside}, and that`;
    throw new SvcError(
      "permission_denied",
      `${named} is no public address: whoever runs this control plane allows it with svc-cloud serve --trigger-allow`,
    );
  }

  #isReachable(address: string): boolean {
    const plain = unmapped(address);
    if (this.#allowed.has(plain)) return true;
    const version = isIP(plain);
    if (version === 0 || this.#special.has(plain)) return false;
    return version === 4 || this.#globalV6.has(plain);
  }
}
