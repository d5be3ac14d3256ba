/**
 * The life of a Windows service as its service control manager sees it, independent of the calls to that.
 *
 * It reports start, running, stopping and stopped, in this order and within Windows' time limits. A stop command,
 * or the system's shutdown, aborts the service's work; other commands change nothing.
 */

import { SvcError } from "../../../base/error.ts";

/** States of a service, by Windows' numbers (winsvc.h). */
export const SERVICE_STATES = { stopped: 1, startPending: 2, stopPending: 3, running: 4 } as const;
/** Commands to a service. */
export const CONTROLS = { stop: 1, interrogate: 4, shutdown: 5, preshutdown: 15 } as const;
/** The accepted commands: stop, shutdown, preshutdown. */
const ACCEPTED = 0x1 | 0x4 | 0x100;
/** The service runs in a process of its own. */
const OWN_PROCESS = 0x10;
/** Time limit of a stop, above the agent's own. */
const STOP_MS = 180_000;
const NO_ERROR = 0;
const NOT_IMPLEMENTED = 120;
/** "The service has returned a service-specific error code." */
const SERVICE_SPECIFIC = 1066;

/** A SERVICE_STATUS. */
export type ServiceStatus = readonly [
  type: number,
  state: number,
  accepted: number,
  exitCode: number,
  ownExitCode: number,
  checkPoint: number,
  waitMs: number,
];

export class ServiceLife {
  readonly #stop = new AbortController();
  #reported: ServiceStatus = [OWN_PROCESS, SERVICE_STATES.startPending, 0, 0, 0, 0, 0];

  /** `tell` reports a status to Windows. */
  constructor(private readonly tell: (status: ServiceStatus) => void) {}

  /** Runs `work` until it ends or the service has to stop; returns its exit code. */
  async run(work: (signal: AbortSignal) => Promise<number>): Promise<number> {
    this.#set(SERVICE_STATES.startPending);
    this.#set(SERVICE_STATES.running);
    let code = 1;
    try {
      code = await work(this.#stop.signal);
    } finally {
      this.#set(SERVICE_STATES.stopped, code);
    }
    return code;
  }

  /** Handles a command; returns the answer for Windows. */
  control(command: number): number {
    switch (command) {
      case CONTROLS.interrogate:
        this.tell(this.#reported);
        return NO_ERROR;
      case CONTROLS.stop:
      case CONTROLS.shutdown:
      case CONTROLS.preshutdown:
        if (!this.#stop.signal.aborted) {
          this.#set(SERVICE_STATES.stopPending);
          this.#stop.abort(new SvcError("canceled", "the service was told to stop"));
        }
        return NO_ERROR;
    }
    return NOT_IMPLEMENTED;
  }

  #set(state: number, code = 0): void {
    const accepted = state === SERVICE_STATES.running ? ACCEPTED : 0;
    const waitMs = state === SERVICE_STATES.stopPending ? STOP_MS : 0;
    const checkPoint = state === SERVICE_STATES.stopPending ? 1 : 0;
    this.#reported = [
      OWN_PROCESS,
      state,
      accepted,
      code === 0 ? 0 : SERVICE_SPECIFIC,
      code,
      checkPoint,
      waitMs,
    ];
    this.tell(this.#reported);
  }
}
