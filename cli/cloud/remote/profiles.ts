/**
 * Which control plane a command works on: one elsewhere, by a profile, or the one on this host.
 *
 * In this order: the profile that the command line or the environment names; the data folder, database, keys or files
 * that they name; a control plane in the working folder; the current profile. So nobody who tries something out on a
 * control plane of their own changes another one by accident.
 */

import { SvcError } from "../../../lib/base/error.ts";
import type { Environment } from "../../../lib/base/host.ts";
import type { ReadFiles, WriteFiles } from "../../../lib/base/files/files.ts";
import { chosen, type Profile, ProfileFile } from "../../../lib/cloud_client/profile.ts";
import { UsageError } from "../../flags.ts";
import { REMOTE_ROWS } from "./rows.ts";
import { type CloudFlags, PROFILE_FLAG } from "../cloud_flags.ts";

export interface NamedProfile {
  readonly name: string;
  readonly profile: Profile;
}

type ProfileHost = Environment & ReadFiles & WriteFiles;

/** The flags that name a control plane on this host, and their defaults. */
const LOCAL_FLAGS = [
  ["data", "svc-cloud-data", "SVC_CLOUD_DATA"],
  ["database", "", "SVC_CLOUD_DATABASE"],
  ["keys", "", "SVC_CLOUD_KEYS"],
  ["files", "", "SVC_CLOUD_FILES"],
] as const;

/** The profiles of svc-cloud; those of svc-ml are its own. */
export function cloudProfiles(host: ProfileHost): ProfileFile {
  return new ProfileFile(host, "cloud_profiles.json");
}

/** The profile that a command works with; `undefined` for a control plane on this host. */
export async function remoteProfile(
  { words }: { readonly words: string },
  values: CloudFlags,
  host: ProfileHost,
): Promise<NamedProfile | undefined> {
  const onHost = reasonOnHost(words);
  if (onHost !== undefined) {
    requireHost(words, values, host);
    return undefined;
  }
  const given = LOCAL_FLAGS.filter(([name, usual]) => values[name] !== usual);
  const file = cloudProfiles(host);
  if (values.profile !== "") {
    const written = given.find(([name, _, variable]) => values[name] !== host.env(variable)?.trim());
    if (written) throw new UsageError(`--profile and --${written[0]}: found both, wanted one of them`);
    return { name: values.profile, profile: chosen(await file.read(), values.profile, file.path) };
  }
  if (given.length > 0 || await host.fileSize(`${values.data}/cloud.db`) !== undefined) return undefined;
  const { current, profiles } = await file.read();
  const profile = Object.hasOwn(profiles, current) ? profiles[current] : undefined;
  return profile && { name: current, profile };
}

/** Throws if the command line names a profile for a command that runs on the host only. */
export function requireHost(
  words: string,
  { profile }: { readonly profile: string },
  host: Environment,
): void {
  if (profile === "" || profile === host.env(PROFILE_FLAG.env)?.trim()) return;
  const remedy = "run it on the host of the control plane, without --profile";
  throw new SvcError(
    "failed_precondition",
    `${words} does not run from afar, because ${reasonOnHost(words)}: ${remedy}`,
  );
}

function reasonOnHost(words: string): string | undefined {
  const kind = Object.hasOwn(REMOTE_ROWS, words) ? REMOTE_ROWS[words] : undefined;
  return typeof kind === "object" && "onHost" in kind ? kind.onHost : undefined;
}
