/** A data manager among resources of a test, with the test's own clock, disk and control plane. */

import { assertEquals } from "@std/assert";
import { BuiltinDataManager } from "../../drivers/data_manager/builtin.ts";
import { APIS } from "../../lib/api/mod.ts";
import { type DataManager, DataManagerApi } from "../../lib/api/services/data_manager.ts";
import { type LogRecord, Logs, memorySink } from "../../lib/base/log/log.ts";
import { DecodeContext, type JsonObject } from "../../lib/base/schema/schema.ts";
import type { FrameView } from "../../lib/resource/frame_view.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { Dependencies } from "../../lib/resource/registry.ts";
import type { Resource } from "../../lib/resource/resource.ts";
import type { Uploader } from "../../lib/resource/uploader.ts";
import type { FakeClock } from "./fake_clock.ts";
import type { FakeHost } from "./fake_host.ts";

export interface TestManager {
  readonly manager: DataManager & { weakDependenciesChanged(): Promise<void> };
  /** What it has logged. */
  readonly records: readonly LogRecord[];
}

/** What a data manager works with. */
export interface ManagerParts {
  readonly attributes: JsonObject;
  /** The machine's other resources, each with what its configuration has for services. */
  readonly resources: ReadonlyMap<Resource, JsonObject[]>;
  /** A resource by its API and short name; throws if there is none. */
  find(api: string, name: string): Resource;
  readonly frames?: FrameView;
  readonly clock: FakeClock;
  readonly host: FakeHost;
  readonly send: Uploader["send"];
}

export async function testManager(parts: ManagerParts): Promise<TestManager> {
  const { attributes, resources, find, frames, clock, host, send } = parts;
  const records: LogRecord[] = [];
  const name = ResourceName.of(DataManagerApi.name, "data");
  const view = {
    api: (name: string) => APIS.find((api) => api.name === name),
    find,
    get weak() {
      return [...resources.keys()];
    },
    serviceConfigs: (one: ResourceName) =>
      [...resources].find(([{ name }]) => name.full === one.full)?.[1] ?? [],
    frames,
    clientName: ({ simple }: ResourceName) => simple,
  };
  const place = new DecodeContext();
  const decoded = BuiltinDataManager.attributes.decode(attributes, place);
  assertEquals(place.problems, []);
  const manager = await BuiltinDataManager.construct({
    name,
    attributes: decoded,
    dependencies: new Dependencies(name, [], view),
    logger: new Logs(clock, [memorySink(records)]).logger("data"),
    clock,
    host,
    uploader: { send },
    signal: new AbortController().signal,
  }) as TestManager["manager"];
  return { manager, records };
}
