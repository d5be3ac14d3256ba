/**
 * `builtin`: captures the data that each resource's configuration asks for, keeps it on disk and sends it to
 * the control plane.
 *
 * The resources say what to capture, in their `service_configs` of type `data_manager`. Without a control
 * plane the data manager still captures, as long as the disk has room.
 */

import {
  captureField,
  type DataManager,
  DataManagerApi,
  type FileForDatasets,
} from "../../lib/api/services/data_manager.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { SerialQueue } from "../../lib/base/async/serial_queue.ts";
import { deadline, race } from "../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import { homeFolder } from "../../lib/base/files/home.ts";
import {
  bool,
  DecodeContext,
  type Infer,
  integer,
  type JsonObject,
  list,
  number,
  object,
  show,
  text,
  unserved,
} from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { type Construction, model } from "../../lib/resource/registry.ts";
import { BaseResource, type Call, type Resource } from "../../lib/resource/resource.ts";
import { CaptureControl, type CaptureOverride, type EndedRecording } from "./capture_control.ts";
import { canCapture, type CaptureSettings, Collector } from "./collector.ts";
import { Folders } from "./folders.ts";
import { Sender } from "./sender.ts";
import { Spool } from "./spool.ts";

const MINUTE_MS = 60_000;
const KIB = 1024;
/** The reading that allows a round of sending (a published name), and the time limit for it. */
const SHOULD_SYNC = "should_sync";
const SENSOR_MS = 5_000;

/** Captures that the status lists. */
const CAPTURES_TOLD_MAX = 200;

/** Limit of the log lines about overrides of what does not exist. */
const UNKNOWN_MAX = 100;

/** Shortest interval between two rounds of sending. */
const INTERVAL_MIN_MINS = 0.001;

/** A count for which the published configurations write 0 when they mean the default. */
function countOrZero(doc: string, min: number) {
  return integer(`${doc}; 0 is the default`, { min: 0 }).with((count, at) => {
    if (count === 0) return undefined;
    return count < min ? at.wanted(`0 or an integer of at least ${min}`, count) : count;
  });
}

const OWN_LIMIT =
  "the waiting data has a limit of its own, maximum_capture_dir_bytes, and gives way on a full disk";

const attributes = object({
  captureDir: text(
    "folder that holds captured data until it is sent; by default `capture` in the machine's own folder",
  ),
  captureDisabled: bool("capture nothing").default(false),
  syncDisabled: bool("send only on request").default(false),
  syncIntervalMins: number("minutes between two rounds of sending; 0: send only on request", { min: 0 })
    .with((minutes, at) =>
      minutes === 0 || minutes >= INTERVAL_MIN_MINS
        ? minutes
        : at.wanted(`0 or a number of at least ${INTERVAL_MIN_MINS}`, minutes)
    )
    .default(0.1),
  selectiveSyncerName: text(
    "sensor that allows the rounds of sending: one takes place only if its reading `should_sync` is true",
  ),
  tags: list(text(), "tags of all captured data").default([]),
  additionalSyncPaths: list(
    text(),
    "folders whose files are sent, those of subfolders too, then removed",
  ).default([]),
  additionalUploadPaths: list(
    text(),
    "folders whose files clients may upload with UploadDataFromPath, those of subfolders too; the files stay",
  ).default([]),
  fileLastModifiedMillis: countOrZero(
    "milliseconds for which a file in these folders must not have changed",
    1,
  )
    .default(10_000),
  maximumCaptureFileSizeBytes: countOrZero("largest size of one upload of readings, in bytes", KIB)
    .default(256 * KIB),
  maximumCaptureDirBytes: integer(
    "largest size of the data that waits to be sent, in bytes; beyond it the oldest data is removed",
    {
      min: KIB,
    },
  ).default(5 * KIB ** 3),
  maximumNumSyncThreads: unserved("data is sent by one upload after the other"),
  diskUsageDeletionThreshold: unserved(OWN_LIMIT),
  captureDirDeletionThreshold: unserved(OWN_LIMIT),
  captureControlSensor: object({
    name: text("name of the sensor").required(),
    key: text("the reading that lists the methods to capture in another way").required(),
  }, "sensor that says what to capture, in place of the configuration, and which sequences to record"),
  mongoCaptureConfig: unserved(
    "readings are written to files, for the control plane; no other database gets them",
  ),
  deleteDataOnPartDeletion: unserved(
    "what a machine has sent outlives it; a retention_policy of its captures removes it, or a call deletes it",
  ),
  deleteEveryNthWhenDiskFull: countOrZero("when the data exceeds its limit, every Nth file is removed", 1)
    .default(1),
}).required();

