/**
 * Watches the event loop of an attacked control plane by its metrics: while it computes, nobody gets an answer.
 *
 * Counts the processor time of svc-cloud's own thread, so that a busy computer is no finding.
 */

import { DELAY_BOUNDS_MS } from "../../../lib/cloud/loop_delay.ts";

export class LoopWatch {
  #known: number | undefined;
  /** The longest delay, the computer's own among them, and the bound of the longest stretch of computing. */
  longestMs = 0;
  busyMs = 0;

  /** `busyMsMax`: the bound of a stretch without a turn for others; one of the classes in the metrics. */
  constructor(
    private readonly url: string,
    private readonly folder: string,
    private readonly busyMsMax: number,
  ) {}

  /** Findings since the last look; `what` happened meanwhile. */
  async look(what: string): Promise<string[]> {
    const key = (await Deno.readTextFile(`${this.folder}/metrics.key`)).trim();
    const answer = await fetch(`${this.url}/metrics`, { headers: { authorization: `Bearer ${key}` } });
    const text = await answer.text();
    const lines = text.split("\n");
    const figure = (rest: string) =>
      Number(
        lines.find((line) => line.startsWith(`svc_cloud_event_loop_${rest} `))?.split(" ").at(-1),
      );
    const all = figure("busy_seconds_count");
    const bound = DELAY_BOUNDS_MS.find((ms) => figure(`busy_seconds_bucket{le="${ms / 1000}"}`) === all);
    this.longestMs = figure("delay_longest_seconds") * 1000;
    this.busyMs = bound ?? Infinity;
    const long = all - figure(`busy_seconds_bucket{le="${this.busyMsMax / 1000}"}`);
    if (Number.isNaN(long)) throw new Error(`found no figures of the event loop in\n${text}`);
    const news = long - (this.#known ?? long);
    this.#known = long;
    if (news === 0) return [];
    return [`${what}: ${news} times nobody got an answer for more than ${this.busyMsMax} ms`];
  }
}
