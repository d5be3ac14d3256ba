/**
 * The last entries of `additional_networks` that kept the device online, and the change that is not proven yet, in a
 * file: after a power cut during a change, the next start proves it or takes it back.
 */

import { dirname, join } from "node:path";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { DecodeContext, isObject, snake } from "../../base/schema/schema.ts";
import { type AdditionalNetwork, additionalNetworkField } from "../settings/settings_fields.ts";

export interface NetworkEntries {
  readonly [key: string]: AdditionalNetwork;
}

export interface ChangesNote {
  readonly proven: NetworkEntries;
  /** Digests of the profiles of a change that is not proven; empty without one. */
  readonly trial: readonly string[];
}

const NOTHING: ChangesNote = { proven: {}, trial: [] };
/** The file holds passwords. */
const MODE = 0o600;
/** More than the settings have entries. */
const TRIAL_MAX = 1000;

export class NetworkChanges {
  readonly #path: string;
  #note: ChangesNote | undefined;

  /** The file is beside `sibling`. */
  constructor(private readonly files: ReadFiles & WriteFiles, sibling: string) {
    this.#path = join(dirname(sibling), "network_changes.json");
  }

  /** An unreadable file counts as none: then nothing is taken back. */
  async read(): Promise<ChangesNote> {
    return this.#note ??= await this.files.readTextFile(this.#path).then(noteOf).catch(() => NOTHING);
  }

  /** Replaces the note. It is in force even if it cannot be written; then it throws. */
  async write(note: ChangesNote): Promise<void> {
    this.#note = note;
    const proven = Object.fromEntries(
      Object.entries(note.proven).map(([key, { psk, ...plain }]) => [key, { ...plain, psk: psk?.reveal() }]),
    );
    await this.files.makeFolder(dirname(this.#path));
    await this.files.writeFile(this.#path, JSON.stringify({ ...note, proven }), { mode: MODE });
  }
}

/** The note in a file. What is not usable in it counts as absent: a newer agent, or a fault of the disk, may have written it. */
function noteOf(text: string): ChangesNote {
  const found: unknown = JSON.parse(text);
  if (!isObject(found)) return NOTHING;
  const proven = Object.entries(isObject(found.proven) ? found.proven : {}).flatMap(([key, entry]) => {
    const network = networkOf(entry);
    return network ? [[key, network] as const] : [];
  });
  const trial: readonly unknown[] = Array.isArray(found.trial) ? found.trial : [];
  return {
    proven: Object.fromEntries(proven),
    trial: trial.filter((one) => typeof one === "string").slice(0, TRIAL_MAX),
  };
}

/** An entry as the settings have it; `undefined` for one that this agent does not know. */
function networkOf(entry: unknown): AdditionalNetwork | undefined {
  if (!isObject(entry)) return undefined;
  const at = new DecodeContext();
  const plain = Object.fromEntries(
    Object.entries(entry).map(([property, value]) => [snake(property), value]),
  );
  const network = additionalNetworkField.decode(plain, at);
  return at.failed ? undefined : network;
}
