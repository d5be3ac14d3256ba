/**
 * The editor of the configuration file, for the machine's page: shows the file with its secrets hidden, checks a text as
 * svc-server would read it, replaces the file, and keeps the versions before.
 *
 * Owns the folder of versions beside the file (`machine.json.versions/`), which has at most 20 versions and 32 MiB. The
 * file is replaced durably; a link at its path stays, and its target is replaced. svc-server notices the change as it
 * notices any other.
 *
 * The room owns changes of the configuration file that come over the network.
 */

import { createHash } from "node:crypto";
import type { Environment } from "../../base/host.ts";
import type { Files } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { positionInText, type TextSpan } from "../../base/schema/jsonc.ts";
import type { Problem } from "../../base/schema/schema.ts";
import { spanAt } from "../../base/schema/text_places.ts";
import type { Registry } from "../../resource/registry.ts";
import { parseConfig, readConfigBytes } from "../config/file.ts";
import { type HiddenText, hideSecrets, restoreSecrets } from "./hidden_secrets.ts";
import { decodeDraft } from "../config/reading.ts";

const VERSIONS_MAX = 20;
const VERSIONS_BYTES_MAX = 32 * 1024 * 1024;
const FOLDER_MODE = 0o700;
const SECRET_MODE = 0o600;
const REVISION_LENGTH = 16;
const PROBLEMS_MAX = 200;
/** `2026-01-31T10-20-30-123Z-0a1b2c3d4e5f6071.json`: until when the file was like this, and its revision. */
const VERSION_NAME = /^(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z)-([0-9a-f]{16})\.json$/;

export interface ConfigEditorParts {
  readonly path: string;
  readonly registry: Registry;
  readonly host: Environment & Files;
  readonly clock: Clock;
}

export interface ShownConfig {
  /** With marks in place of the secrets. */
  readonly text: string;
  readonly revision: string;
}

/** A problem and where it stands in the text. */
export interface LocatedProblem extends Problem, TextSpan {}

export interface CheckedConfig {
  readonly problems: readonly LocatedProblem[];
  readonly isUsable: boolean;
}

export interface ConfigVersion {
  readonly id: string;
  readonly untilMs: number;
  readonly sizeBytes: number;
}

export class ConfigEditor {
  /** One change after another. */
  #changing: Promise<unknown> = Promise.resolve();

  constructor(private readonly parts: ConfigEditorParts) {}

  get path(): string {
    return this.parts.path;
  }

  async show(): Promise<ShownConfig> {
    const { hidden, revision } = await this.#read();
    return { text: hidden.text, revision };
  }

  /** What svc-server would say of a text, in which marks stand for the secrets of the present file. */
  async check(text: string): Promise<CheckedConfig> {
    const { secrets } = (await this.#read()).hidden;
    try {
      return await this.#check(restoreSecrets(text, secrets, this.path), text);
    } catch (error) {
      return { problems: [this.#placed(messageOf(error), text)], isUsable: false };
    }
  }

  /**
   * Replaces the file. `revision` is the one that the text was made from: throws `aborted` if the file has changed
   * since, and `invalid_argument` if svc-server would refuse the text as a whole.
   */
  apply(text: string, revision: string): Promise<string> {
    return this.#inTurn(async () => {
      const present = await this.#read();
      this.#expect(present.revision, revision);
      const whole = restoreSecrets(text, present.hidden.secrets, this.path);
      const { problems, isUsable } = await this.#check(whole, text);
      if (!isUsable) {
        const { path, message } = problems.find(({ severity }) => severity === "error")!;
        throw new SvcError("invalid_argument", `${path && `${path}: `}${message}`);
      }
      return await this.#replace(whole, present);
    });
  }

  /** The newest first. */
  async versions(): Promise<ConfigVersion[]> {
    const { host } = this.parts;
    const folder = await this.#folder();
    const names = await host.stat(folder) ? await host.readFolder(folder) : [];
    const found = await Promise.all(
      names.filter((name) => VERSION_NAME.test(name)).map(async (name) => ({
        id: name.replace(/\.json$/, ""),
        untilMs: timeOf(name),
        sizeBytes: await host.fileSize(`${folder}/${name}`) ?? 0,
      })),
    );
    return found.sort((a, b) => b.untilMs - a.untilMs);
  }

  async version(id: string): Promise<string> {
    return hideSecrets(await this.#versionText(id), id).text;
  }

  /** Makes a kept version the present file again; see `apply`. */
  restore(id: string, revision: string): Promise<string> {
    return this.#inTurn(async () => {
      const text = await this.#versionText(id);
      const present = await this.#read();
      this.#expect(present.revision, revision);
      return await this.#replace(text, present);
    });
  }

