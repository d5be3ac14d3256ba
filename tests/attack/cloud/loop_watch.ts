/**
 * Watches the event loop of an attacked control plane by its metrics: while it computes, nobody gets an answer.
 *
 * Counts the time in which svc-cloud itself computed, so that a busy computer is no finding.
 */

/** The bound of a stretch without a turn for others; one of the classes in the metrics. */
const BUSY_SECONDS_MAX = 0.2;

export class LoopWatch {
  #known: number | undefined;

  constructor(private readonly url: string, private readonly folder: string) {}

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
    const long = figure("count") - figure(`bucket{le="${BUSY_SECONDS_MAX}"}`);
    if (Number.isNaN(long)) throw new Error(`found no figures of the event loop in\n${text}`);
    const news = long - (this.#known ?? long);
    this.#known = long;
    if (news === 0) return [];
    return [`${what}: ${news} times nobody got an answer for more than ${BUSY_SECONDS_MAX * 1000} ms`];
  }
}
