/**
 * Recordings of robots with relations between their poses: `NAME.log.gz` or `NAME.clf.gz` beside
 * `NAME.relations.gz` in one folder.
 */

import { gunzipSync } from "node:zlib";
import { type CarmenLog, readCarmenLog } from "../../lib/slam/evaluation/carmen.ts";
import { readRelations, type Relation } from "../../lib/slam/evaluation/relations.ts";

export const RECORDINGS = new URL("../../../shared/data/slam/", import.meta.url);

export interface Recording {
  readonly name: string;
  readonly log: CarmenLog;
  readonly relations: readonly Relation[];
}

const LOG_NAME = /^(.+)\.(?:log|clf)\.gz$/;

/** Names of the logs in a folder that have relations, in order; empty if there is no folder. */
export function recordingNames(folder: URL): string[] {
  const names = fileNames(folder);
  return names.flatMap((file) => {
    const name = LOG_NAME.exec(file)?.[1];
    return name !== undefined && relationsFile(names, name) !== undefined ? [name] : [];
  }).sort();
}

export function readRecording(folder: URL, name: string): Recording {
  const names = fileNames(folder);
  const log = names.find((file) => LOG_NAME.exec(file)?.[1] === name);
  const relations = relationsFile(names, name);
  if (!log || !relations) throw new Error(`${folder.pathname} has no recording ${name} with relations`);
  return {
    name,
    log: readCarmenLog(textOf(folder, log)),
    relations: readRelations(textOf(folder, relations)),
  };
}

function relationsFile(names: readonly string[], name: string): string | undefined {
  return names.find((file) => file === `${name}.relations.gz`);
}

function fileNames(folder: URL): string[] {
  try {
    return [...Deno.readDirSync(folder)].map((entry) => entry.name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

function textOf(folder: URL, file: string): string {
  return new TextDecoder().decode(gunzipSync(Deno.readFileSync(new URL(file, folder))));
}