type Attributes = Infer<typeof attributes>;

export const BuiltinDataManager = model({
  api: DataManagerApi,
  name: "rdk:builtin:builtin",
  doc: "Captures data from resources, keeps it on disk, and sends it to the control plane.",
  attributes,
  weakDependencies: (api) => api !== DataManagerApi.name,
  construct: async (from: Construction<Attributes>) => {
    const { attributes: settings, host, logger, clock, uploader } = from;
    const folder = captureFolderOf(from);
    const limits = {
      bytes: settings.maximumCaptureDirBytes,
      collectedBytes: settings.maximumCaptureFileSizeBytes,
      removeEvery: settings.deleteEveryNthWhenDiskFull,
    };
    const spool = await Spool.open(host, folder, limits, logger);
    const folders = new Folders({
      folders: settings.additionalSyncPaths,
      captureFolder: folder,
      quietMs: settings.fileLastModifiedMillis,
      tags: settings.tags,
      host,
      spool,
      clock,
      logger,
    });
    if (!uploader) logger.info("there is no control plane: captured data stays on this machine", { folder });
    const byItself = !settings.syncDisabled && settings.syncIntervalMins > 0;
    const intervalMs = byItself ? settings.syncIntervalMins * MINUTE_MS : undefined;
    const collect = () => folders.take();
    const allowed = syncAllowed(from);
    const sender = uploader && new Sender({ spool, uploader, clock, logger, intervalMs, allowed, collect });
    return new Builtin(from, spool, sender);
  },
});

function captureFolderOf({ attributes: { captureDir }, host }: Construction<Attributes>): string {
  return captureDir || `${homeFolder((name) => host.env(name))}/capture`;
}

class Builtin extends BaseResource implements DataManager {
  /** By resource and settings. */
  #collectors = new Map<string, Collector>();
  /**
   * When the next captures of stopped collectors are due, for one interval: their resources may soon be back, rebuilt.
   * Otherwise a configuration that changes more often than a method is captured would leave it out for ever.
   */
  readonly #due = new Map<string, { readonly dueMs: number; readonly forgottenMs: number }>();
  #closed = false;
  readonly #control: CaptureControl | undefined;
  /** Names in overrides that nothing has, once they are logged. */
  readonly #unknown = new Set<string>();
  readonly #reconciliations = new SerialQueue();

  constructor(
    private readonly from: Construction<Attributes>,
    private readonly spool: Spool,
    private readonly sender: Sender | undefined,
  ) {
    super(from.name);
    const { attributes: { captureControlSensor: sensor, captureDisabled } } = from;
    if (!sensor || captureDisabled) return;
    const changed = () => void this.weakDependenciesChanged();
    const ended = (recording: EndedRecording) => this.#keepSequence(recording);
    this.#control = new CaptureControl({ ...from, from: sensor, changed, ended });
  }

  get uploadFolders(): readonly string[] {
    const { additionalSyncPaths, additionalUploadPaths } = this.from.attributes;
    return [captureFolderOf(this.from), ...additionalSyncPaths, ...additionalUploadPaths];
  }

  /** Starts the collectors that the present resources and configuration ask for, and stops the others. */
  weakDependenciesChanged(): Promise<void> {
    return this.#reconciliations.run(() => this.#reconcile());
  }

  async sync(call: Call = {}): Promise<void> {
    if (!this.sender) {
      throw new SvcError(
        "failed_precondition",
        `${this.name} cannot send: this machine has no control plane`,
      );
    }
    await this.sender.sync(call.signal);
  }

