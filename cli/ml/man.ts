/**
 * The manual page of `svc-ml`, made from its table of commands. Pure.
 */

import type { Flag } from "../flags.ts";
import type { Command } from "./command.ts";
import { COMMON } from "./session.ts";

export const EXIT_TEXTS: readonly (readonly [code: string, meaning: string])[] = [
  ["0", "done; of a job that was waited for: it completed"],
  ["1", "failed; of a job that was waited for: it failed or was canceled"],
  ["2", "the command line, or what was asked for, is wrong"],
  ["3", "nobody is logged in, or the key may not do this"],
  ["4", "there is nothing of this id or name"],
  ["5", "it conflicts with what is there, or what it needs is missing"],
  ["124", "the time to wait was over; the job goes on"],
  ["130", "Ctrl-C ended the waiting; the job goes on"],
];

export const VARIABLES: readonly (readonly [name: string, meaning: string])[] = [
  ["SVC_BASE_URL", "where the control plane is, as --base-url"],
  ["SVC_API_KEY_ID", "the id of the API key"],
  ["SVC_API_KEY", "the API key; it must be an owner's of the organization"],
  ["SVC_ORG_ID", "the organization's id or name, as --org-id"],
  ["SVC_PROFILE", "the profile to use, as --profile; it goes before the key of the environment"],
  ["SVC_CA_FILE", "the authority to trust, as --ca-file"],
  ["SVC_HOME", "the folder of profiles.json; ~/.svc where it is not set"],
  ["NO_COLOR", "no colours, whatever it is set to"],
];

export const EXAMPLES: readonly (readonly [line: string, about: string])[] = [
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
  ["svc-ml list --status running --json | jq -r '.jobs[].id'", "Use what it prints in other programs."],
];

/** The page in roff, with the macros of man. */
export function manualPage(summary: string, commands: readonly Command[]): string {
  const common: readonly Flag[] = COMMON;
  return [
    '.\\" Made by svc-ml man.',
    ".TH SVC-ML 1",
    ".SH NAME",
    "svc\\-ml \\- submits and follows training jobs",
    ".SH SYNOPSIS",
    ".B svc\\-ml",
    ".I COMMAND",
    "[\\fIflags\\fR]",
    ".SH DESCRIPTION",
    escaped(summary),
    "Data goes to standard output: a table, or with \\fB\\-\\-json\\fR the messages of the control plane in the JSON of protobuf,",
    "one object, or one a line for logs. Hints and progress go to standard error.",
    ".SH COMMANDS",
    ...commands.flatMap(commandText),
    ".SH FLAGS OF EVERY COMMAND",
    ...common.flatMap(flagText),
    ".SH EXIT STATUS",
    ...EXIT_TEXTS.flatMap(pairText),
    ".SH ENVIRONMENT",
    ...VARIABLES.flatMap(pairText),
    ".SH FILES",
    ...pairText(["$SVC_HOME/profiles.json", "what login has kept, for the user's eyes only"]),
    ".SH EXAMPLES",
    ...EXAMPLES.flatMap((
      [line, about],
    ) => [".PP", escaped(about), ".PP", ".RS", ".EX", escaped(line), ".EE", ".RE"]),
    "",
  ].join("\n");
}

function commandText({ words, takes, summary, flags }: Command): string[] {
  const taken = takes.map((one) => ` \\fI${escaped(one)}\\fR`).join("");
  return [`.SS svc\\-ml ${escaped(words)}${taken}`, escaped(summary), ...flags.flatMap(flagText)];
}

function flagText({ name, short, type, value, help, env }: Flag): string[] {
  const shown = value ?? { bool: "", string: "TEXT", list: "TEXT", int: "N", duration: "DURATION" }[type];
  const names = [...short ? [`\\fB\\-${short}\\fR`] : [], `\\fB\\-\\-${escaped(name)}\\fR`].join(", ");
  const notes = [...type === "list" ? ["May be repeated."] : [], ...env ? [`Environment: ${env}.`] : []];
  return [
    ".TP",
    shown === "" ? names : `${names} \\fI${escaped(shown)}\\fR`,
    escaped([help, ...notes].join(" ")),
  ];
}

function pairText([name, meaning]: readonly [string, string]): string[] {
  return [".TP", `\\fB${escaped(name)}\\fR`, escaped(meaning)];
}

/** Dashes as they are typed; a line never begins with what roff takes for a request. */
function escaped(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^([.'])/, "\\&$1");
}
