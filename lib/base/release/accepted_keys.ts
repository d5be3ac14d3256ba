/**
 * The keys that must sign releases and packages on this device, and their rotation.
 *
 * Owns one file, which whoever sets the device up writes: a list of public keys in base64, or a copy of the cloud's
 * list. Without the file, nothing needs a signature. The device accepts a file signed with a key outside the list if
 * the cloud's list leads from a key in it to that key; from then on the list holds the newer key.
 *
 * The room owns what makes a release or package trustworthy: signatures, keys, the words of channels, and their history.
 */

import { dirname } from "node:path";
import type { ReadFiles, WriteFiles } from "../files/files.ts";
import { chainOf, SvcError } from "../error.ts";
import type { Clock } from "../clock.ts";
import { staleness, VALID_MS, verifyChannel } from "./channel.ts";
import { ReleaseHistory } from "./history.ts";
import { KeyRing, pinnedKey, type ReleaseKey, type ReleaseStatement, verifyRelease } from "./signature.ts";
import { isObject } from "../schema/schema.ts";

export interface SignedFile {
  readonly name: string;
  /** `undefined`: any version, for a file at an address of the user's own. */
  readonly version: string | undefined;
  /** `undefined` if only the signature tells it. */
  readonly sha256: string | undefined;
  /** The platform that a signature must be for, unless it is for all; in the published notation: `linux/amd64`. */
  readonly platform?: string;
  /** Its signature is at the same address with `.sig`. */
  readonly url: string;
  /**
   * The channel or range that has led to this version: the control plane must say, signed and recently, that it does,
   * and the version must not be older than the last one. `undefined` if the configuration names the version itself.
   */
  readonly wanted?: string;
}

export interface AcceptedKeysParts {
  readonly files: ReadFiles & WriteFiles;
  readonly clock: Pick<Clock, "nowMs" | "monotonicMs">;
  /** The file with the accepted releases. */
  readonly historyPath: string;
}

/** Fetches the JSON at an address. */
export type FetchJson = (url: string) => Promise<unknown>;

/** Address of the cloud's list of keys. */
const KEYS_PATH = "/releases/keys.json";

/** Interval of the checks that a channel still leads to what is installed. */
const CONFIRM_MS = 6 * 3600_000;
const AGAIN_MS = 10 * 60_000;
const WORDS_MAX = 1_000;

/** The last answer of `withheld`, and when the control plane last said something; monotonic times. */
interface Word {
  readonly problem: string | undefined;
  readonly heardMs: number;
  readonly nextMs: number;
}

export class AcceptedKeys {
  readonly #path: string;
  readonly #parts: AcceptedKeysParts;
  readonly #history: ReleaseHistory;
  /** The last answers of `withheld`. */
  readonly #words = new Map<string, Word>();

  constructor(path: string, parts: AcceptedKeysParts) {
    this.#path = path;
    this.#parts = parts;
    this.#history = new ReleaseHistory(parts.historyPath, parts.files);
  }

  /** Whether this device requires signatures. */
  async required(): Promise<boolean> {
    return await this.#ring() !== undefined;
  }

  /**
   * The signed statement about a file; nothing if no signatures are needed. Throws `failed_precondition` for a file
   * without a valid signature; `aborted` for one that is older than an accepted one, or whose channel is not confirmed
   * now; and the errors of `get` if the check is not possible now. From here on, older files are refused.
   */
  async check(file: SignedFile, get: FetchJson): Promise<ReleaseStatement | undefined> {
    const ring = await this.#ring();
    if (!ring) return undefined;

    const url = new URL(file.url);
    const sig = await get(`${url.origin}${url.pathname}.sig${url.search}`);
    const statement = await this.#verified(ring, file, get, (keys) => verifyRelease(sig, keys));
    requireSame("signature", [
      ["name", statement.name, file.name],
      ["version", statement.version, file.version ?? statement.version],
      ["sum", statement.sha256, file.sha256 ?? statement.sha256],
      ["platform", statement.platform, statement.platform && (file.platform ?? statement.platform)],
    ]);

    const { wanted } = file;
    if (wanted === undefined) return statement;

    await this.#confirm(ring, { ...file, wanted }, statement, get);
    const newer = await this.#history.newerThan(statement, wanted);
    if (newer) {
      const found = `${statement.version}, which was published before ${newer.version}`;
      const request = "to go back, name that very version in the configuration";
      throw new SvcError(
        "aborted",
        `"${wanted}" leads to ${found}, and this device has had that; ${request}`,
      );
    }

    await this.#history.accept(statement, wanted);
    return statement;
  }

