/**
 * Limits for callers of this control plane: each has a name, a default, and a place in the file that `svc-cloud serve
 * --limits` reads.
 *
 * A refusal names its limit, so that the operator knows what to change. Each process counts wrong keys by itself;
 * everything else is counted in the database, for all of its control planes together.
 */

import { SvcError } from "../../base/error.ts";
import {
  DecodeContext,
  type Infer,
  integer,
  isObject,
  type Json,
  object,
  show,
} from "../../base/schema/schema.ts";

const GB = 1024 ** 3;
const MI = 1024 ** 2;
const MAX = Number.MAX_SAFE_INTEGER;

/** The levels of what callers share, as refusals name them. */
export const CALLER_LEVELS = ["this control plane", "one organization", "one key"];

const amount = (doc: string, fallback: number) => integer(doc, { min: 1, max: MAX }).default(fallback);

export const limitsField = object({
  wrongKeysPerAddress: amount(
    "wrong keys in a row from one address before svc-cloud slows the address down",
    20,
  ),
  wrongKeysPerKey: amount(
    "wrong keys in a row for one key id from one address before svc-cloud slows them down",
    5,
  ),
  keyChecksAtOnce: amount("keys to check at the same time; further keys wait", 4),
  wrongPasswordsPerAccount: amount(
    "wrong passwords in a row for one account from addresses where its person has not signed in; one more a minute",
    30,
  ),
  passwordChecksAtOnce: amount("passwords to check at the same time, each in 32 MiB; further ones wait", 2),
  sessionDays: amount("days after which a person who stays signed in on a computer signs in again", 30),
  membersPerOrganization: amount("accounts with roles in an organization, and invitations to it", 5_000),
  logLinesPerCall: amount("log lines in one call", 10_000),
  logBytesPerCall: amount("bytes of log lines in one call", 16 * 1024 ** 2),
  logLinesPerMachineDay: amount("log lines of one part of a machine in a day (UTC)", 2_000_000),
  logBytesPerMachineDay: amount("bytes of log lines of one part of a machine in a day (UTC)", GB),
  packagesPerOrganization: amount("versions of packages of an organization", 10_000),
  packageBytesPerOrganization: amount("bytes of packages of an organization", 500 * GB),
  dataBytesPerOrganization: amount("bytes of images and files of an organization", 2_000 * GB),
  dataBytesPerMachine: amount("bytes of images and files of one machine", 500 * GB),
  readingsPerOrganization: amount("readings of sensors of an organization", 500_000_000),
  readingBytesPerOrganization: amount("bytes of readings of sensors of an organization", 500 * GB),
  logDays: amount("days for which log entries of machines are kept", 30),
  auditDays: amount("days for which entries of the audit log are kept", 365),
  logBytesPerOrganization: amount("bytes of kept log entries of an organization", 200 * GB),
  logBytesPerPart: amount("bytes of kept log entries of one part of a machine", 20 * GB),
  configBytesPerOrganization: amount(
    "characters of configurations and fragments of an organization, with all revisions",
    4 * GB,
  ),
  configBytesPerPart: amount(
    "characters of a part's configuration, or of a fragment, with its revisions; the oldest are dropped beyond this number",
    64 * MI,
  ),
  diskReserveBytes: amount(
    "bytes of the disk that uploads leave free for the database, at most a quarter of the disk",
    GB / 2,
  ),
  locationsPerOrganization: amount("locations of an organization", 5_000),
  machinesPerOrganization: amount("machines of an organization", 10_000),
  partsPerMachine: amount("parts of a machine", 100),
  revisionsPerPart: amount(
    "revisions of a part's configuration; svc-cloud drops the oldest beyond this number",
    10_000,
  ),
  keysPerOrganization: amount("API keys of an organization", 20_000),
  rolesPerKey: amount("roles of one API key", 1_000),
  rolesPerOrganization: amount("roles of API keys on an organization and everything in it", 40_000),
  fragmentsPerOrganization: amount("fragments of an organization", 1_000),
  revisionsPerFragment: amount(
    "revisions of a fragment that svc-cloud keeps, besides the tagged revisions",
    1_000,
  ),
  tagsPerFragment: amount("tags of a fragment", 100),
  fragmentLettersPerOrganization: amount("characters in all fragments of an organization together", 16 * MI),
  fragmentsPerConfiguration: amount(
    "fragments in a configuration, fragments in fragments included, each as often as it is included",
    200,
  ),
  valuesPerConfiguration: amount(
    "values in a configuration with its fragments; a fragment in a fragment counts at each level",
    200_000,
  ),
  lettersPerConfiguration: amount(
    "characters in a configuration with its fragments; a fragment in a fragment counts at each level",
    8 * MI,
  ),
  registryItemsPerOrganization: amount("registry items of an organization", 5_000),
  registryLettersPerOrganization: amount(
    "characters of descriptions, documentation and metadata of an organization's packages together",
    32 * MI,
  ),
  modulesPerAnswer: amount(
    "modules in one answer: the caller's own first, then those of other organizations",
    1_000,
  ),
  datasetsPerOrganization: amount("datasets of an organization", 10_000),
  sequencesPerOrganization: amount("sequences of captured data of an organization", 100_000),
  trainingJobsPerOrganization: amount(
    "training jobs of an organization, ended jobs included",
    5_000,
  ),
  mappingSessionsPerOrganization: amount(
    "mapping sessions of an organization, those that ended in the last 90 days included",
    1_000,
  ),
  mappingSessionsAtOnce: amount("mapping sessions of an organization that have not ended", 2),
  guestsPerLocation: amount("organizations that a location is shared with", 100),
  secretsPerLocation: amount("secrets of a location", 5),
  secretsPerPart: amount("secrets of a part of a machine", 5),
  metadataLetters: amount("characters of metadata of an organization, location, machine or part", MI / 16),
  containersPerOrganization: amount(
    "containers that an organization has registered for its training scripts",
    100,
  ),
  callsPerMachine: amount("WebRTC calls to one part of a machine that are not connected yet", 32),
  answersPerMachine: amount("streams on which one part of a machine waits for WebRTC calls", 8),
  followersPerPart: amount(
    "connections that notify one part of its changes; a further one replaces the oldest",
    4,
  ),
  followersPerOrganization: amount(
    "connections of one control plane that notify machines of one organization of their changes",
    10_000,
  ),
  followersAtOnce: amount("connections of one control plane that notify machines of their changes", 20_000),
  pipelinesPerOrganization: amount("data pipelines of an organization", 100),
  savedQueriesPerOrganization: amount("saved queries of an organization", 1_000),
  sinkBytesPerOrganization: amount("bytes of results of data pipelines of an organization", 20 * GB),
  sequenceExportsPerOrganization: amount(
    "exports of datasets of sequences of an organization in a week",
    100,
  ),
  rolloutsAtOnce: amount("rollouts of an organization that have not ended", 20),
  webhooksPerOrganizationDay: amount("webhooks of an organization's triggers in a day (UTC)", 50_000),
  mailsPerOrganizationDay: amount("mails of an organization's triggers and invitations in a day (UTC)", 500),
  commandsPerAdministrator: amount("commands of one administrator that run from afar at the same time", 4),
  commandsAtOnce: amount("commands of all administrators that run from afar at the same time", 8),
  fileBytesPerCommand: amount("bytes of files that a command from afar takes along", 4 * GB),
  tagsPerImage: amount("tags of an image or another captured file, of those that calls add", 100),
  labelsPerAnswer: amount("tags or labels of images in one answer", 10_000),
});

