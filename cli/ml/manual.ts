/**
 * The parts of `svc-ml`'s manual page beside its commands; the help text shows the variables and exit codes, too.
 */

import type { Manual, Pair } from "../command.ts";

export const EXITS: readonly Pair[] = [
  ["0", "success; the awaited job has completed"],
  ["1", "failure; the awaited job has failed or was canceled"],
  ["2", "the command line, or the request, is wrong"],
  ["3", "not logged in, or the key lacks the permission"],
  ["4", "nothing has this id or name"],
  ["5", "a conflict with an existing thing, or a missing prerequisite"],
  ["124", "the time limit of the wait is over; the job continues"],
  ["130", "Ctrl-C ended the wait; the job continues"],
];

export const VARIABLES: readonly Pair[] = [
  ["SVC_BASE_URL", "the address of the control plane, as --base-url"],
  ["SVC_API_KEY_ID", "the id of the API key"],
  ["SVC_API_KEY", "the API key, which needs the role owner on the organization"],
  ["SVC_ORG_ID", "the organization's id or name, as --org-id"],
  ["SVC_PROFILE", "the profile to use, as --profile; it overrides the key in the environment"],
  ["SVC_CA_FILE", "the authority to trust, as --ca-file"],
  ["SVC_HOME", "the folder of profiles.json; ~/.svc by default"],
  ["NO_COLOR", "turns colours off, with any value"],
];

export const MANUAL: Manual = {
  purpose: "submits and follows training jobs",
  description: [
    "Data goes to standard output: a table, or with \\fB\\-\\-json\\fR the messages of the control plane in the JSON of protobuf,",
    "one object, or one a line for logs. Hints and progress go to standard error.",
  ],
  files: [["$SVC_HOME/profiles.json", "the stored profiles, readable by their user only"]],
  examples: [
    [
      "svc-ml submit --embedded --model-type object-detection --follow",
      "Train on the example, on this computer.",
    ],
    [
      "svc-ml dataset create shapes && svc-ml dataset add shapes photos/",
      "Make a dataset; each folder in photos/ is a label.",
    ],
    [
      "svc-ml dataset check shapes --model-type single-label-classification",
      "Check whether it is enough to train on.",
    ],
    ["id=$(svc-ml submit --dataset shapes --model-type object-detection)", "Submit a job and keep its id."],
    ["svc-ml wait $id --timeout 1h && svc-ml models download shapes", "Wait for it and get the model."],
    ["svc-ml list --status running --json | jq -r '.jobs[].id'", "Use its output in other programs."],
  ],
};
