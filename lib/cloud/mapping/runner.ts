/**
 * Works on mapping sessions: follows the captured data, builds the map from it, and publishes the map as a package.
 *
 * Any number of runners may share a database: one of them works on a session and repeatedly reports that it is alive.
 * When it stops doing so, another one rebuilds the map from the beginning of the data; the same data gives the same
 * map.
 *
 * Few sessions run at once. If others wait, one of the organization with the most running sessions gives way, or one
 * that has been up to date for a while; it waits for its next turn.
 */

import { onePiece } from "../../base/files/byte_reader.ts";
import { JOB_LEASE_MS, JobRunner } from "../../base/async/job_runner.ts";
import { type PoolHolder, SharedPool } from "../../base/async/shared_pool.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import { type ArchiveFile, packed } from "../../base/files/archive.ts";
import type { Logger } from "../../base/log/log.ts";
import { mapperOptions } from "../../../drivers/slam/mapper/settings.ts";
import type { ImuReading, OdometryReading } from "../../slam/mapping.ts";
import type { Pose2d } from "../../slam/pose2d.ts";
import type { Usage } from "../access/usage.ts";
import { keepPackage } from "../packages/package_content.ts";
import { Packages } from "../packages/packages.ts";
import type { ContentOptions } from "../sandbox/content/process.ts";
import { MAP_FILE } from "./map_requests.ts";
import { keepFile, releaseFile } from "../store/file_refs.ts";
import type { FileStore } from "../store/files.ts";
import type { Store } from "../store/store.ts";
import { CapturedData, type MapInput } from "./captured.ts";
import { MapProcess } from "./map_process.ts";
import { type MappingSession, MappingSessions, type SessionEnd } from "./sessions.ts";

export interface MappingOptions {
  /** The isolation of the processes that build maps. */
  readonly content: ContentOptions;
}

interface RunnerOptions extends MappingOptions {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly usage: Usage;
}

/** Limits of sessions that one control plane works on at the same time: of all, and of one organization. */
const RUNNING_SHARES = [4, 4];
/** A session that has been up to date for this long gives way to a waiting one. */
const TURN_MS = 10 * 60_000;
/** The time that a session may take to come up to date: more than any recording needs. */
const CATCH_UP_MS_MAX = 2 * 3600 * 1000;
/** Interval of the looks for sessions, new data and requests for pictures. */
const LOOK_MS = 1_000;
/** Time limit of a session, which then publishes its map. */
const SESSION_MS_MAX = 24 * 3600 * 1000;
const KEPT_MS = 90 * 24 * 3600 * 1000;
/** Limit of a scan's file. */
const SCAN_BYTES_MAX = 32 * 1024 ** 2;
/** Limit of a picture's file. */
const PICTURE_BYTES_MAX = 1024 ** 3;
/** Movements that go to the mapper at once. */
const MOVEMENTS_MAX = 1_000;
/** Limit of unusable values that the log of a session names. */
const LOGGED_MAX = 20;
/** How often a session rebuilds its map because data arrived out of order; the last map is published anyway. */
const PASSES_MAX = 4;
const PICTURE_FILE = "map.pcd";

interface SessionTurn {
  readonly over: AbortController;
  readonly place: PoolHolder;
  readonly beganMs: number;
  gaveWay: boolean;
}

export class MappingRunner {
  readonly #jobs: JobRunner<SessionTurn>;
  readonly #places: SharedPool;
  /** Resolved by the next call of `wake`. */
  #woken = Promise.withResolvers<void>();

