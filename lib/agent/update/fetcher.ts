/** What the updater asks of the download of a release. */

import type { DownloadProgress } from "../../base/download/http_download.ts";
import type { Release } from "./release.ts";
import type { Build } from "./state.ts";

/** Fetches a release into a file of `cache`, complete and durable. `isFinal` classifies its errors. */
export interface Fetcher {
  fetch(
    release: Release,
    progress: (progress: DownloadProgress) => void,
    signal: AbortSignal,
  ): Promise<Build>;
  /** Distinguishes the present content of a custom URL from an earlier one; `undefined` if it is unknown. */
  stamp(release: Release, signal: AbortSignal): Promise<string | undefined>;
  /** Why newer versions than the installed one may be withheld; `undefined` if there is no sign of that. */
  withheld(release: Release, signal: AbortSignal): Promise<string | undefined>;
  /** Removes the leftovers of unwanted downloads; returns the names of the removed files. */
  clean(keepMs: number): Promise<string[]>;
}
