/**
 * The commands of `svc-cloud`, a control plane of your own for machines, agents and training jobs.
 *
 * Owns its table of commands. Everything that svc-cloud acknowledges is on disk. A failing command gives the reason on
 * standard error and exits with 1, an unreadable command line with 2.
 */

import type { DenoHost } from "../../lib/base/host_deno.ts";
import { type CommandProgram, opensNamedFiles, USUAL_RIGHTS } from "../command.ts";
import { runCommand } from "../dispatch.ts";
import { cloudCandidates } from "./candidates.ts";
import { ADMINISTRATOR_COMMANDS } from "./remote/administrators.ts";
import { CONFIGURATION_COMMANDS } from "./configs/configurations.ts";
import { FRAGMENT_COMMANDS } from "./configs/fragments.ts";
import { ROLLOUT_COMMANDS } from "./configs/rollouts.ts";
import type { CloudCommand, CloudProgramContext } from "./command_context.ts";
import { INIT } from "./init.ts";
import { PERSON_COMMANDS } from "./access/accounts.ts";
import { KEY_COMMANDS } from "./access/keys.ts";
import { DATABASE_COMMANDS } from "./contents/database.ts";
import { BACKUP } from "./backup/backup.ts";
import { RESTORE } from "./backup/restore.ts";
import { CONTENT_COMMANDS } from "./contents/move.ts";
import { EXPORT_COMMANDS } from "./data/export.ts";
import { TRIGGER_COMMANDS } from "./data/triggers.ts";
import { USAGE_COMMANDS } from "./data/usage.ts";
import { LOG_COMMANDS } from "./logs.ts";
import { HOSTS_COMMANDS } from "./hosts.ts";
import { MACHINE_COMMANDS } from "./machines.ts";
import { MAP_COMMANDS } from "./maps.ts";
import { ORGANIZATION_COMMANDS } from "./organizations.ts";
import { PACKAGE_COMMANDS } from "./registry/packages.ts";
import { RELEASE_COMMANDS } from "./registry/releases.ts";
import { SECRET_COMMANDS } from "./secrets.ts";
import { LOGIN_COMMANDS } from "./remote/login.ts";
import { requireHost } from "./remote/profiles.ts";
import { SERVE } from "./serve/serve.ts";
import { CLOUD_FLAGS, type CloudFlags } from "./cloud_flags.ts";

