/** IPv6 addresses that are good on one network only, so that they need the name of an interface (`fe80::1%eth0`). */

/** Whether an address belongs to `fe80::/10`, whose first group has all its four digits. */
export function isLinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address);
}

/** An address and the name of its interface, which a URL writes after `%25` (RFC 6874) and everybody else after `%`. */
const ZONED = /^([0-9a-f:.]*:[0-9a-f:.]*)%(?:25)?([\w.-]+)$/i;

/** The parts of an address with an interface; `undefined` for any other host. */
export function zoneOf(host: string): { readonly address: string; readonly zone: string } | undefined {
  const [, address, zone] = ZONED.exec(host) ?? [];
  return address === undefined || zone === undefined ? undefined : { address, zone };
}

/** A host as other computers and certificates name it: without an interface of this computer. */
export function withoutZone(host: string): string {
  return zoneOf(host)?.address ?? host;
}
