/**
 * Pages for the supervisor of a control plane: `/healthz`, whether the program answers, and `/readyz`, whether it can
 * serve: its database answers and its disk has room.
 *
 * They say nothing about tenants and need no key. An answer of `/readyz` is kept for a second, so that callers cannot
 * keep the database busy.
 */

import { type Clock, deadline, race } from "../base/clock.ts";
import { messageOf, SvcError } from "../base/error.ts";
import type { Logger } from "../base/log/log.ts";
import { textAnswer } from "../wire/port/routes.ts";
import type { CloudContext } from "./access/context.ts";
import type { Route } from "../wire/port/route.ts";

const READY_MS = 3_000;
const KEPT_MS = 1_000;

type Parts = Pick<CloudContext, "store" | "files"> & { readonly clock: Clock; readonly logger: Logger };

export function healthPages(parts: Parts): ReadonlyMap<string, Route> {
  let kept: { readonly untilMs: number; readonly troubles: Promise<readonly string[]> } | undefined;
  const troubles = () => {
    const nowMs = parts.clock.monotonicMs();
    if (!kept || nowMs >= kept.untilMs) kept = { untilMs: nowMs + KEPT_MS, troubles: findTroubles(parts) };
    return kept.troubles;
  };
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

/** The reasons why it cannot serve; details go to the log. */
async function findTroubles({ store, files, clock, logger }: Parts): Promise<readonly string[]> {
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
  ]);
  return troubles;
}