  async uploadBinaryDataToDatasets({ content, mimeType, tags, datasetIds }: FileForDatasets): Promise<void> {
    if (datasetIds.length === 0) {
      throw new SvcError("invalid_argument", "the file names no dataset, wanted the ids of one or more");
    }
    const { clock } = this.from;
    const source = {
      componentType: DataManagerApi.name,
      componentName: this.name.short,
      methodName: "UploadBinaryDataToDatasets",
      parameters: {},
      tags: [...this.from.attributes.tags, ...tags],
      datasetIds,
    };
    const nowMs = clock.nowMs();
    const times = { timeMs: nowMs, receivedMs: nowMs };
    await this.spool.addFile({ kind: "file", source, ...times, mimeType, fileName: "", content });
    // If the control plane is away now, the next round sends the data.
    this.sender?.sync().catch(() => {});
  }

  override getStatus(): Promise<JsonObject> {
    const { waiting, bytes, refused, removed } = this.spool.counts;
    const { lastMs, failure } = this.sender?.status ?? {};
    const failing = [...this.#collectors].filter(([, one]) => one.failure !== undefined);
    return Promise.resolve({
      capturing: this.#collectors.size,
      captures: [...this.#collectors.values()].slice(0, CAPTURES_TOLD_MAX).map(({ status }) => status),
      waiting_files: waiting,
      waiting_bytes: bytes,
      refused_files: refused,
      removed_files: removed,
      last_sync: lastMs === undefined ? null : new Date(lastMs).toISOString(),
      sync_error: failure ?? null,
      capture_errors: failing.map(([, { resource, failure }]) => `${resource.name}: ${failure}`),
    });
  }

  /** Unsent data stays on disk for the next process. */
  override async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#control?.close();
    await this.weakDependenciesChanged();
    await this.sender?.close();
    await this.spool.seal();
  }

  async #reconcile(): Promise<void> {
    const wanted = this.#closed ? new Map<string, [Resource, CaptureSettings]>() : this.#wanted();
    const before = this.#collectors;
    this.#collectors = new Map();
    for (const [key, collector] of before) {
      if (wanted.get(key)?.[0] === collector.resource) this.#collectors.set(key, collector);
      else {
        const { dueMs, settings: { intervalMs } } = collector;
        this.#due.set(key, { dueMs, forgottenMs: dueMs + intervalMs });
        await collector.close();
      }
    }
    const { dependencies, clock, logger } = this.from;
    for (const [key, { forgottenMs }] of this.#due) {
      if (forgottenMs < clock.monotonicMs()) this.#due.delete(key);
    }
    for (const [key, [resource, settings]] of wanted) {
      if (this.#collectors.has(key)) continue;
      try {
        const api = dependencies.apiOf(resource);
        const frames = () => dependencies.frames;
        const dueMs = this.#due.get(key)?.dueMs;
        const componentName = dependencies.clientName(resource);
        const named = { api, resource, componentName, settings };
        const parts = { ...named, dueMs, spool: this.spool, frames, clock, logger };
        this.#collectors.set(key, new Collector(parts));
        this.#due.delete(key);
      } catch (error) {
        logger.error(`cannot capture ${resource.name}: ${messageOf(error)}`);
      }
    }
  }

  async #keepSequence({ tags, ...rest }: EndedRecording): Promise<void> {
    const source = {
      componentType: DataManagerApi.name,
      componentName: this.name.short,
      methodName: "Sequence",
      parameters: {},
      tags,
      datasetIds: [],
    };
    await this.spool.addSequence({ kind: "sequence", source, ...rest });
  }

