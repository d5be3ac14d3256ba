/**
 * `builtin`: captures what the configuration of each resource asks for, keeps it on disk and brings it to the control
 * plane.
 *
 * What to capture is said by the resources: `service_configs` of type `data_manager`. Without a control plane it
 * captures all the same, as long as there is room.
 */

import {
  captureRow,
  type DataManager,
  DataManagerApi,
  type FileForDatasets,
} from "../../lib/api/data_manager.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import { homeFolder } from "../../lib/base/files/home.ts";
import {
  bool,
  type Infer,
  integer,
  type JsonObject,
  list,
  number,
  object,
  Place,
  text,
} from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { type Construction, model } from "../../lib/resource/registry.ts";
import { BaseResource, type Call, type Resource } from "../../lib/resource/resource.ts";
import { type CaptureSettings, Collector } from "./collector.ts";
import { Folders } from "./folders.ts";
import { Sender } from "./sender.ts";
import { Spool } from "./spool.ts";

const MINUTE_MS = 60_000;
const KIB = 1024;

const attributes = object({
  captureDir: text(
    "folder of what is captured, until it has been sent; `capture` in the machine's own by default",
  ),
  captureDisabled: bool("capture nothing").default(false),
  syncDisabled: bool("send nothing but when asked to").default(false),
  syncIntervalMins: number("minutes between two rounds of sending", { min: 0.001 }).default(0.1),
  tags: list(text(), "tags of everything that is captured").default([]),
  additionalSyncPaths: list(text(), "folders whose files are sent and removed").default([]),
  fileLastModifiedMillis: integer("how long such a file must have kept its size, in milliseconds", { min: 0 })
    .default(10_000),
  maximumCaptureFileSizeBytes: integer("bytes of readings that are sent at once", { min: KIB })
    .default(256 * KIB),
  maximumCaptureDirBytes: integer("bytes that may wait to be sent; what is too much goes, the oldest first", {
    min: KIB,
  }).default(5 * KIB ** 3),
  deleteEveryNthWhenDiskFull: integer("where there is too much: every so manieth file goes", { min: 1 })
    .default(1),
}).required();

type Attributes = Infer<typeof attributes>;

export const BuiltinDataManager = model({
  api: DataManagerApi,
  name: "rdk:builtin:builtin",
  doc: "Captures data from resources, keeps it on disk, and sends it to the control plane.",
  attributes,
  sees: (api) => api !== DataManagerApi.name,
  construct: async (from: Construction<Attributes>) => {
    const { attributes: settings, host, logger, clock, uplink } = from;
    const folder = settings.captureDir ?? `${homeFolder((name) => host.env(name))}/capture`;
    const limits = {
      bytes: settings.maximumCaptureDirBytes,
      collectedBytes: settings.maximumCaptureFileSizeBytes,
      removeEvery: settings.deleteEveryNthWhenDiskFull,
    };
    const spool = await Spool.open(host, folder, limits, logger);
    const folders = new Folders({
      folders: settings.additionalSyncPaths,
      quietMs: settings.fileLastModifiedMillis,
      tags: settings.tags,
      host,
      spool,
      clock,
      logger,
    });
    if (!uplink) logger.info("there is no control plane: what is captured stays here", { folder });
    const intervalMs = settings.syncDisabled ? undefined : settings.syncIntervalMins * MINUTE_MS;
    const collect = () => folders.take();
    const sender = uplink && new Sender({ spool, uplink, clock, logger, intervalMs, collect });
    return new Builtin(from, spool, sender);
  },
});

class Builtin extends BaseResource implements DataManager {
  /** By resource and settings. */
  #collectors = new Map<string, Collector>();
  #closed = false;
  #reconciling = Promise.resolve();

  constructor(
    private readonly from: Construction<Attributes>,
    private readonly spool: Spool,
    private readonly sender: Sender | undefined,
  ) {
    super(from.name);
  }

  /** Begins to capture what there is to capture now, and ends what is no longer wanted or there. */
  seenChanged(): Promise<void> {
    return this.#reconciling = this.#reconciling.then(() => this.#reconcile());
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
    // Where the control plane is away now, the next round has it.
    this.sender?.sync().catch(() => {});
  }

  override getStatus(): Promise<JsonObject> {
    const { waiting, bytes, refused, removed } = this.spool.counts;
    const { lastMs, failure } = this.sender?.status ?? {};
    const failing = [...this.#collectors].filter(([, one]) => one.failure !== undefined);
    return Promise.resolve({
      capturing: this.#collectors.size,
      waiting_files: waiting,
      waiting_bytes: bytes,
      refused_files: refused,
      removed_files: removed,
      last_sync: lastMs === undefined ? null : new Date(lastMs).toISOString(),
      sync_error: failure ?? null,
      capture_errors: failing.map(([, { resource, failure }]) => `${resource.name}: ${failure}`),
    });
  }

  /** What has been captured and not sent is for the next one. */
  override async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.seenChanged();
    await this.sender?.close();
    await this.spool.seal();
  }

  async #reconcile(): Promise<void> {
    const wanted = this.#closed ? new Map<string, [Resource, CaptureSettings]>() : this.#wanted();
    const before = this.#collectors;
    this.#collectors = new Map();
    for (const [key, collector] of before) {
      if (wanted.get(key)?.[0] === collector.resource) this.#collectors.set(key, collector);
      else await collector.close();
    }
    const { dependencies, clock, logger } = this.from;
    for (const [key, [resource, settings]] of wanted) {
      if (this.#collectors.has(key)) continue;
      try {
        const api = dependencies.apiOf(resource);
        const parts = { api, resource, settings, spool: this.spool, clock, logger };
        this.#collectors.set(key, new Collector(parts));
      } catch (error) {
        logger.error(`cannot capture ${resource.name}: ${messageOf(error)}`);
      }
    }
  }

  #wanted(): Map<string, [Resource, CaptureSettings]> {
    const wanted = new Map<string, [Resource, CaptureSettings]>();
    const { dependencies, attributes: { captureDisabled, tags } } = this.from;
    if (captureDisabled) return wanted;
    for (const resource of dependencies.seen) {
      for (const config of dependencies.serviceConfigs(resource, DataManagerApi)) {
        // What is wrong with it has been told with the configuration.
        for (const one of captureRow.decode(config, new Place()).captureMethods) {
          if (one.disabled || one.captureFrequencyHz === 0 || !isMeant(resource.name, one.name)) continue;
          const settings = {
            method: one.method,
            intervalMs: 1000 / one.captureFrequencyHz,
            parameters: one.additionalParams,
            tags: [...new Set([...tags, ...one.tags])],
            collectedBytes: one.cacheSizeKb && one.cacheSizeKb * KIB,
          };
          wanted.set(JSON.stringify([resource.name.full, settings]), [resource, settings]);
        }
      }
    }
    return wanted;
  }
}

/** What a remote captures is one list for all of its resources, by their names there. */
function isMeant({ isRemote, api, far }: ResourceName, name: string | undefined): boolean {
  return isRemote ? name === `${api}/${far}` : name === undefined || name === `${api}/${far}`;
}