export type Limits = NonNullable<Infer<typeof limitsField>>;
export type LimitName = keyof Limits;

/** The default limits. */
export function defaultLimits(): Limits {
  return limitsField.decode({}, new DecodeContext())!;
}

/** Reads a limits file. Throws `invalid_argument` with every problem in it. */
export function parseLimits(json: unknown, file: string): Limits {
  if (!isObject(json)) {
    throw new SvcError(
      "invalid_argument",
      `${file}: found ${show(json as Json)}, wanted an object of limits`,
    );
  }
  const at = new DecodeContext();
  const limits = limitsField.decode(json, at);
  // An unknown name is an error here: a misspelt limit would not apply.
  const problems = at.problems.map(({ path, message }) => `${path}: ${message.replace(", ignored", "")}`);
  if (limits && problems.length === 0) return limits;
  throw new SvcError("invalid_argument", `${file}: ${problems.join("; ")}`);
}

/** The name of a limit in the file. */
export function published(name: LimitName): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Throws `resource_exhausted` if the count exceeds its limit. */
export function requireWithin(limits: Limits, name: LimitName, found: number): void {
  if (found > limits[name]) throw overLimit(limits, name, `found ${found}`);
}

export function overLimit<N extends LimitName>(limits: Pick<Limits, N>, name: N, found: string): SvcError {
  return new SvcError(
    "resource_exhausted",
    `limit ${published(name)}: ${found}, wanted at most ${
      limits[name]
    }; whoever runs this control plane sets it ` +
      "in the file of svc-cloud serve --limits",
  );
}
