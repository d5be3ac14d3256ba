/**
 * Pages for the supervisor of a control plane: `/healthz`, whether the program answers, and `/readyz`, whether it can
 * serve: its database and its object store answer, and its disk has room.
 *
 * They say nothing about tenants and need no key. An answer of `/readyz` is kept for a second, and the object store's
 * for ten, so that callers cannot keep them busy.
 */

import { type Clock, deadline, race } from "../base/clock.ts";
import { messageOf, SvcError } from "../base/error.ts";
import type { Logger } from "../base/log/log.ts";
import { textAnswer } from "../wire/port/routes.ts";
import type { CloudContext } from "./access/context.ts";
import type { Route } from "../wire/port/route.ts";

const READY_MS = 3_000;
const KEPT_MS = 1_000;
/** Some stores take money for each request. */
const REACHED_KEPT_MS = 10_000;

type Parts = Pick<CloudContext, "store" | "files"> & { readonly clock: Clock; readonly logger: Logger };

export function healthPages(parts: Parts): ReadonlyMap<string, Route> {
  const { clock, files } = parts;
  const reach = keptAnswers(clock, REACHED_KEPT_MS, () => files.requireReachable());
  const troubles = keptAnswers(clock, KEPT_MS, () => findTroubles(parts, reach));
  return new Map<string, Route>([
    ["/healthz", ({ method }) => method === "GET" || method === "HEAD" ? textAnswer(200, "ok") : notGet],
    ["/readyz", async ({ method }) => {
      if (method !== "GET" && method !== "HEAD") return notGet;
      const found = await troubles();
      return found.length === 0 ? textAnswer(200, "ok") : textAnswer(503, found.join("\n"));
    }],
  ]);
}

const notGet = textAnswer(405, "wanted GET");

/** Keeps an answer for some time, and never asks again while a question has no answer. */
function keptAnswers<T>(clock: Clock, keptMs: number, ask: () => Promise<T>): () => Promise<T> {
  let kept: { readonly untilMs: number; readonly answer: Promise<T> } | undefined;
  let isAsking = false;
  return () => {
    const nowMs = clock.monotonicMs();
    if (kept && (isAsking || nowMs < kept.untilMs)) return kept.answer;
    isAsking = true;
    const answer = ask().finally(() => isAsking = false);
    kept = { untilMs: nowMs + keptMs, answer };
    return answer;
  };
}

/** The reasons why it cannot serve; details go to the log. */
async function findTroubles(
  { store, files, clock, logger }: Parts,
  reach: () => Promise<void>,
): Promise<readonly string[]> {
  const troubles: string[] = [];
  const check = async (what: string, work: () => Promise<boolean>, unknown = what) => {
    const late = () => new SvcError("deadline_exceeded", `no answer within ${READY_MS / 1000} s`);
    const { signal, done } = deadline(clock, READY_MS, late);
    try {
      if (!await race(work(), signal)) troubles.push(what);
    } catch (error) {
      logger.warn(`not ready: ${unknown}: ${messageOf(error)}`);
      troubles.push(unknown);
    } finally {
      done();
    }
  };
  await Promise.all([
    check("the database does not answer", async () => (await store.query("SELECT 1 AS one")).length === 1),
    check("the disk is full", async () => {
      const disk = await files.diskState();
      return !disk || disk.freeBytes > disk.reserveBytes;
    }, "the folder of the files cannot be read"),
    check("the object store cannot be used", () => reach().then(() => true)),
  ]);
  return troubles;
}
