/** PgBouncer in front of a PostgreSQL server, Debian's, in a folder of its own. */

import { freePort } from "./free_port.ts";
import { type Needed, outputOf } from "./needing.ts";
import { until } from "./until.ts";

const PROGRAM = "/usr/sbin/pgbouncer";
/** PgBouncer does not run as root. */
const NOBODY = Deno.uid() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;

/** Its program, as a test's need. */
export async function pgbouncer(): Promise<Needed<string>> {
  const found = await outputOf(PROGRAM, "--version");
  return found ? { found: PROGRAM } : { missing: "PgBouncer: apt-get install pgbouncer" };
}

/** Runs `work` with the port of a pooler. `settings` are lines of its file. */
export async function withPgBouncer(
  { program, server, settings }: {
    readonly program: string;
    readonly server: number;
    readonly settings: string;
  },
  work: (port: number) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-pgbouncer-" });
  const port = freePort();
  const file = `${folder}/pgbouncer.ini`;
  await Deno.writeTextFile(`${folder}/users`, '"svc" ""\n');
  await Deno.writeTextFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${folder}/users
${settings}
`,
  );
  await Deno.chmod(folder, 0o755);
  const child = new Deno.Command(program, {
    args: [file],
    stdin: "null",
    stdout: "null",
    stderr: "null",
    ...NOBODY,
  }).spawn();
  try {
    await until(() =>
      Deno.connect({ hostname: "127.0.0.1", port }).then((socket) => (socket.close(), true), () => false)
    );
    await work(port);
  } finally {
    child.kill("SIGINT");
    await child.status;
    await Deno.remove(folder, { recursive: true });
  }
}
