/**
 * The parts of `svc-ml`'s manual page beside its commands; the help text shows the variables and exit codes, too.
 */

import type { Manual, Pair } from "../command.ts";

export const EXITS: readonly Pair[] = [
  ["0", "done; of a job that was waited for: it completed"],
  ["1", "failed; of a job that was waited for: it failed or was canceled"],
  ["2", "the command line, or its request, is wrong"],
  ["3", "nobody is logged in, or the key lacks the right"],
  ["4", "there is nothing of this id or name"],
  ["5", "it conflicts with something that exists, or something that it needs is missing"],
  ["124", "the time limit of the wait is over; the job continues"],
  ["130", "Ctrl-C ended the wait; the job continues"],
];

export const VARIABLES: readonly Pair[] = [
  ["SVC_BASE_URL", "where the control plane is, as --base-url"],
  ["SVC_API_KEY_ID", "the id of the API key"],
  ["SVC_API_KEY", "the API key; it must be an owner's of the organization"],
  ["SVC_ORG_ID", "the organization's id or name, as --org-id"],
  ["SVC_PROFILE", "the profile to use, as --profile; it goes before the key of the environment"],
  ["SVC_CA_FILE", "the authority to trust, as --ca-file"],
  ["SVC_HOME", "the folder of profiles.json; ~/.svc by default"],
  ["NO_COLOR", "no colours, whatever it is set to"],
];

export const MANUAL: Manual = {
  purpose: "submits and follows training jobs",
  description: [
    "Data goes to standard output: a table, or with \\fB\\-\\-json\\fR the messages of the control plane in the JSON of protobuf,",
    "one object, or one a line for logs. Hints and progress go to standard error.",
  ],
  files: [["$SVC_HOME/profiles.json", "what login has kept, for the user's eyes only"]],
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
      "Tell whether it is enough to train on.",
    ],
    ["id=$(svc-ml submit --dataset shapes --model-type object-detection)", "Submit a job and keep its id."],
    ["svc-ml wait $id --timeout 1h && svc-ml models download shapes", "Wait for it and get the model."],
    ["svc-ml list --status running --json | jq -r '.jobs[].id'", "Use its output in other programs."],
  ],
};
