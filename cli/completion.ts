/**
 * Completion of command lines: the shells ask the program itself, so that its table of commands is the only source.
 *
 * `svc-ml __complete -- WORDS` prints one candidate per line for the last word, followed by a tab and its description.
 */

import { didYouMean } from "../lib/base/schema/suggest.ts";
import {
  calledIn,
  type Candidate,
  type Command,
  type CommandContext,
  type CommandProgram,
  lengthOf,
} from "./command.ts";
import { type Flag, parseFlags, UsageError } from "./flags.ts";

const SHELLS = ["bash", "zsh", "fish", "powershell"] as const;

/** A placeholder that lists its choices: `token|links`. */
const CHOICES = /^[a-z-]+(?:\|[a-z-]+)+$/;

export function completionCommand(program: string): Command<CommandContext> {
  return {
    words: "completion",
    takes: ["SHELL"],
    summary: `Prints a script by which a shell completes command lines: ${SHELLS.join(", ")}.`,
    flags: [],
    run: ({ host }, [wanted]: readonly [shell: string]) => {
      const shell = SHELLS.find((one) => one === wanted);
      if (!shell) {
        const hint = didYouMean(wanted, SHELLS);
        throw new UsageError(`found shell "${wanted}", wanted ${SHELLS.join(", ")}${hint}`);
      }
      host.write(SCRIPTS[shell](program, program.replaceAll("-", "_")));
      return Promise.resolve();
    },
  };
}

/** Prints the candidates for the last word of a command line. An error shortens the list and is not shown. */
export async function complete<W extends CommandContext>(
  program: CommandProgram<W>,
  words: readonly string[],
  context: W,
): Promise<void> {
  const candidates = await candidatesFor(program, words, context);
  // PowerShell cannot pass an empty word in another way.
  const begun = (words.at(-1) ?? "").replace(/^""$/, "");
  const fitting = candidates.filter(({ word }) => word.startsWith(begun));
  context.host.write(fitting.map(({ word, about }) => `${about ? `${word}\t${about}` : word}\n`).join(""));
}

async function candidatesFor<W extends CommandContext>(
  program: CommandProgram<W>,
  words: readonly string[],
  context: W,
): Promise<readonly Candidate[]> {
  const { commands } = program;
  const [last = "", before = ""] = [...words].reverse();
  const { command: found, words: expanded } = calledIn(program, words.slice(0, -1));
  const flags: readonly Flag[] = [...found?.flags ?? [], ...program.flags];
  const open = flags.find(({ name, short, type }) => {
    return type !== "bool" && (before === `--${name}` || before === `-${short}`);
  });
  const valuesOf = async (placeholder: string, flag?: string) => {
    if (placeholder === "SHELL") return SHELLS.map((word) => ({ word }));
    if (CHOICES.test(placeholder)) return placeholder.split("|").map((word) => ({ word }));
    const { values } = parseFlags(program.flags, "gnu", words, (name) => context.host.env(name));
    try {
      const blank = { placeholder, command: found?.words ?? "", flag };
      return await program.candidates?.(context, values as never, blank) ?? [];
    } catch {
      return [];
    }
  };
  if (open) return await valuesOf(open.value ?? "", open.name);
  if (last.startsWith("-")) {
    const help: Candidate = { word: "--help", about: "Print this help and exit." };
    return [...flags.map(({ name, help }) => ({ word: `--${name}`, about: help })), help];
  }
  const next = nextWords(commands, expanded);
  if (!found) return next;
  const position = Math.min(expanded.length - lengthOf(found), found.takes.length - 1);
  const takes = found.takes[position] ?? "";
  return [...next, ...await valuesOf(takes.replace(/[[\].]/g, ""))];
}

/** The next words of commands that `words` begin. */
function nextWords(
  commands: readonly Pick<Command<CommandContext>, "words" | "summary">[],
  given: readonly string[],
): Candidate[] {
  const found = new Map<string, string>();
  for (const { words, summary } of commands) {
    const all = words.split(" ");
    const next = all[given.length];
    if (next === undefined || given.some((word, at) => word !== all[at])) continue;
    const whole = all.length === given.length + 1;
    found.set(next, whole ? summary : found.get(next) ?? "");
  }
  return [...found].map(([word, about]) => ({ word, about }));
}

/** Without candidates, the shells offer files. `id` is the name in letters that function names allow. */
const SCRIPTS: { readonly [S in typeof SHELLS[number]]: (name: string, id: string) => string } = {
  bash: (name, id) =>
    `# Completion of ${name} for bash: source <(${name} completion bash)
_${id}() {
  local i line word last=-1 joins= begun=
  local -a words=()
  COMPREPLY=()
  # bash divides a word at its colons: machine:rover arrives as three words, and only the last one is replaced.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if [[ $last -ge 0 && ( -n $joins || $word == : ) ]]; then words[last]+=$word
    else words[++last]=$word
    fi
    joins=
    if [[ $word == : ]]; then joins=yes; fi
  done
  word=\${words[last]}
  if [[ $COMP_WORDBREAKS == *:* && $word == *:* ]]; then begun="\${word%:*}:"; fi
  while IFS= read -r line; do
    line="\${line%%$'\\t'*}"
    COMPREPLY+=("\${line#"$begun"}")
  done < <(${name} __complete -- "\${words[@]}" 2>/dev/null)
}
# bash before 4.4 knows no nosort, and then registers nothing.
complete -o default -o nosort -F _${id} ${name} 2>/dev/null || complete -o default -F _${id} ${name}
`,
  zsh: (name, id) =>
    `#compdef ${name}
# Completion of ${name} for zsh: source <(${name} completion zsh), or save it as _${name} in a folder of $fpath.
_${id}() {
  local line
  local -a found
  while IFS= read -r line; do
    if [[ "$line" == *$'\\t'* ]]; then
      found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    else
      found+=("\${line//:/\\\\:}")
    fi
  done < <(${name} __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then
    _describe -V '${name}' found
  else
    _files
  fi
}
compdef _${id} ${name}
# From a folder of $fpath, the whole file runs as a function at the first Tab, which wants candidates.
if [[ \${funcstack[1]} == _${name} ]]; then _${id} "$@"; fi
`,
  fish: (name, id) =>
    `# Completion of ${name} for fish: ${name} completion fish > ~/.config/fish/completions/${name}.fish
function __${id}_complete
    set -l words (commandline -opc)
    ${name} __complete -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c ${name} -k -a '(__${id}_complete)'
`,
  powershell: (name) =>
    `# Completion of ${name} for PowerShell: ${name} completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName ${name} -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($wordToComplete -eq '') { $words += '""' }
    ${name} __complete -- @words 2>$null | ForEach-Object {
        $word, $about = $_ -split "\`t", 2
        if (-not $about) { $about = $word }
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $about)
    }
}
`,
};
