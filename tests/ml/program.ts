/**
 * `svc-ml` for tests: run in this process, with a terminal that remembers and a clock that does not let it wait.
 */

import { main } from "../../cli/ml/main.ts";
import type { MlProgramContext } from "../../cli/ml/command_context.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { type FakeCloud, KEY, ORGANIZATION } from "./fake_cloud.ts";

export interface Outcome {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly terminal?: boolean;
  /** The width of the terminal that shows standard output, which then has colours unless NO_COLOR is set. */
  readonly columns?: number;
  /** The person's answers, one after the other. */
  readonly answers?: string[];
  /** The first line of standard input, if that is no terminal. */
  readonly input?: string;
  /** Gets what Ctrl-C does. */
  readonly onTermination?: (interrupt: () => void) => void;
  readonly clock?: EagerClock;
}

/** Sleeps are over at once, and remembered. */
export class EagerClock extends SystemClock {
  readonly slept: number[] = [];

  override async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.slept.push(ms);
    await super.sleep(0, signal);
  }
}

/** The environment of a user of the fake. */
export function envOf(cloud: FakeCloud): Record<string, string> {
  return {
    SVC_BASE_URL: cloud.url,
    SVC_API_KEY_ID: KEY.id,
    SVC_API_KEY: KEY.key,
    SVC_ORG_ID: ORGANIZATION.id,
    SVC_HOME: "/nowhere",
  };
}

export async function svcMl(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  const { env = {}, terminal = false, answers = [], onTermination = () => {}, clock = new EagerClock() } =
    options;
  const host = new DenoHost();
  let [output, errors] = ["", ""];
  host.write = (text) => void (output += text);
  host.writeError = (text) => void (errors += text);
  host.draw = (text) => void (errors += text);
  host.show = (text) => void (output += text);
  host.columns = () => options.columns;
  host.coloured = () => options.columns !== undefined && !env.NO_COLOR;
  host.env = (name) => env[name];
  host.onTermination = (run) => {
    onTermination(() => run("SIGINT"));
    return () => {};
  };
  const world: Partial<MlProgramContext> = {
    clock,
    terminal: { input: terminal, output: terminal, errors: terminal },
    columns: () => 100,
    firstLine: () => Promise.resolve(options.input),
    ask: (question) => {
      errors += question;
      return answers.shift();
    },
  };
  const code = await main(args, host, world);
  return { code, output, errors };
}
