/** The proxy variables that a program sets for itself. It needs nothing of the runtime: modules in Node have it, too. */

import type { Environment } from "./host.ts";

/**
 * `ALL_PROXY` for a program whose environment has only `SOCKS_PROXY`; `undefined` otherwise. Modules do not get it:
 * some libraries refuse to work with it.
 */
export function allProxyOf(env: Environment["env"]): string | undefined {
  const socks = env("SOCKS_PROXY") || env("socks_proxy");
  if (!socks) return undefined;
  const all = `socks5h://${socks.replace(/^\w+:\/\//, "")}`;
  const given = env("ALL_PROXY") || env("all_proxy");
  return !given || given === all ? all : undefined;
}
