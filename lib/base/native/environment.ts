/**
 * The environment of this process, for code that has no host: proxies and authorities are settings of the whole
 * process, as in other programs. The library for modules reads them in Node, too.
 */

import process from "node:process";

/** The value of an environment variable; `undefined` if it is unset. */
export function processEnv(name: string): string | undefined {
  return process.env[name];
}

/** Sets a variable for this process and the processes that it starts. */
export function setProcessEnv(name: string, value: string): void {
  process.env[name] = value;
}
