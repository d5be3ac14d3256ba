/**
 * Readings for the bench: some are stored as uploads are, and the hours before those are closed ones in files, which the
 * control plane's own code makes and checks. So ten million are there in minutes, and queries find what they would find
 * had each been uploaded and moved.
 */

import { onePiece } from "../../lib/base/files/byte_reader.ts";
import { noteOrigin, originIdOf } from "../../lib/cloud/capture/origins.ts";
import { payloadBytes } from "../../lib/cloud/capture/payload.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { type Packing, READING_FILE_BYTES_MAX, type ReadingPacker } from "../../lib/cloud/readings/packer.ts";
import type { FileReading } from "../../lib/cloud/readings/reading_file.ts";
import { ReadingFiles } from "../../lib/cloud/readings/reading_files.ts";
import { keepFile } from "../../lib/cloud/store/file_refs.ts";
import type { FileStore } from "../../lib/cloud/store/files.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { noteTagList } from "../../lib/cloud/store/tag_lists.ts";
import type { World } from "./world.ts";

export const START_MS = Date.UTC(2026, 0, 1);
export const STEP_MS = 1_000;
export const SOURCES: { readonly [name: string]: number } = { indoors: 20, outdoors: 12 };
export const SOURCES_OF_PART = Object.keys(SOURCES).length;
/** Readings of one upload, and of one file. */
const UPLOADED_AT_ONCE = 500;
const READINGS_OF_FILE = 10_000;
const PACKED_AT_ONCE = 2;
/** A process works for a limited time. */
const FILES_OF_PROCESS = 5;

interface Place {
  readonly store: Store;
  readonly files: FileStore;
  readonly world: Pick<World, "organization" | "location" | "machine">;
  readonly parts: number;
}

/** Some consecutive readings of a source. */
interface Stretch {
  readonly part: number;
  readonly name: string;
  readonly from: number;
  readonly until: number;
}

/** Stores each source's first readings, as uploads do. */
export async function storeFirst(place: Place, each: number): Promise<void> {
  for (const stretch of stretchesOf(place.parts, 0, each, UPLOADED_AT_ONCE)) {
    const { from, until, part } = stretch;
    const readings = Array.from({ length: until - from }, (_, index) => readingAt(stretch, from + index));
    await storeReadings(place, originOf(place, stretch), readings, [tagOf(part)], START_MS);
  }
}

/** Puts each source's readings from `first` on into files, and notes them. */
export async function fileRest(
  place: Place,
  packer: ReadingPacker,
  first: number,
  each: number,
): Promise<void> {
  const { store, world } = place;
  await store.transaction((sql) =>
    sql.query(
      "INSERT INTO reading_moves (organization_id, next_ms, last_number) VALUES (?, 0, 0) ON CONFLICT DO NOTHING",
      world.organization,
    )
  );
  const left = [...stretchesOf(place.parts, first, each, READINGS_OF_FILE)];
  const packSome = async (caller: string) => {
    const some = left.splice(0, FILES_OF_PROCESS);
    await packer.run([caller], new AbortController().signal, async (packing) => {
      for (const stretch of some) await fileOne(place, packing, stretch);
    });
    return some.length > 0;
  };
  const callers = Array.from({ length: PACKED_AT_ONCE }, (_, number) => `bench ${number}`);
  await Promise.all(callers.map(async (caller) => {
    while (await packSome(caller));
  }));
}

async function fileOne(place: Place, packing: Packing, stretch: Stretch): Promise<void> {
  const { store, files, world } = place;
  const origin = originOf(place, stretch);
  const originId = originIdOf(origin);
  const readings = Array.from(
    { length: stretch.until - stretch.from },
    (_, index): FileReading => {
      const { payload, ...times } = readingAt(stretch, stretch.from + index);
      const entryId = crypto.randomUUID().replaceAll("-", "");
      return { ...times, storedMs: START_MS, entryId, payload: payloadBytes(payload) };
    },
  );

  const tags = JSON.stringify([tagOf(stretch.part)]);
  const { content, ...made } = await packing.pack(readings);
  await keepFile(store, files, onePiece(content), READING_FILE_BYTES_MAX, async (file) => {
    await store.transaction(async (sql) => {
      await noteOrigin(sql, origin);
      const group = { originId, tags, tagList: await noteTagList(sql, tags) };
      await new ReadingFiles(sql, undefined).add(world.organization, group, made, file);
    });
  });
}

function* stretchesOf(parts: number, first: number, each: number, length: number): Generator<Stretch> {
  for (let from = first; from < each; from += length) {
    const until = Math.min(from + length, each);
    for (let part = 0; part < parts; part++) {
      for (const name of Object.keys(SOURCES)) yield { part, name, from, until };
    }
  }
}

function tagOf(part: number): string {
  return `tag${part % 4}`;
}

function originOf({ world }: Place, { part, name }: Stretch) {
  const { organization: organizationId, location: locationId, machine: machineId } = world;
  return {
    ...{ organizationId, locationId, machineId, machineName: "rover" },
    ...{ partId: `part-${part}`, partName: `part-${part}`, componentType: "rdk:component:sensor" },
    ...{ componentName: name, methodName: "Readings", parameters: "{}" },
  };
}

function readingAt({ part, name }: Stretch, at: number) {
  const capturedUs = (START_MS + at * STEP_MS) * 1000;
  const celsius = SOURCES[name] + Math.round(100 * Math.sin((at + part) / 500)) / 10;
  return {
    capturedUs,
    receivedUs: capturedUs + 500,
    payload: { readings: { celsius, humidity: at % 100, state: "on" } },
  };
}
