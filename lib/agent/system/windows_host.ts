/**
 * What runs as the service of Windows: keeps the agent running, by the boot rule, as the loader does elsewhere.
 *
 * It is a copy of the agent that no update replaces. Promises: an agent that ends is started again, after the pause
 * that the rule says; one that does not start is given up for the version before it; when the service is told to stop
 * the agent is asked to end, and ended where it does not; what an agent has started ends with it, and everything with
 * this process.
 */

import { type Clock, race } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { endsWithin, type RunningProcess, type SpawnHost } from "../../base/process.ts";
import type { Boots } from "../supervise/runtime.ts";

/** What Windows' service control manager wants to be told, and says. */
export interface ServiceControl {
  /**
   * Works as the service of this name: `work` runs until its signal aborts, which is when the service is to stop.
   * Resolves with the exit code of `work` when Windows knows that the service has stopped. Throws
   * `failed_precondition` where Windows has not started this process as a service.
   */
  run(name: string, work: (signal: AbortSignal) => Promise<number>): Promise<number>;
}

export interface AgentHostParts {
  /** The boot rule of the agent. */
  readonly boots: Pick<Boots, "boot">;
  readonly args: readonly string[];
  readonly processes: SpawnHost;
  /** Asks the agent to end. Throws where none answers. */
  readonly ask: () => Promise<void>;
  /** Takes what the agent writes, line by line, and what the runtime does. */
  readonly output: (line: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Nothing can be started; it is looked again after this. */
const NOTHING_MS = 5_000;
/** Above the agent's own limit for the end of the runtime. */
const STOP_MS = 150_000;
const KILLED_MS = 10_000;
const ASK_AGAIN_MS = 500;

/** Keeps the agent running until the signal aborts. */
export async function hostAgent(parts: AgentHostParts, signal: AbortSignal): Promise<void> {
  const { boots, clock, logger } = parts;
  while (!signal.aborted) {
    const boot = await boots.boot().catch((error) => {
      logger.error(`cannot tell which svc-agent to start: ${chainOf(error)}`);
    });
    const delayMs = boot ? boot.delayMs : NOTHING_MS;
    if (!boot) logger.error("there is no svc-agent that can be run: install it again");
    if (delayMs > 0) await clock.sleep(delayMs, signal).catch(() => {});
    if (!boot || signal.aborted) continue;
    try {
      await runAgent(boot.path, parts, signal);
    } catch (error) {
      logger.error(`svc-agent cannot be started: ${chainOf(error)}`, { path: boot.path });
    }
  }
}

/** One agent, from its start to its end. */
async function runAgent(command: string, parts: AgentHostParts, signal: AbortSignal): Promise<void> {
  const { args, processes, logger, output } = parts;
  // Here nobody takes over a runtime that an agent has left behind; it would be in the next one's way.
  const agent = processes.spawn({ command, args, leash: true });
  for (const stream of [agent.stdout, agent.stderr]) {
    void follow(stream, output).catch((error) => logger.warn(chainOf(error)));
  }
  logger.info("svc-agent is started", { pid: agent.pid, path: command });
  try {
    const { code } = await race(agent.exited, signal);
    logger.info(`svc-agent ended with exit code ${code}`);
  } catch (error) {
    if (!signal.aborted) throw error;
    await endAgent(agent, parts);
  }
}

async function follow(lines: AsyncIterable<string>, output: (line: string) => void): Promise<void> {
  for await (const line of lines) output(line);
}

/** Asks until the agent hears it: one that has just started does not listen yet. */
async function askAgent({ ask, clock, logger }: AgentHostParts, ended: AbortSignal): Promise<void> {
  for (let told = false; !ended.aborted;) {
    try {
      return await ask();
    } catch (error) {
      if (!told) logger.warn(`svc-agent cannot be asked to end: ${chainOf(error)}`);
      told = true;
    }
    await clock.sleep(ASK_AGAIN_MS, ended).catch(() => {});
  }
}

async function endAgent(agent: RunningProcess, parts: AgentHostParts): Promise<void> {
  const { clock, logger } = parts;
  const ended = new AbortController();
  void askAgent(parts, ended.signal);
  const inTime = await endsWithin(agent.exited, clock, STOP_MS);
  ended.abort();
  if (inTime) return;
  logger.warn(`svc-agent did not end within ${STOP_MS / 1000} s and is killed`, { pid: agent.pid });
  agent.signal("SIGKILL");
  if (!await endsWithin(agent.exited, clock, KILLED_MS)) logger.error("svc-agent cannot be killed");
}
