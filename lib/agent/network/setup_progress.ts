/** Where the setup of the device stands: the state of its decisions, and what a user has submitted. */

import type { ProvisioningSubmission } from "../portal/submissions.ts";
import {
  decide,
  type Decision,
  firstState,
  type Observed,
  type ProvisioningRules,
  type ProvisioningState,
} from "./decision.ts";

export class SetupProgress {
  #state: ProvisioningState | undefined;
  #submitted: ProvisioningSubmission | undefined;
  #isTrying = false;

  /** Whether a submission waits or is being tried. */
  get isTrying(): boolean {
    return this.#isTrying;
  }

  submit(submitted: ProvisioningSubmission): void {
    this.#submitted = submitted;
    this.#isTrying = true;
  }

  /** The submission to try now, if there is one. */
  take(): ProvisioningSubmission | undefined {
    const submitted = this.#submitted;
    this.#submitted = undefined;
    return submitted;
  }

  /** The pass that has taken a submission ends; another submission may have come meanwhile. */
  endPass(): void {
    this.#isTrying = this.#submitted !== undefined;
  }

  /** Begins with the state of a device that knows networks or not, unless that was done before. */
  begin(nowMs: number, knowsNetworks: boolean, rules: ProvisioningRules): ProvisioningState {
    return this.#state ??= firstState(nowMs, knowsNetworks, rules);
  }

  /** Decides what to do. The caller takes the steps and reports with `took`; without that, they are retried. */
  decide(observed: Observed, rules: ProvisioningRules): Decision {
    const state = this.begin(observed.nowMs, observed.networks.length > 0, rules);
    return decide(state, observed, rules);
  }

  /** The hotspot went down by itself: whether it opens again is decided at once, as if it had not been open. */
  loseHotspot(): void {
    if (this.#state?.mode !== "hotspot") return;
    this.#state = { ...this.#state, mode: "normal", sinceMs: this.#state.connectedMs };
  }

  took({ state }: Decision): void {
    this.#state = state;
  }
}
