/**
 * What runs as the service of Windows: keeps the agent running, by the boot rule, as the loader does elsewhere.
 *
 * It is a copy of the agent that no update replaces. Promises: an agent that ends is started again, after the pause
 * that the rule says; one that does not start is given up for the version before it; when the service is told to stop
 * the agent is asked to end, and ended where it does not.
 */

import { type Clock, race } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { endsWithin, type RunningProcess, type SpawnHost } from "../../base/process.ts";
import type { Commands } from "./commands.ts";
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
  readonly commands: Commands;
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
  const agent = processes.spawn({ command, args });
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
  } finally {
    await endRuntimes(parts);
  }
}

async function follow(lines: AsyncIterable<string>, output: (line: string) => void): Promise<void> {
  for await (const line of lines) output(line);
}

async function endAgent(agent: RunningProcess, { ask, clock, logger }: AgentHostParts): Promise<void> {
  await ask().catch((error) => logger.warn(`svc-agent cannot be asked to end: ${chainOf(error)}`));
  if (await endsWithin(agent.exited, clock, STOP_MS)) return;
  logger.warn(`svc-agent did not end within ${STOP_MS / 1000} s and is killed`, { pid: agent.pid });
  agent.signal("SIGKILL");
  if (!await endsWithin(agent.exited, clock, KILLED_MS)) logger.error("svc-agent cannot be killed");
}

/** Here nobody takes over a runtime that an agent has left behind; it would be in the next one's way. */
async function endRuntimes({ commands, logger }: AgentHostParts): Promise<void> {
  await commands.try("taskkill.exe", ["/F", "/T", "/FI", "IMAGENAME eq svc-server-*"])
    .catch((error) => logger.warn(chainOf(error)));
}
