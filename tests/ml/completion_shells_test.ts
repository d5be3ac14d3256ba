/**
 * Completion scripts where shells are old, or load them in another way.
 */

import { assertEquals } from "@std/assert";
import { svcMl } from "./program.ts";

async function scriptFor(shell: string): Promise<string> {
  return (await svcMl(["completion", shell])).output;
}

async function ran(shell: string, args: readonly string[], script: string, cwd?: string): Promise<string> {
  const command = new Deno.Command(shell, { args: [...args, "-c", script], stdin: "null", cwd });
  const { stdout, stderr } = await command.output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

function hasShell(shell: string): boolean {
  try {
    return new Deno.Command(shell, { args: ["-c", ":"], stdin: "null" }).outputSync().success;
  } catch {
    return false;
  }
}

/** As bash before 4.4. */
const OLD_COMPLETE = `complete() {
  case " $* " in *" nosort "*) echo "complete: nosort: invalid option name" >&2; return 2 ;; esac
  builtin complete "$@"
}
`;

Deno.test({
  name: "the completion for bash registers in every version, sorted where bash knows no other way",
  ignore: !hasShell("bash"),
  fn: async () => {
    const script = await scriptFor("bash");
    const plain = ["--norc", "--noprofile"];
    const ask = "\ncomplete -p svc-ml";
    assertEquals(
      await ran("bash", plain, OLD_COMPLETE + script + ask),
      "complete -o default -F _svc_ml svc-ml\n",
    );
    assertEquals(
      await ran("bash", plain, script + ask),
      "complete -o default -o nosort -F _svc_ml svc-ml\n",
    );
  },
});

Deno.test({
  name: "the completion for zsh answers the first Tab, from a folder of $fpath as well as sourced",
  ignore: !hasShell("zsh"),
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-completion-" });
    try {
      await Deno.writeTextFile(`${folder}/_svc-ml`, await scriptFor("zsh"));
      await Deno.writeTextFile(`${folder}/svc-ml`, '#!/bin/sh\nprintf "status\\tabout\\n"\n', {
        mode: 0o755,
      });
      // Stand-ins for what zsh has only while somebody types.
      const typing = `path=(. $path); words=(svc-ml ''); CURRENT=2
_describe() { print -r -- $found }
compdef() { print registered $1 }
`;
      const autoloaded = "fpath=(. $fpath); autoload -Uz _svc-ml; _svc-ml; _svc_ml";
      assertEquals(
        await ran("zsh", ["-df"], typing + autoloaded, folder),
        "registered _svc_ml\nstatus:about\nstatus:about\n",
      );
      assertEquals(
        await ran("zsh", ["-df"], `${typing}source ./_svc-ml; _svc_ml`, folder),
        "registered _svc_ml\nstatus:about\n",
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