  /**
   * Whether somebody may withhold newer versions than the installed one: why the control plane's word for its channel
   * does not count, or has not come for as long as a word holds; `undefined` otherwise. Asks once in `CONFIRM_MS`, or
   * `AGAIN_MS` after a failure, and gives the last answer in between.
   */
  async withheld(
    file: SignedFile & { readonly wanted: string },
    get: FetchJson,
  ): Promise<string | undefined> {
    const ring = await this.#ring();
    if (!ring) return undefined;

    const key = JSON.stringify([file.name, file.wanted, file.version]);
    const nowMs = this.#parts.clock.monotonicMs();
    const last = this.#words.get(key);
    if (last && nowMs < last.nextMs) return last.problem;

    let [problem, heardMs, nextMs]: [string | undefined, number, number] = [
      undefined,
      nowMs,
      nowMs + CONFIRM_MS,
    ];
    try {
      await this.#confirm(ring, file, file, get);
    } catch (error) {
      problem = chainOf(error);
      if (SvcError.from(error).code === "unavailable") {
        [heardMs, nextMs] = [last?.heardMs ?? nowMs, nowMs + AGAIN_MS];
        // An outage says nothing, unless it lasts.
        if (nowMs - heardMs < VALID_MS) problem = last?.problem;
      }
    }

    if (this.#words.size >= WORDS_MAX) this.#words.clear();
    this.#words.set(key, { problem, heardMs, nextMs });
    return problem;
  }

  async #confirm(
    ring: KeyRing,
    file: SignedFile & { readonly wanted: string },
    { version, sha256 }: Pick<SignedFile, "version" | "sha256">,
    get: FetchJson,
  ): Promise<void> {
    const { wanted, platform = "" } = file;
    const url = new URL(file.url);
    url.pathname += ".channel";
    url.searchParams.set("wanted", wanted);
    url.searchParams.set("platform", platform);

    const sig = await get(url.href).catch((cause) => {
      const what = `the control plane does not say that "${wanted}" leads to this version: ${chainOf(cause)}`;
      throw new SvcError("unavailable", what, { cause });
    });
    const word = await this.#verified(ring, file, get, (keys) => verifyChannel(sig, keys));
    requireSame("word for the channel", [
      ["name", word.name, file.name],
      ["channel", word.wanted, wanted],
      ["platform", word.platform, platform],
    ]);

    const stale = staleness(word, this.#parts.clock.nowMs());
    if (stale !== undefined) throw new SvcError("aborted", stale);
    if (word.version === version && word.sha256 === (sha256 ?? word.sha256)) return;

    throw new SvcError("aborted", `"${wanted}" leads to ${word.version}, and not to ${version}`);
  }

  async #verified<T>(
    ring: KeyRing,
    { url }: SignedFile,
    get: FetchJson,
    verify: (keys: readonly ReleaseKey[]) => T,
  ): Promise<T> {
    try {
      return verify(ring.keys);
    } catch (error) {
      if (SvcError.from(error).code !== "permission_denied") throw refusal(error);
    }

    const listed = await get(`${new URL(url).origin}${KEYS_PATH}`);
    const next = ring.follow(isObject(listed) ? listed.keys : listed);
    try {
      const statement = verify(next.keys);
      await this.#keep(next.keys);
      return statement;
    } catch (error) {
      throw SvcError.from(error).code === "permission_denied" || SvcError.from(error).code === "data_loss"
        ? refusal(error)
        : error;
    }
  }

  /** The keys on this device; `undefined` if releases need no signature. */
  async #ring(): Promise<KeyRing | undefined> {
    let bytes: Uint8Array;
    try {
      bytes = await this.#parts.files.readFile(this.#path);
    } catch (error) {
      if (SvcError.from(error).code === "not_found") return undefined;
      throw error;
    }
    try {
      const json: unknown = JSON.parse(new TextDecoder().decode(bytes));
      const list = isObject(json) ? json.keys : json;
      if (!Array.isArray(list) || list.length === 0) throw new SvcError("data_loss", "it lists no keys");
      return new KeyRing(list.map((one) => typeof one === "string" ? pinnedKey(one) : pinned(one)));
    } catch (error) {
      // An unreadable file refuses every release, because somebody has asked for signatures here.
      const wanted = "wanted a list of public keys in base64";
      throw new SvcError("permission_denied", `${this.#path}: ${chainOf(error)}, ${wanted}`, {
        cause: error,
      });
    }
  }

  async #keep(keys: readonly ReleaseKey[]): Promise<void> {
    await this.#parts.files.makeFolder(dirname(this.#path));
    const text = JSON.stringify(keys.map(({ public_key }) => public_key), undefined, 1);
    await this.#parts.files.writeFile(this.#path, text);
  }
}

function pinned(one: unknown): ReleaseKey {
  const { public_key } = (one ?? {}) as { public_key?: unknown };
  return pinnedKey(String(public_key));
}

function refusal(error: unknown): SvcError {
  return new SvcError("failed_precondition", chainOf(error), { cause: error });
}

function requireSame(what: string, members: readonly (readonly [string, string, string])[]): void {
  for (const [member, found, wanted] of members) {
    if (found === wanted) continue;
    const reported = `the ${what} is for another file: found ${member} ${found}, wanted ${wanted}`;
    throw new SvcError("failed_precondition", reported);
  }
}