  #wanted(): Map<string, [Resource, CaptureSettings]> {
    const wanted = new Map<string, [Resource, CaptureSettings]>();
    const { dependencies, attributes: { captureDisabled, tags } } = this.from;
    if (captureDisabled) return wanted;
    const want = (resource: Resource, settings: CaptureSettings) =>
      wanted.set(JSON.stringify([resource.name.full, settings]), [resource, settings]);
    const added = new Set(this.#control?.overrides);
    for (const resource of dependencies.weak) {
      for (const config of dependencies.serviceConfigs(resource, DataManagerApi)) {
        // The configuration has reported its problems already.
        for (const one of captureField.decode(config, new DecodeContext()).captureMethods) {
          if (!isMeant(resource.name, one.name)) continue;
          const override = this.#overrideOf(resource, one.method);
          if (override) added.delete(override);
          const frequencyHz = override?.frequencyHz ?? (one.disabled ? 0 : one.captureFrequencyHz);
          if (frequencyHz === 0) continue;
          want(resource, {
            method: one.method,
            intervalMs: 1000 / frequencyHz,
            parameters: one.additionalParams,
            tags: override?.tags ?? [...new Set([...tags, ...one.tags])],
            collectedBytes: one.cacheSizeKb ? one.cacheSizeKb * KIB : undefined,
          });
        }
      }
    }
    for (const { frequencyHz = 0, tags: own = tags, ...names } of added) {
      const resource = frequencyHz > 0 ? this.#capturable(names) : undefined;
      if (!resource) continue;
      want(resource, { method: names.method, intervalMs: 1000 / frequencyHz, parameters: {}, tags: own });
    }
    return wanted;
  }

  #overrideOf(resource: Resource, method: string): CaptureOverride | undefined {
    return this.#control?.overrides.find((one) => one.method === method && this.#isNamed(resource, one));
  }

  #isNamed(resource: Resource, { resourceName }: Pick<CaptureOverride, "resourceName">): boolean {
    return resource.name.short === resourceName ||
      this.from.dependencies.clientName(resource) === resourceName;
  }

  /** The resource of an override that the configuration does not capture. Logs once that there is none. */
  #capturable(names: Pick<CaptureOverride, "resourceName" | "method">): Resource | undefined {
    const { dependencies, logger } = this.from;
    const named = dependencies.weak.filter((one) => this.#isNamed(one, names));
    const found = named.find((one) => canCapture(dependencies.apiOf(one), names.method));
    const what = `${names.resourceName}/${names.method}`;
    if (found) this.#unknown.delete(what);
    else if (!this.#unknown.has(what) && this.#unknown.size < UNKNOWN_MAX) {
      this.#unknown.add(what);
      const why = named.length > 0 ? "it has no such method to capture" : "there is no such resource";
      logger.warn(`the capture control sensor names ${what}: ${why}`);
    }
    return found;
  }
}

/**
 * The list of a remote covers all of its resources, by the names that they have there. That of a resource is its own,
 * whatever name is in it: it may be one that the resource had before.
 */
function isMeant({ isRemote, api, far }: ResourceName, name: string | undefined): boolean {
  return !isRemote || name === `${api}/${far}`;
}

/** Whether a round of sending may take place now. Never rejects. */
function syncAllowed(from: Construction<Attributes>): (signal: AbortSignal) => Promise<boolean> {
  const { attributes: { selectiveSyncerName: name }, dependencies, clock, logger } = from;
  if (!name) return () => Promise.resolve(true);
  let reported: string | undefined;
  return async (closing) => {
    const late = () => new SvcError("deadline_exceeded", `no answer within ${SENSOR_MS} ms`);
    const { signal, done } = deadline(clock, SENSOR_MS, late, closing);
    try {
      const readings = await race(dependencies.lookUp(SensorApi, name).getReadings({ signal }), signal);
      const value = readings[SHOULD_SYNC];
      const problem = typeof value === "boolean"
        ? undefined
        : `sensor "${name}" gives ${show(value)} for "${SHOULD_SYNC}", wanted true or false`;
      return tell(problem) ?? value === true;
    } catch (error) {
      return tell(`sensor "${name}" cannot be read: ${messageOf(error)}`) ?? false;
    } finally {
      done();
    }
  };

  /** Logs a problem once. */
  function tell(problem: string | undefined): undefined {
    if (problem !== undefined && problem !== reported) logger.warn(`captured data is not sent: ${problem}`);
    reported = problem;
  }
}
