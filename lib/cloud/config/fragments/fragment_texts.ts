/**
 * The texts of fragments as the resolution of a configuration reads them, and the stamps by which a save detects that one
 * has changed since.
 */

import { backoffMs } from "../../../base/async/backoff.ts";
import type { Clock } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import { type Lookup, lookup } from "../../store/lookups.ts";
import { placeholders, type Sql } from "../../store/store.ts";
import type { FragmentText, FragmentVersion } from "../resolution.ts";
import { Fragments, FRAGMENTS_A_QUERY, TAG_FORM } from "./fragments.ts";
import { REVISION, type Tag } from "./fragment_revisions.ts";

const ID = /^[\w-]{1,64}$/;

/** The checked fragments have changed since; a new check may succeed. */
export class ChangedMeanwhile extends SvcError {
  constructor(message: string) {
    super("aborted", message);
  }
}

/** Many callers may change one fragment in the same moment: each pause lets some of them come first. */
const TRIES_MAX = 12;
const PAUSES = { firstMs: 10, mostMs: 1_000, jitter: 1 };

/** Runs `work` again after a pause if it throws `ChangedMeanwhile`. */
export async function tryAgain<T>(clock: Clock, work: () => Promise<T>): Promise<T> {
  for (let tries = 1;; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ChangedMeanwhile) || tries === TRIES_MAX) throw error;
    }
    await clock.sleep(backoffMs(PAUSES, tries));
  }
}

/** Fragments whose stamps a lookup reads. */
const STAMPS_MAX = 16;

/** The query for the stamps of `count` fragments. */
export function stampsLookup(count: number): Lookup | string {
  const text = `SELECT id, stamp FROM fragments WHERE id IN (${placeholders(Array(count).fill(""))})`;
  return count <= STAMPS_MAX ? lookup(text, count) : text;
}

export class FragmentTexts {
  constructor(private readonly sql: Sql) {}

  /** Throws `aborted` if one of the fragments has changed since its stamp was noted. */
  async requireStamps(stamps: ReadonlyMap<string, number>): Promise<void> {
    if (await this.hasStamps(stamps)) return;
    throw new ChangedMeanwhile("a fragment in it was changed meanwhile: try again");
  }

  async hasStamps(stamps: ReadonlyMap<string, number>): Promise<boolean> {
    if (stamps.size === 0) return true;
    const rows = await this.sql.query<{ id: string; stamp: number }>(
      stampsLookup(stamps.size),
      ...stamps.keys(),
    );
    return rows.length === stamps.size && rows.every(({ id, stamp }) => stamps.get(id) === stamp);
  }

  /** The texts of fragments that an organization may use, at most `lettersMax` together; the others without text. */
  async texts(
    wanted: readonly FragmentVersion[],
    organizationId: string,
    lettersMax: number,
  ): Promise<{ readonly found: FragmentText[]; readonly stamps: readonly { id: string; stamp: number }[] }> {
    const asked = wanted.filter(({ id, version }) => ID.test(id) && isVersion(version));
    const stamps: { id: string; stamp: number }[] = [];
    const found: FragmentText[] = [];
    for (let start = 0; start < asked.length; start += FRAGMENTS_A_QUERY) {
      const some = asked.slice(start, start + FRAGMENTS_A_QUERY);
      const rows = await new Fragments(this.sql).owners(some.map(({ id }) => id));
      stamps.push(...rows);
      const usable = new Map(
        rows.filter((row) => row.organizationId === organizationId || row.visibility !== "private")
          .map((row) => [row.id, row]),
      );
      const pinned = await this.#pinned(some.filter(({ id }) => usable.has(id)), usable);
      const left = lettersMax - found.reduce((sum, { letters }) => sum + letters, 0);
      found.push(
        ...(await this.#readTexts(pinned, left)).map((one) => ({
          ...one,
          own: usable.get(one.id)!.organizationId === organizationId,
        })),
      );
    }
    return { found, stamps };
  }

  /** The revision of each version that exists. */
  async #pinned(
    wanted: readonly FragmentVersion[],
    newest: ReadonlyMap<string, { readonly revision: number }>,
  ): Promise<(FragmentVersion & { readonly revision: number })[]> {
    const tagged = wanted.filter(({ version }) => version !== "" && !REVISION.test(version)).map(({ id }) =>
      id
    );
    const tags = tagged.length === 0 ? [] : await this.sql.query<Tag & { id: string }>(
      `SELECT fragment_id AS id, tag, revision FROM fragment_tags WHERE fragment_id IN (${
        placeholders(tagged)
      })`,
      ...tagged,
    );
    const revisions = new Map(tags.map(({ id, tag, revision }) => [`${id} ${tag}`, revision]));
    return wanted.flatMap((one) => {
      const { id, version } = one;
      let revision = revisions.get(`${id} ${version}`);
      if (version === "") revision = newest.get(id)!.revision;
      else if (REVISION.test(version)) revision = Number(version);

      return revision === undefined ? [] : [{ ...one, revision }];
    });
  }

  async #readTexts(
    pinned: readonly (FragmentVersion & { readonly revision: number })[],
    lettersMax: number,
  ): Promise<Omit<FragmentText, "own">[]> {
    if (pinned.length === 0) return [];
    const pairs = pinned.flatMap(({ id, revision }) => [id, revision]);
    const where = `FROM fragment_revisions WHERE ${
      pinned.map(() => "(fragment_id = ? AND revision = ?)").join(" OR ")
    }`;
    const sizes = await this.sql.query<{ id: string; revision: number; letters: number }>(
      `SELECT fragment_id AS id, revision, LENGTH(config) AS letters ${where}`,
      ...pairs,
    );
    const letters = new Map(sizes.map((one) => [`${one.id} ${one.revision}`, Number(one.letters)]));
    const sum = [...letters.values()].reduce((sum, one) => sum + one, 0);
    const rows = sum > lettersMax ? [] : await this.sql.query<{ id: string; revision: number; text: string }>(
      `SELECT fragment_id AS id, revision, config AS text ${where}`,
      ...pairs,
    );
    const texts = new Map(rows.map(({ id, revision, text }) => [`${id} ${revision}`, text]));
    return pinned.flatMap((one) => {
      const key = `${one.id} ${one.revision}`;
      const size = letters.get(key);
      return size === undefined ? [] : [{ ...one, letters: size, text: texts.get(key) }];
    });
  }
}

/** Whether a text can be a version: empty, a revision, or a tag. */
function isVersion(version: string): boolean {
  return version === "" || REVISION.test(version) || TAG_FORM.test(version);
}
