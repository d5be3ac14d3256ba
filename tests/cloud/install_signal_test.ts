/**
 * The installer that somebody ends: it does nothing more, and leaves nothing.
 */

import { assertEquals } from "@std/assert";

const INSTALLER = new URL("../../install/install.sh", import.meta.url).pathname;

/** Programs of a new device, on which the first download ends with `signal` for the installer. */
function programs(signal: string): { readonly [name: string]: string } {
  return {
    id: "echo 0",
    systemctl: "exit 0",
    uname: 'case $1 in -s) echo Linux ;; *) /bin/uname "$@" ;; esac',
    curl: `echo download >>"$CALLS"; kill -${signal} $PPID; exit 22`,
  };
}

/** What the installer did until its end. */
async function ended(signal: string) {
  const folder = await Deno.makeTempDir({ prefix: "svc-install-" });
  try {
    for (const [name, text] of Object.entries(programs(signal))) {
      await Deno.writeTextFile(`${folder}/${name}`, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    }
    const [calls, temporary] = [`${folder}/calls`, `${folder}/temporary`];
    await Deno.mkdir(temporary);
    // The program that started the tests may have these signals ignored.
    const { code, stderr } = await new Deno.Command("env", {
      args: ["--default-signal=HUP,INT,TERM", "sh", INSTALLER],
      env: {
        PATH: `${folder}:/usr/bin:/bin`,
        CALLS: calls,
        TMPDIR: temporary,
        SVC_ROOT_URL: "http://127.0.0.1:1",
      },
      clearEnv: true,
      stdin: "null",
    }).output();
    return {
      code,
      errors: new TextDecoder().decode(stderr),
      calls: await Deno.readTextFile(calls),
      left: [...Deno.readDirSync(temporary)].map(({ name }) => name),
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

for (const [signal, code] of [["INT", 130], ["TERM", 143], ["HUP", 129]] as const) {
  Deno.test({
    name: `SIG${signal} ends the installer at once, with the exit code ${code}`,
    ignore: Deno.build.os !== "linux",
    fn: async () => {
      assertEquals(await ended(signal), { code, errors: "", calls: "download\n", left: [] });
    },
  });
}
