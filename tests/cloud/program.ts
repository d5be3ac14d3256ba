/**
 * `svc-cloud` for tests that use it as a user would: its commands, and serving in a process of its own.
 */

import { main } from "../../cli/cloud/main.ts";
import { CLOUD_V8_FLAGS } from "../../cli/v8_flags.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { assertFaultless } from "../support/server.ts";

/** The source of svc-cloud. */
export const PROGRAM = new URL("../../cli/cloud/main.ts", import.meta.url).pathname;
const FROM_SOURCE = [Deno.execPath(), "run", "-A", CLOUD_V8_FLAGS, PROGRAM];

export interface CloudProcess {
  readonly url: string;
  readonly pid: number;
  /** Its output so far. */
  output(): string;
  /** Asks it to end, or kills it; gives its exit code. */
  stop(signal?: Deno.Signal): Promise<number>;
}

/** What `svc-cloud init --json` prints. */
export interface Example {
  readonly organizationId: string;
  readonly locationId: string;
  readonly machineId: string;
  readonly partId: string;
  readonly ownerKey: { readonly id: string; readonly key: string };
  readonly config: { readonly cloud: { readonly api_key: { readonly id: string; readonly key: string } } };
}

/** Runs a command in this process; returns its output. If the command fails, throws with its message. */
export async function svcCloud(...args: string[]): Promise<string> {
  return (await svcCloudPrinted(...args)).output;
}

/** The same, with its remarks on standard error. */
export async function svcCloudPrinted(...args: string[]): Promise<{ output: string; remarks: string }> {
  const host = new DenoHost();
  let [written, complaints] = ["", ""];
  host.write = (text) => void (written += text);
  host.writeError = (text) => void (complaints += text);
  host.env = (name) => name === "USER" ? "tester" : Deno.env.get(name);
  const code = await main(args, host);
  if (code !== 0) throw new Error(`svc-cloud ${args.join(" ")}: ${code}: ${complaints}`);
  return { output: written, remarks: complaints };
}

interface ServingOptions {
  /** The address; by default a free port of this computer. */
  readonly listen?: string;
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  /** The program; by default from source. */
  readonly command?: readonly string[];
  /** Gets the output so far whenever there is more. */
  readonly heard?: (text: string) => void;
}

/** Starts svc-cloud serving; resolves when it does. */
export async function serveCloud(
  flags: readonly string[],
  { listen = "127.0.0.1:0", command = FROM_SOURCE, heard = () => {}, ...place }: ServingOptions = {},
): Promise<CloudProcess> {
  const [program = "", ...before] = command;
  const child = new Deno.Command(program, {
    args: [...before, "serve", "--listen", listen, ...flags],
    ...place,
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let text = "";
  const serving = Promise.withResolvers<string>();
  const reading = (async () => {
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      heard(text);
      const [, url] = /serving\t\{"url":"([^"]+)"/.exec(text) ?? [];
      if (url) serving.resolve(url);
    }
    serving.reject(new Error(`svc-cloud ended:\n${text}`));
  })();
  serving.promise.catch(() => {});
  const stop = async (signal: Deno.Signal = "SIGTERM") => {
    try {
      child.kill(signal);
    } catch {
      // It has ended already.
    }
    const { code } = await child.status;
    await reading;
    assertFaultless(text);
    return code;
  };
  try {
    return { url: await serving.promise, pid: child.pid, output: () => text, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
