/**
 * What the services of the control plane share, and the fields that their requests have in common.
 */

import { toMs } from "../../api/shared/time.ts";
import { SvcError } from "../../base/error.ts";
import type { IdentityProvider } from "../accounts/provider.ts";
import type { ConfigContext } from "../config/config_threads.ts";
import type { ReadingPacker } from "../readings/packer.ts";

export interface ServiceContext extends ConfigContext {
  /** Makes files of readings. */
  readonly packer: ReadingPacker;
  /** Where people sign in elsewhere; absent if the operator has named no provider. */
  readonly provider?: IdentityProvider;
}

/** A page of a list, and the token that continues behind it; empty for the last page. */
export interface CutPage<T> {
  readonly page: readonly T[];
  readonly nextPageToken: string;
}

/** A page of at most `limit` rows. One row more means that another page follows, with the token of `tokenAfter`. */
export function cutPage<T>(rows: readonly T[], limit: number, tokenAfter: (last: T) => string): CutPage<T> {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, nextPageToken: last && rows.length > limit ? tokenAfter(last) : "" };
}

/** The number in a page's token, after which the page continues. */
export function pageStart(token: string): number {
  const number = Number(token);
  if (Number.isSafeInteger(number)) return number;
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}

/** A bound of time in whole milliseconds, which both databases can compare; `undefined` if there is none. */
export function boundMs(time: { seconds: bigint; nanos: number } | undefined): number | undefined {
  if (!time) return undefined;
  return Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Math.floor(toMs(time))));
}
