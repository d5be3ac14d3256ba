/**
 * Sets of IP addresses, written as addresses (`127.0.0.1`) and networks (`10.0.0.0/8`, `fd00::/8`).
 *
 * The room owns what the text of an IP address tells: the networks that it belongs to, and how far it is good.
 */

import { BlockList, isIP } from "node:net";
import { SvcError } from "../error.ts";

export class AddressBlocks {
  readonly #blocks = new BlockList();

  /** Throws `invalid_argument` for anything else. */
  constructor(written: readonly string[]) {
    for (const one of written) this.#add(one);
  }

  has(address: string | undefined): boolean {
    const plain = unmapped(address ?? "");
    const version = isIP(plain);
    return version !== 0 && this.#blocks.check(plain, version === 6 ? "ipv6" : "ipv4");
  }

  #add(written: string): void {
    const [address = "", prefix, ...more] = written.split("/");
    const version = isIP(address);
    const bits = version === 6 ? 128 : 32;
    const wanted = "an address such as 127.0.0.1, or a network such as 10.0.0.0/8";
    const isPrefix = prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits);
    if (version === 0 || !isPrefix || more.length > 0) {
      throw new SvcError("invalid_argument", `found "${written}", wanted ${wanted}`);
    }
    this.#blocks.addSubnet(
      address,
      prefix === undefined ? bits : Number(prefix),
      version === 6 ? "ipv6" : "ipv4",
    );
  }
}

/** An IPv4 address in its own form, if it is written as an IPv6 address. */
export function unmapped(address: string): string {
  return address.trim().replace(/^::ffff:(?=\d+\.)/i, "");
}
