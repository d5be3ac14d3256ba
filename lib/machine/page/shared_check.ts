/** One check of the network at a time, whose findings all callers of about the same time share. */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import {
  checkNetwork,
  conclusions,
  type Finding,
  type NetworkCheckParts,
} from "../diagnostics/network_check.ts";

/** A check asks other people's servers, so callers within this time get the same findings. */
const FRESH_MS = 10_000;

export interface SharedFindings {
  readonly findings: readonly Finding[];
  readonly conclusions: readonly string[];
  readonly checkedMs: number;
}

export class SharedCheck {
  readonly #closing = new AbortController();
  #running: Promise<SharedFindings> | undefined;
  #last: { readonly findings: SharedFindings; readonly endedMs: number } | undefined;

  /** Without a network there is nothing to check. */
  constructor(
    private readonly clock: Clock,
    private readonly parts: Pick<NetworkCheckParts, "network" | "appAddress"> | undefined,
  ) {}

  async findings(): Promise<SharedFindings> {
    if (!this.parts) throw new SvcError("unimplemented", "this program checks no network");
    const last = this.#last;
    if (last && this.clock.monotonicMs() - last.endedMs < FRESH_MS) return last.findings;
    this.#running ??= this.#check(this.parts).finally(() => this.#running = undefined);
    return await this.#running;
  }

  /** Ends a check under way. */
  async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the program ends"));
    await this.#running?.catch(() => {});
  }

  async #check(parts: Pick<NetworkCheckParts, "network" | "appAddress">): Promise<SharedFindings> {
    const { clock } = this;
    const findings = await checkNetwork({ ...parts, clock, signal: this.#closing.signal });
    const shared = { findings, conclusions: conclusions(findings), checkedMs: clock.nowMs() };
    this.#last = { findings: shared, endedMs: clock.monotonicMs() };
    return shared;
  }
}
