/**
 * One run of a module's program, from its start to its end.
 *
 * Owns the process with all its children, and the channel to it. `start` ends within its time limit. Any end of the run
 * ends the channel's calls and every process of its group.
 */

import { ModuleService, type ReadyResponse } from "../../../proto/gen/module_pb.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { LoopbackPeers } from "../../base/host.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, isRetryable, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import {
  endProcess,
  type Exit,
  type ProcessCommand,
  type RunningProcess,
  type SpawnHost,
} from "../../base/process.ts";
import { formatDuration } from "../../base/schema/schema.ts";
import { parseApi, parseModel } from "../../resource/name.ts";
import { type Channel, client, type ServiceClient } from "../../wire/rpc/channel.ts";
import { connectGrpc } from "../../wire/grpc/grpc_channel.ts";
import { ModuleOutput } from "./output.ts";
import type { ModuleLimits } from "./limits.ts";

/** Interval of the checks for the process's socket. */
const LOOK_MS = 50;
const READY_TIMEOUT_MS = 3_000;
const READY_PAUSE_MS = 200;
/** Limit of a module's APIs; further ones are ignored. */
const HANDLERS_MAX = 200;
const MODELS_MAX = 1_000;

/** A model that the module claims to have. */
export interface OfferedModel {
  readonly api: string;
  readonly model: string;
}

export interface ModuleProcessParts {
  readonly name: string;
  readonly command: ProcessCommand;
  /** The address at which the module serves: the path of a socket, or `127.0.0.1:port`. */
  readonly address: string;
  /** The machine's address for the module. */
  readonly parentAddress: string;
  readonly limits: Pick<ModuleLimits, "startTimeoutMs" | "stopMs">;
  readonly host: SpawnHost & ReadFiles & Pick<WriteFiles, "remove"> & LoopbackPeers;
  readonly clock: Clock;
  /** `rdk.modmanager.<name>` */
  readonly logger: Logger;
}

export class ModuleProcess {
  readonly rpc: ServiceClient<typeof ModuleService>;
  /** The service of each API that the module has models of. */
  readonly services = new Map<string, string>();
  readonly models: OfferedModel[] = [];
  /** Aborts, with the reason, when the process has ended. */
  readonly ended: AbortSignal;
  readonly #process: RunningProcess;
  readonly #ended = new AbortController();
  readonly #output: ModuleOutput;
  readonly #over = Promise.withResolvers<void>();
  #exit: Exit | undefined;
  #stopping: Promise<unknown> | undefined;

  private constructor(private readonly parts: ModuleProcessParts, readonly channel: Channel) {
    const { host, command, logger, clock } = parts;
    this.#process = host.spawn(command);
    this.#output = new ModuleOutput(this.#process, logger, clock);
    this.rpc = client(ModuleService, channel);
    this.ended = this.#ended.signal;
    void this.#process.exited.then((exit) => this.#end(exit));
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Resolves when the module is ready; a failed start leaves nothing behind. */
  static async start(parts: ModuleProcessParts, signal: AbortSignal): Promise<ModuleProcess> {
    const { name, clock, limits: { startTimeoutMs }, address } = parts;
    const limit = formatDuration(startTimeoutMs);
    const late = () => new SvcError("deadline_exceeded", `module "${name}" was not ready within ${limit}`);
    const { signal: over, done } = deadline(clock, startTimeoutMs, late, signal);
    const started = new ModuleProcess(
      parts,
      isSocket(address)
        ? connectGrpc(`unix:${address}`, { clock })
        : connectGrpc(address, { clock, admit: (ends) => parts.host.checkLoopback(ends) }),
    );
    const either = AbortSignal.any([over, started.ended]);
    try {
      if (isSocket(address)) await started.#socket(either);
      await started.#ready(either);
      return started;
    } catch (error) {
      const reason = either.aborted ? either.reason : error;
      await started.stop();
      throw reason;
    } finally {
      done();
    }
  }

  /** Ends the process: asks first, then kills. Idempotent. */
  async stop(): Promise<void> {
    this.#stopping ??= this.#exit
      ? Promise.resolve()
      : endProcess(this.#process, this.parts.clock, this.parts.limits.stopMs);
    await this.#stopping;
    await this.#over.promise;
  }

  async #end(exit: Exit): Promise<void> {
    const { name, host, address } = this.parts;
    this.#exit = exit;
    await this.#output.drained();
    const last = this.#output.lastError;
    const printed = last === undefined || this.#stopping ? "" : `: ${last}`;
    const reason = new SvcError("unavailable", `module "${name}" ended, ${describe(exit)}${printed}`);
    this.#ended.abort(reason);
    this.channel.close(reason);
    if (isSocket(address)) await host.remove(address).catch(() => {});
    this.#over.resolve();
  }

  async #socket(signal: AbortSignal): Promise<void> {
    const { host, address, clock } = this.parts;
    while (!await host.stat(address)) await clock.sleep(LOOK_MS, signal);
  }

  async #ready(signal: AbortSignal): Promise<void> {
    const { parentAddress, clock } = this.parts;
    const request = { parentAddress, rawParentAddress: parentAddress };
    for (;;) {
      try {
        const answer = await race(this.rpc.ready(request, { timeoutMs: READY_TIMEOUT_MS, signal }), signal);
        if (answer.ready) return this.#learn(answer);
      } catch (error) {
        signal.throwIfAborted();
        if (!isRetryable(error, "canceled")) throw error;
      }
      await clock.sleep(READY_PAUSE_MS, signal);
    }
  }

  /** Takes the module's models; logs and ignores malformed ones. */
  #learn({ handlermap }: ReadyResponse): void {
    const { logger, name } = this.parts;
    const handlers = handlermap?.handlers ?? [];
    if (handlers.length > HANDLERS_MAX) {
      logger.warn(`only the first ${HANDLERS_MAX} of ${handlers.length} APIs count`);
    }

    for (const { subtype, models } of handlers.slice(0, HANDLERS_MAX)) {
      const { namespace = "", type = "", subtype: last = "" } = subtype?.subtype ?? {};
      const api = `${namespace}:${type}:${last}`;
      try {
        parseApi(api);
        this.services.set(api, subtype?.protoService ?? "");
        for (const model of models.slice(0, MODELS_MAX)) {
          parseModel(model);
          this.models.push({ api, model });
        }
      } catch (error) {
        logger.warn(`module "${name}" offers a malformed model: ${chainOf(error).slice(0, 300)}`);
      }
    }

    if (this.models.length === 0) logger.warn(`module "${name}" offers no models`);
  }
}

function isSocket(address: string): boolean {
  return !address.includes(":");
}

/** The shell's code for a file that the system does not execute. */
const NOT_EXECUTED = 126;

function describe({ code, signal }: Exit): string {
  if (signal !== undefined) return `by ${signal}`;
  return code === NOT_EXECUTED
    ? `exit code ${code} (is it a program for another processor or system, or is its disk mounted with noexec?)`
    : `exit code ${code}`;
}
