/**
 * Watches the event loop of an attacked control plane by its metrics: while it computes, nobody gets an answer.
 *
 * Counts the processor time of svc-cloud's own thread, so that a busy computer is no finding.
 */

export class LoopWatch {
  #known: number | undefined;

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
    const figure = (rest: string) =>
      Number(
        text.split("\n").find((line) => line.startsWith(`svc_cloud_event_loop_busy_seconds_${rest} `))
          ?.split(" ").at(-1),
      );
    const long = figure("count") - figure(`bucket{le="${this.busyMsMax / 1000}"}`);
    if (Number.isNaN(long)) throw new Error(`found no figures of the event loop in\n${text}`);
    const news = long - (this.#known ?? long);
    this.#known = long;
    if (news === 0) return [];
    return [`${what}: ${news} times nobody got an answer for more than ${this.busyMsMax} ms`];
  }
}