  constructor(private readonly options: RunnerOptions) {
    const levels = ["this control plane", "one organization"];
    const limits = { shares: RUNNING_SHARES, levels, what: "mapping sessions", idleMs: TURN_MS };
    this.#places = new SharedPool(limits, options.clock);
    this.#jobs = new JobRunner({
      ...options,
      everyMs: LOOK_MS,
      problem: "cannot look after mapping sessions",
      steps: { renew: (untilMs) => this.#renew(untilMs), startNext: () => this.#begin() },
    });
  }

  /** Searches for work at once. */
  wake(): void {
    this.#woken.resolve();
    this.#woken = Promise.withResolvers();
    this.#jobs.wake();
  }

  /** Leaves the sessions to another control plane, or to the next start of this one. */
  async close(): Promise<void> {
    await this.#jobs.close(new SvcError("aborted", "the control plane is being stopped"));
    await this.options.store.transaction((sql) => new MappingSessions(sql).leave(this.#jobs.id));
  }

  /** Forgets sessions that ended long ago. */
  async forgetOld(): Promise<void> {
    const { store, clock } = this.options;
    const beforeMs = clock.nowMs() - KEPT_MS;
    await this.#release(await store.transaction((sql) => new MappingSessions(sql).forget(beforeMs)));
  }

  /** Waits until the next search for work. */
  async #pause(signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const pause = this.options.clock.sleep(LOOK_MS, AbortSignal.any([over.signal, signal])).catch(() => {});
    await Promise.race([pause, this.#woken.promise]);
    over.abort();
    await pause;
  }

  async #renew(untilMs: number): Promise<void> {
    const { store } = this.options;
    const mine = await store.transaction((sql) => new MappingSessions(sql).renew(this.#jobs.id, untilMs));
    for (const [id, { cancel }] of this.#jobs.running) {
      if (!mine.some((one) => one.id === id)) cancel(new SvcError("aborted", "another runner works on it"));
    }
  }

  /** Starts the next session; false if there is none, or no other session gives way to it. */
  async #begin(): Promise<boolean> {
    const { store, clock } = this.options;
    const session = await new MappingSessions(store).waiting([...this.#jobs.running.keys()], clock.nowMs());
    if (!session) return false;
    const { id, organizationId } = session;
    let place: PoolHolder;
    try {
      place = this.#places.take([organizationId], (reason) => {
        turn.gaveWay = true;
        turn.over.abort(reason);
      });
    } catch {
      // It waits for its turn.
      return false;
    }
    const turn: SessionTurn = {
      over: new AbortController(),
      place,
      beganMs: clock.monotonicMs(),
      gaveWay: false,
    };
    try {
      const nowMs = clock.nowMs();
      const isMine = await store.transaction((sql) => {
        return new MappingSessions(sql).take(this.#jobs.id, id, nowMs + JOB_LEASE_MS, nowMs);
      });
      if (isMine) this.#jobs.start(id, turn, (signal) => this.#run(session, turn, signal));
      else place.release();
      return isMine;
    } catch (error) {
      place.release();
      throw error;
    }
  }

  async #run(session: MappingSession, turn: SessionTurn, signal: AbortSignal): Promise<void> {
    const { store, logger } = this.options;
    const { id } = session;
    await this.#work(session, turn, AbortSignal.any([turn.over.signal, signal]));
    turn.place.release();
    if (turn.gaveWay) {
      logger.info(`mapping session ${id} gave way to another one, and waits for its next turn`);
      await store.transaction((sql) => new MappingSessions(sql).leave(this.#jobs.id, id)).catch((error) => {
        logger.warn(`cannot leave mapping session ${id}: ${chainOf(error)}`);
      });
    }
  }

  async #work(session: MappingSession, turn: SessionTurn, signal: AbortSignal): Promise<void> {
    const { logger } = this.options;
    try {
      // Data that arrived too late is in order in the next pass.
      for (let pass = 1; await this.#map(session, turn, signal, pass === PASSES_MAX); pass++);
    } catch (thrown) {
      if (signal.aborted) return;
      const error = SvcError.from(thrown);
      logger.warn(`mapping session ${session.id} has failed: ${chainOf(error)}`);
      await this.#end(session.id, "fail", error.message).catch((error) => {
        logger.warn(`cannot end mapping session ${session.id}: ${chainOf(error)}`);
      });
    }
  }

  /**
   * Makes the map, from the beginning of the data to the end of the session. Publishes it, unless data arrived too
   * late: then it returns true, except with `isFinal`, which ignores such data.
   */
  async #map(
    session: MappingSession,
    turn: SessionTurn,
    signal: AbortSignal,
    isFinal: boolean,
  ): Promise<boolean> {
    const { store, files, content, clock, logger } = this.options;
    const process = await MapProcess.begin(
      content,
      mapperOptions(session.config),
      await existingMap(session, store, files),
      signal,
    );
    const data = new CapturedData(store, files, session);
    const making = new Making(process, files, (why) => logger.warn(`mapping session ${session.id}: ${why}`));
    let isUpToDate = false;
    try {
      for (;;) {
        const now = await new MappingSessions(store).get(session.id);
        const end = await this.#findEnd(now, data);
        for (let next; (next = await data.next(end.untilUs));) {
          signal.throwIfAborted();
          await making.add(next);
          const isCatchingUp = !isUpToDate && clock.monotonicMs() - turn.beganMs < CATCH_UP_MS_MAX;
          if (isCatchingUp) turn.place.used();
          if (clock.monotonicMs() >= making.lookAtMs) {
            making.lookAtMs = clock.monotonicMs() + LOOK_MS;
            await this.#show(session.id, making);
          }
        }
        isUpToDate = true;
        await making.moveOn();
        await this.#show(session.id, making);
        if (end.isOver) {
          if (!isFinal && await data.cameOutOfOrder(end.untilUs)) return true;
          await this.#publish(now, making, end.outcome);
          return false;
        }
        signal.throwIfAborted();
        await this.#pause(signal);
      }
    } finally {
      await process.close();
    }
  }

  /** The time until which the data are complete, and whether the session ends there. */
  async #findEnd(now: MappingSession, data: CapturedData) {
    const nowMs = this.options.clock.nowMs();
    const isLate = nowMs - now.createdMs > SESSION_MS_MAX;
    const { untilUs = isLate ? nowMs * 1000 : undefined, stoppedMs } = now;
    const outcome: SessionEnd = isLate ? "timeout" : "success";
    const completeUs = await data.completeUs(nowMs);
    if (untilUs === undefined) return { untilUs: completeUs, isOver: false, outcome };
    // The last data before a stop arrives some time after it, unless the machine was silent.
    const isSilent = stoppedMs !== undefined && await data.isSilent(untilUs);
    const isOver = isLate || isSilent || completeUs >= untilUs;
    return { untilUs: isOver ? untilUs : Math.min(untilUs, completeUs), isOver, outcome };
  }

  /** Stores a picture of the map if one was requested since the last. */
  async #show(id: string, making: Making): Promise<void> {
    const { store, files, clock } = this.options;
    const { askedMs, pictureMs } = await new MappingSessions(store).get(id);
    if (askedMs <= pictureMs || making.scans === 0) return;
    const atMs = clock.nowMs();
    const bytes = await making.process.cloud();
    const { pose } = making;
    const old = await keepFile(store, files, onePiece(bytes), PICTURE_BYTES_MAX, (file) => {
      return store.transaction((sql) => new MappingSessions(sql).picture(id, { ...file, atMs, pose }));
    });
    await this.#release(old === undefined ? [] : [old]);
  }

  /** One transaction stores the map's package and the end of the session. */
  async #publish(session: MappingSession, making: Making, outcome: SessionEnd): Promise<void> {
    const { store, clock, logger } = this.options;
    const { id, organizationId, mapName: name, version } = session;
    if (making.scans === 0) {
      throw new SvcError(
        "failed_precondition",
        `no scan of the lidar "${session.camera}" arrived${
          making.unusable > 0 ? " that can be used" : ""
        }: ` +
          "its machine captures NextPointCloud of it and syncs it here",
      );
    }
    const cloud = await making.process.cloud();
    const map = await making.process.file();
    const contents: ArchiveFile[] = [
      { path: MAP_FILE, bytes: map.length, content: [map] },
      { path: PICTURE_FILE, bytes: cloud.length, content: [cloud] },
    ];
    const error = making.unusable > 0 ? `${making.unusable} captured values were unusable` : "";
    await keepPackage(this.options, organizationId, packed(contents), (file) => {
      return store.transaction(async (sql) => {
        const nowMs = clock.nowMs();
        const metadata = { session_id: id, scans: making.scans };
        const info = {
          organizationId,
          name,
          version,
          type: "slam_map",
          platform: "",
          metadata,
          file,
        } as const;
        await new Packages(sql).add(info, nowMs);
        const ended = await new MappingSessions(sql).end(this.#jobs.id, id, outcome, error, nowMs);
        if (!ended) throw new SvcError("aborted", `mapping session ${id} now belongs to another runner`);
      });
    });
    logger.info(`mapping session ${id}: version "${version}" of map "${name}" is in the registry`);
  }

  async #end(id: string, end: SessionEnd, error: string): Promise<void> {
    const { store, clock } = this.options;
    await store.transaction((sql) =>
      new MappingSessions(sql).end(this.#jobs.id, id, end, error, clock.nowMs())
    );
  }

  async #release(contents: readonly string[]): Promise<void> {
    const { store, files, logger } = this.options;
    for (const sha256 of contents) {
      await releaseFile(store, files, sha256).catch((error) => {
        logger.warn(`cannot remove the file ${sha256}: ${chainOf(error)}`);
      });
    }
  }
}

