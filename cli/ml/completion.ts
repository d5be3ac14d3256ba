/**
 * Completion of command lines: the shells ask the program itself, so that commands, flags and what is in the control
 * plane are known in one place.
 *
 * `svc-ml __complete -- WORDS` prints one candidate a line for the last word, with a tab and what it is behind it.
 */

import { SvcError } from "../../lib/base/error.ts";
import {
  ModelFramework,
  ModelType,
  spellingsOf,
  TrainingStatus,
} from "../../lib/cloud_client/training_client.ts";
import { PackageType } from "../../proto/gen/packages_pb.ts";
import type { Flag } from "../flags.ts";
import { type Command, command, commandOf } from "./command.ts";
import { COMMON, type Session } from "./session.ts";

const SHELLS = ["bash", "zsh", "fish", "powershell"] as const;
/** Nobody waits longer for a completion. */
const LOOKUP_MS = 2_000;

interface Candidate {
  readonly word: string;
  readonly about?: string;
}

export const COMPLETION_COMMANDS: readonly Command[] = [
  command(
    "completion",
    ["SHELL"],
    `Prints a script by which a shell completes command lines: ${SHELLS.join(", ")}.`,
    [],
    (session, [wanted]) => {
      const shell = SHELLS.find((one) => one === wanted);
      if (!shell) {
        throw new SvcError("invalid_argument", `found shell "${wanted}", wanted ${SHELLS.join(", ")}`);
      }
      session.host.write(SCRIPTS[shell]);
      return Promise.resolve();
    },
  ),
];

/** Prints what the last word of a command line may become. Whatever goes wrong, it prints less. */
export async function complete(
  session: Session,
  commands: readonly Command[],
  words: readonly string[],
): Promise<void> {
  const candidates = await candidatesFor(session, commands, words);
  // PowerShell has no other way to pass an empty word.
  const begun = (words.at(-1) ?? "").replace(/^""$/, "");
  const fitting = candidates.filter(({ word }) => word.startsWith(begun));
  session.host.write(fitting.map(({ word, about }) => `${about ? `${word}\t${about}` : word}\n`).join(""));
}

async function candidatesFor(
  session: Session,
  commands: readonly Command[],
  words: readonly string[],
): Promise<Candidate[]> {
  const [last = "", before = ""] = [...words].reverse();
  const { command: found, words: told } = commandOf(commands, words.slice(0, -1));
  const flags: readonly Flag[] = [...found?.flags ?? [], ...COMMON];
  const open = flags.find(({ name, short, type }) => {
    return type !== "bool" && (before === `--${name}` || before === `-${short}`);
  });
  if (open) return await valuesOf(session, open.value ?? "");
  if (last.startsWith("-")) {
    const help: Candidate = { word: "--help", about: "Print this help and exit." };
    return [...flags.map(({ name, help }) => ({ word: `--${name}`, about: help })), help];
  }
  const next = nextWords(commands, told);
  if (!found) return next;
  const position = Math.min(told.length - found.words.split(" ").length, found.takes.length - 1);
  const takes = found.takes[position] ?? "";
  return [...next, ...await valuesOf(session, takes.replace(/[[\].]/g, ""))];
}

/** The words that may follow those of a command that has not been told whole. */
function nextWords(commands: readonly Command[], given: readonly string[]): Candidate[] {
  const found = new Map<string, string>();
  for (const { words, summary } of commands) {
    const all = words.split(" ");
    if (given.length >= all.length || given.some((word, at) => word !== all[at])) continue;
    const whole = all.length === given.length + 1;
    found.set(all[given.length], whole ? summary : found.get(all[given.length]) ?? "");
  }
  return [...found].map(([word, about]) => ({ word, about }));
}

/** What can stand where the usage line has `placeholder`. */
async function valuesOf(session: Session, placeholder: string): Promise<Candidate[]> {
  const plain = (words: readonly string[]) => words.map((word) => ({ word }));
  switch (placeholder) {
    case "TYPE":
      return plain(spellingsOf(ModelType));
    case "FRAMEWORK":
      return plain(spellingsOf(ModelFramework));
    case "STATUS":
      return plain(spellingsOf(TrainingStatus));
    case "ORDER":
      return plain(["created", "-created", "ended", "-ended", "status", "-status", "model", "-model"]);
    case "LEVEL":
      return plain(["debug", "info", "warn", "error"]);
    case "FORM":
      return plain(["table", "json"]);
    case "SHELL":
      return plain(SHELLS);
    case "WHO":
      return plain(["private", "public", "public-unlisted"]);
    case "PROFILE":
      return plain(Object.keys((await session.profiles.read()).profiles));
    default:
      return await lookedUp(session, placeholder);
  }
}

/** What is in the control plane; nothing where it cannot be asked. */
async function lookedUp(session: Session, placeholder: string): Promise<Candidate[]> {
  const limits = { timeoutMs: LOOKUP_MS, ...session.limits };
  try {
    if (!["JOB", "DATASET", "MODEL", "ORGANIZATION"].includes(placeholder)) return [];
    const { jobs, datasets, packages, app } = await session.services();
    if (placeholder === "ORGANIZATION") {
      return (await app.listOrganizations({}, limits)).organizations.map(({ id, name }) => ({
        word: id,
        about: name,
      }));
    }
    const organizationId = await session.organization();
    if (placeholder === "JOB") {
      const all = await jobs.listTrainingJobs(organizationId, TrainingStatus.UNSPECIFIED, limits);
      return all.map(({ id, modelName, modelVersion, status }) => ({
        word: id,
        about: `${modelName} ${modelVersion} ${TrainingStatus[status]}`,
      }));
    }
    if (placeholder === "DATASET") {
      const all = (await datasets.listDatasetsByOrganizationID({ organizationId }, limits)).datasets;
      return all.map(({ id, name }) => ({ word: name.includes(" ") ? id : name, about: id }));
    }
    const all =
      (await packages.listPackages({ organizationId, type: PackageType.ML_MODEL }, limits)).packages;
    return [...new Set(all.map(({ info }) => info?.name ?? ""))].map((word) => ({ word }));
  } catch {
    return [];
  }
}

/** Where there is no candidate the shells offer files. */
const SCRIPTS: { readonly [S in typeof SHELLS[number]]: string } = {
  bash: `# Completion of svc-ml for bash: source <(svc-ml completion bash)
_svc_ml() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <(svc-ml __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -o nosort -F _svc_ml svc-ml
`,
  zsh: `#compdef svc-ml
# Completion of svc-ml for zsh: source <(svc-ml completion zsh), or save it as _svc-ml in a folder of $fpath.
_svc_ml() {
  local line
  local -a found
  while IFS= read -r line; do
    if [[ "$line" == *$'\\t'* ]]; then
      found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    else
      found+=("\${line//:/\\\\:}")
    fi
  done < <(svc-ml __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then
    _describe -V 'svc-ml' found
  else
    _files
  fi
}
compdef _svc_ml svc-ml
`,
  fish: `# Completion of svc-ml for fish: svc-ml completion fish > ~/.config/fish/completions/svc-ml.fish
function __svc_ml_complete
    set -l words (commandline -opc)
    svc-ml __complete -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c svc-ml -k -a '(__svc_ml_complete)'
`,
  powershell:
    `# Completion of svc-ml for PowerShell: svc-ml completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName svc-ml -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($wordToComplete -eq '') { $words += '""' }
    svc-ml __complete -- @words 2>$null | ForEach-Object {
        $word, $about = $_ -split "\`t", 2
        if (-not $about) { $about = $word }
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $about)
    }
}
`,
};