  async #read(): Promise<{ readonly text: string; readonly hidden: HiddenText; readonly revision: string }> {
    const text = decoded(await readConfigBytes(this.parts.host, this.path));
    return { text, hidden: hideSecrets(text, this.path), revision: revisionOf(text) };
  }

  #expect(found: string, wanted: string): void {
    if (found === wanted) return;
    throw new SvcError(
      "aborted",
      `${this.path} has changed since you began to edit it: look at the new one first`,
    );
  }

  async #replace(
    text: string,
    present: { readonly text: string; readonly revision: string },
  ): Promise<string> {
    const { host, clock } = this.parts;
    const revision = revisionOf(text);
    if (revision === present.revision) return revision;
    const target = await host.realPath(this.path);
    const mode = (await host.stat(target))?.mode || SECRET_MODE;
    const folder = await this.#folder();
    const until = new Date(clock.nowMs()).toISOString().replaceAll(/[:.]/g, "-");
    await host.makeFolder(folder, { mode: FOLDER_MODE });
    await host.writeFile(`${folder}/${until}-${present.revision}.json`, present.text, { mode: SECRET_MODE });
    await host.writeFile(target, text, { mode });
    await this.#forget(folder);
    return revision;
  }

  /** Removes the oldest versions beyond the limits. */
  async #forget(folder: string): Promise<void> {
    let [count, bytes] = [0, 0];
    for (const { id, sizeBytes } of await this.versions()) {
      count++;
      bytes += sizeBytes;
      if (count > VERSIONS_MAX || bytes > VERSIONS_BYTES_MAX) {
        await this.parts.host.remove(`${folder}/${id}.json`);
      }
    }
  }

  async #folder(): Promise<string> {
    return `${await this.parts.host.realPath(this.path)}.versions`;
  }

  async #versionText(id: string): Promise<string> {
    if (VERSION_NAME.test(`${id}.json`)) {
      const path = `${await this.#folder()}/${id}.json`;
      if (await this.parts.host.findFile(path)) return decoded(await readConfigBytes(this.parts.host, path));
    }
    throw new SvcError("not_found", `there is no version "${id.slice(0, 60)}" of ${this.path}`);
  }

  /** `shown`: the text that the problems' places refer to. */
  async #check(whole: string, shown: string): Promise<CheckedConfig> {
    const { registry, host } = this.parts;
    const env = (name: string) => host.env(name);
    const found: Problem[] = [];
    const spans = new Map<string, TextSpan>();
    const bytes = new TextEncoder().encode(whole);
    const json = parseConfig(bytes, { file: this.path, env, problems: found });
    parseConfig(new TextEncoder().encode(shown), { file: this.path, env, spans });
    const { decoded: { problems, fatal } } = await decodeDraft(
      { json, revision: "", problems: [] },
      registry,
      env,
    );
    const placed = [...found, ...problems].slice(0, PROBLEMS_MAX).map((problem) => ({
      ...problem,
      ...spanAt(problem.path, spans),
    }));
    return { problems: placed, isUsable: !fatal };
  }

  /** A problem of the grammar, whose message begins with the file and the place. */
  #placed(message: string, text: string): LocatedProblem {
    const from = positionInText(message, this.path, text);
    const shown = from === undefined ? message : message.slice(this.path.length).replace(/^:\d+:\d+: /, "");
    return {
      severity: "error",
      path: "",
      message: shown,
      from: from ?? 0,
      to: Math.min(text.length, (from ?? 0) + 1),
    };
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(work);
    this.#changing = done.catch(() => {});
    return done;
  }
}

function timeOf(name: string): number {
  const [, until = ""] = VERSION_NAME.exec(name)!;
  const [date, time = ""] = until.split("T");
  const [hours, minutes, seconds, milliseconds] = time.slice(0, -1).split("-");
  return Date.parse(`${date}T${hours}:${minutes}:${seconds}.${milliseconds}Z`);
}

function revisionOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, REVISION_LENGTH);
}

/** The reader names the place of a text that is no UTF-8. */
function decoded(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
