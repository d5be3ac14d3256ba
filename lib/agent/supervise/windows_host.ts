/**
 * The program of the Windows service: keeps the agent running by the boot rule, as the loader does on Linux.
 *
 * It is a copy of the agent that no update replaces. An agent that ends starts again after the pause that the rule
 * gives. An agent that does not start is replaced by its previous version. When Windows stops the service, the host
 * asks the agent to end, and kills it if it does not. All children of the agent end with it, and everything ends with
 * this process.
 */

import { type Clock, race } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { endsWithin, type RunningProcess, type SpawnHost } from "../../base/process.ts";
import type { Boots } from "./runtime.ts";

/** The protocol with Windows' service control manager. */
export interface ServiceControl {
  /**
   * Runs `work` as the service of this name, until Windows stops the service and the signal aborts. Resolves with the
   * exit code of `work` once Windows knows that the service has stopped. Throws `failed_precondition` if Windows did
   * not start this process as a service.
   */
  run(name: string, work: (signal: AbortSignal) => Promise<number>): Promise<number>;
}

export interface AgentHostParts {
  /** The boot rule of the agent. */
  readonly boots: Pick<Boots, "boot">;
  readonly args: readonly string[];
  readonly processes: SpawnHost;
  /** Asks the agent to end. Throws if no agent answers. */
  readonly ask: () => Promise<void>;
  /** Receives the output of the agent and the runtime, line by line. */
  readonly output: (line: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Interval of checks while there is nothing to start. */
const NOTHING_MS = 5_000;
/** Above the agent's own time limit for the runtime's end. */
const STOP_MS = 150_000;
const KILLED_MS = 10_000;
const ASK_AGAIN_MS = 500;

/** Keeps the agent running until the signal aborts. */
export async function hostAgent(parts: AgentHostParts, signal: AbortSignal): Promise<void> {
  const { boots, clock, logger } = parts;
  while (!signal.aborted) {
    const boot = await boots.boot().catch((error) => {
      logger.error(`cannot decide which svc-agent to start: ${chainOf(error)}`);
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

/** Runs one agent from its start to its end. */
async function runAgent(command: string, parts: AgentHostParts, signal: AbortSignal): Promise<void> {
  const { args, processes, logger, output } = parts;
  // On Windows an agent cannot take over the runtime of an earlier one, and a remaining runtime would block the next.
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

/** Repeats the request until the agent answers: an agent that has just started does not listen yet. */
async function askAgent({ ask, clock, logger }: AgentHostParts, ended: AbortSignal): Promise<void> {
  for (let reported = false; !ended.aborted;) {
    try {
      return await ask();
    } catch (error) {
      if (!reported) logger.warn(`svc-agent cannot be asked to end: ${chainOf(error)}`);
      reported = true;
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