export const CLOUD_PROGRAM: CommandProgram<CloudProgramContext> = {
  name: "svc-cloud",
  summary:
    "Serves a control plane for machines, agents and training jobs, so that all of them work without anybody else's cloud.",
  flags: CLOUD_FLAGS,
  commands: [
    onHost(SERVE),
    onHost(INIT),
    ...ORGANIZATION_COMMANDS,
    ...MACHINE_COMMANDS,
    ...HOSTS_COMMANDS,
    ...KEY_COMMANDS,
    ...PERSON_COMMANDS,
    ...CONFIGURATION_COMMANDS,
    ...FRAGMENT_COMMANDS,
    ...ROLLOUT_COMMANDS,
    ...LOG_COMMANDS,
    ...PACKAGE_COMMANDS,
    ...MAP_COMMANDS,
    ...CONTENT_COMMANDS,
    ...DATABASE_COMMANDS,
    BACKUP,
    onHost(RESTORE),
    ...TRIGGER_COMMANDS,
    ...USAGE_COMMANDS,
    ...EXPORT_COMMANDS,
    ...RELEASE_COMMANDS,
    ...SECRET_COMMANDS,
    ...ADMINISTRATOR_COMMANDS,
    ...LOGIN_COMMANDS,
  ],
  variables: [
    ["SVC_CLOUD_DATA", "the data folder, as --data"],
    ["SVC_CLOUD_DATABASE", "a PostgreSQL database, as --database"],
    ["SVC_CLOUD_KEYS", "the folder of the control plane's own keys, as --keys"],
    ["SVC_CLOUD_FILES", "where uploaded files are, as --files"],
    ["SVC_CLOUD_PROFILE", "the control plane elsewhere that commands work on, as --profile"],
    ["SVC_CLOUD_LIMITS", "the file with limits for callers, as --limits"],
    ["SVC_CLOUD_PUBLIC_URL", "the address that people and machines use, as --public-url"],
    ["SVC_CLOUD_MACHINE_DOMAIN", "the domain of the machines' names, as --machine-domain"],
    ["SVC_CLOUD_METRICS_KEY_FILE", "the file with the key for /metrics, as --metrics-key-file"],
    ["SVC_CLOUD_SMTP", "the mail server for triggers, as --smtp"],
    ["SVC_CLOUD_SMTP_PASSWORD_FILE", "the file with its password, as --smtp-password-file"],
    ["SVC_CLOUD_SMTP_FROM", "the sender of mails, as --smtp-from"],
    [
      "SVC_CLOUD_TRIGGER_ALLOW",
      "hosts that webhooks may reach although they are not public, as --trigger-allow",
    ],
    ["SVC_CLOUD_OIDC_ISSUER", "the provider at which people may sign in, as --oidc-issuer"],
    ["SVC_CLOUD_OIDC_CLIENT", "the id of svc-cloud there, as --oidc-client"],
    ["SVC_CLOUD_OIDC_SECRET_FILE", "the file with its secret there, as --oidc-secret-file"],
    ["SVC_CLOUD_OIDC_NAME", "how the page calls the provider, as --oidc-name"],
    ["SVC_CLOUD_OIDC_DOMAIN", "whose e-mail addresses sign in there, as --oidc-domain"],
    ["SVC_CLOUD_MOVE_TO", "the database to move to, as --to of database move"],
    ["SVC_CLOUD_TRAINING", "the trainers, as --training"],
    ["NO_COLOR", "turns colours in logs off, with any value"],
  ],
  exits: [
    ["0", "success; serve was told to stop"],
    ["1", "failed; standard error has the reason"],
    ["2", "the command line is wrong"],
  ],
  manual: {
    purpose: "a control plane for machines, agents and training jobs",
    description: [
      "Every command but \\fBserve\\fR works on the database itself, whether or not a control plane is being served from it.",
      "Results go to standard output: text, or with \\fB\\-\\-json\\fR one JSON value. Hints go to standard error.",
    ],
    files: [
      ["svc-cloud-data/cloud.db", "the database, where --database names none"],
      ["svc-cloud-data/files/", "the uploaded files"],
      ["svc-cloud-data/keys/", "the control plane's own keys, where --keys names no other folder"],
      ["svc-cloud-data/metrics.key", "the key for /metrics"],
    ],
    examples: [
      ["svc-cloud serve --demo", "Try it: serve, and make an example with a machine and a dataset."],
      ["svc-cloud init --json > keys.json", "Begin with an organization, a machine and keys."],
      ["svc-cloud machine create rover > /etc/svc.json", "Make a machine; its file has all that it needs."],
      ["svc-cloud config set $part rover.json", "Check a configuration, and give it to a machine."],
      ["svc-cloud logs $part --level error --follow", "See what goes wrong on it."],
      ["source <(svc-cloud completion bash)", "Complete command lines in this shell."],
    ],
  },
  // Statements of SQLite run in programs of their own; PostgreSQL's do not.
  rightsOf: (command, { database, keys }) => {
    const isOther = ["serve", "init"].includes(command.words) || opensNamedFiles(command, [keys]);
    return database === "" || isOther ? undefined : USUAL_RIGHTS;
  },
  candidates: cloudCandidates,
};

/** A command that has no control plane elsewhere to work on. */
function onHost(command: CloudCommand): CloudCommand {
  const run: CloudCommand["run"] = (context, words, values) => {
    requireHost(command.words, values as CloudFlags, context.host);
    return command.run(context, words, values);
  };
  return { ...command, run };
}

/** Runs the program; returns its exit code. */
export async function run(args: readonly string[], host: DenoHost): Promise<number> {
  return await runCommand(CLOUD_PROGRAM, args, { host });
}
