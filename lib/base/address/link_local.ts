/** IPv6 addresses that are good on one network only, so that they need the name of an interface (`fe80::1%eth0`). */

/** Whether an address belongs to `fe80::/10`, whose first group has all its four digits. */
export function isLinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address);
}
