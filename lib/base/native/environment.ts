/**
 * The environment of this process, for code that has no host: proxies and authorities are settings of the whole
 * process, as in other programs. The library for modules reads them in Node, too.
 */

import { homedir, userInfo } from "node:os";
import process from "node:process";
import type { Environment } from "../host.ts";

/** The value of an environment variable; `undefined` if it is unset. */
export function processEnv(name: string): string | undefined {
  return process.env[name];
}

/** Sets a variable for this process and the processes that it starts. */
export function setProcessEnv(name: string, value: string): void {
  process.env[name] = value;
}

/** The user as whom the program runs: the variable's name, else the account's, else `uid 1000`. */
export function userName(host: Environment): string {
  const named = host.env("USER") || host.env("USERNAME");
  if (named) return named;
  try {
    // Services and containers have no variable.
    return userInfo().username;
  } catch {
    // Neither has every user of a container an account.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}

/** The home folder of the user's account: a service or a container may have no variable for it. */
export function accountHome(): string | undefined {
  try {
    return homedir();
  } catch {
    return undefined;
  }
}

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