/** A map in the making. */
class Making {
  scans = 0;
  /** The unusable data. */
  unusable = 0;
  pose?: Pose2d;
  lookAtMs = 0;
  #imu: ImuReading[] = [];
  #odometry: OdometryReading[] = [];

  constructor(
    readonly process: MapProcess,
    private readonly files: FileStore,
    private readonly reported: (why: string) => void,
  ) {}

  async add(captured: MapInput): Promise<void> {
    if (captured.kind === "imu") this.#imu.push(captured.imu);
    else if (captured.kind === "odometry") this.#odometry.push(captured.odometry);
    else if (captured.kind === "unusable") this.#leaveOut(captured, captured.why);
    else await this.#scan(captured);
    if (this.#imu.length + this.#odometry.length >= MOVEMENTS_MAX) await this.moveOn();
  }

  /** Passes the waiting movements to the mapper. */
  async moveOn(): Promise<void> {
    if (this.#imu.length + this.#odometry.length === 0) return;
    const movements = { imu: this.#imu, odometry: this.#odometry };
    [this.#imu, this.#odometry] = [[], []];
    await this.process.move(movements);
  }

  async #scan(scan: MapInput & { kind: "scan" }): Promise<void> {
    await this.moveOn();
    if (scan.bytes > SCAN_BYTES_MAX) {
      return this.#leaveOut(scan, `a scan has ${scan.bytes} bytes, wanted at most ${SCAN_BYTES_MAX}`);
    }
    try {
      const content = this.files.read(scan.sha256);
      this.pose = await this.process.scan(scan.capturedUs / 1e6, scan.bytes, content) ?? this.pose;
      this.scans++;
    } catch (error) {
      if (!this.process.goesOn || SvcError.from(error).code !== "invalid_argument") throw error;
      this.#leaveOut(scan, SvcError.from(error).message);
    }
  }

  #leaveOut({ capturedUs }: MapInput, why: string): void {
    if (++this.unusable > LOGGED_MAX) return;
    this.reported(`what was captured at ${new Date(capturedUs / 1000).toISOString()} is left out: ${why}`);
  }
}

/** The package of the map that a session extends. */
async function existingMap(session: MappingSession, store: Store, files: FileStore) {
  const { organizationId, mapName, existingVersion } = session;
  if (existingVersion === "") return undefined;
  const found = await new Packages(store).find(`${organizationId}/${mapName}`, existingVersion);
  return { bytes: found.bytes, content: files.read(found.sha256) };
}
