/**
 * The environment of this process, for code that has no host: proxies and authorities are settings of the whole
 * process, as in other programs. The library for modules reads them in Node, too.
 *
 * And the modules of Node.js that few runs of a program need. The runtime loads each at its first use, because to import
 * them costs every start milliseconds and megabytes: with Deno 2.9.6 `node:fs` 5 ms and 2 MB, `node:http` 2 ms and 1 MB.
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

/** The files of the system as Node.js sees them. */
export function nodeFs(): typeof import("node:fs") {
  return process.getBuiltinModule("node:fs");
}

/** HTTP/1.1. */
export function nodeHttp(): typeof import("node:http") {
  return process.getBuiltinModule("node:http");
}
