/**
 * A control plane for people who have none: `svc-cloud`, started beside this program.
 *
 * It gets an example, keeps its data in a folder of the user's, continues after this program's end, and has the profile
 * `embedded` from then on. Each step is reported.
 */

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import { isObject } from "../../lib/base/schema/schema.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import type { Profile } from "../../lib/cloud_client/profile.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { AppService } from "../../proto/gen/app_pb.ts";
import { type MlCommand, mlCommand } from "./command.ts";
import type { Account, MlCommandContext } from "./command_context.ts";

const EMBEDDED = "embedded";
const USUAL_PORT = 8090;
const START_MS = 60_000;
const POLL_MS = 200;
const ANSWER_MS = 2_000;
const STOP_MS = 30_000;

/** Starts the control plane unless it serves already, and switches to it. */
export async function useEmbedded(context: MlCommandContext): Promise<void> {
  const { profiles } = await context.profiles.read();
  const known = Object.hasOwn(profiles, EMBEDDED) ? profiles[EMBEDDED] : undefined;
  if (known && await answers(context, known) === undefined) {
    context.note(`using svc-cloud at ${known.baseUrl}`);
    return context.choose(accountOf(known));
  }
  const folder = folderOf(context);
  const program = await programBeside(context);
  const profile = known ?? await initialize(context, program, folder);
  await context.profiles.save(EMBEDDED, profile, { stay: true });
  await start(context, program, folder, profile);
  context.choose(accountOf(profile));
}

/** The address of the control plane of this computer that answers: the embedded one, or one at the usual port. */
export async function localControlPlane(context: MlCommandContext): Promise<string | undefined> {
  const { profiles } = await context.profiles.read();
  const { baseUrl } = Object.hasOwn(profiles, EMBEDDED) ? profiles[EMBEDDED] ?? {} : {};
  for (const url of new Set([...baseUrl ? [baseUrl] : [], `http://localhost:${USUAL_PORT}`])) {
    const { port, hostname: host } = new URL(url);
    if (await isServed(host, Number(port))) return url;
  }
  return undefined;
}

async function isServed(hostname: string, port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname, port })).close();
    return true;
  } catch {
    return false;
  }
}

export const STOP_EMBEDDED: MlCommand = mlCommand(
  "embedded stop",
  [],
  "Stops the control plane that --embedded has started. Its data stay; the next --embedded goes on with them.",
  [],
  async (context) => {
    const folder = folderOf(context);
    const { profiles } = await context.profiles.read();
    const known = Object.hasOwn(profiles, EMBEDDED) ? profiles[EMBEDDED] : undefined;
    const pid = Number((await context.host.readTextFile(pidFileIn(folder)).catch(() => "")).trim());
    const runs = known !== undefined && await answers(context, known) === undefined;
    if (!runs || !Number.isSafeInteger(pid) || pid <= 0 || !await isOurs(context, pid, folder)) {
      const why = runs
        ? `svc-cloud at ${known.baseUrl} was not started by svc-ml: stop it where it was started`
        : "no embedded control plane is running";
      throw new SvcError("failed_precondition", why);
    }
    Deno.kill(pid, "SIGTERM");
    const endMs = context.clock.monotonicMs() + STOP_MS;
    while (await answers(context, known) === undefined) {
      if (context.clock.monotonicMs() > endMs) {
        throw new SvcError("deadline_exceeded", `process ${pid} still serves after ${STOP_MS / 1000} s`);
      }
      await context.clock.sleep(POLL_MS, context.signal);
    }
    await context.host.remove(pidFileIn(folder)).catch(() => {});
    context.print({ stopped: known.baseUrl, pid }, [`svc-cloud at ${known.baseUrl} has stopped`]);
  },
);

/** Numbers of processes are used again: the command line must name the folder, where the system tells it. */
async function isOurs({ host }: MlCommandContext, pid: number, folder: string): Promise<boolean> {
  if (Deno.build.os !== "linux") return true;
  return (await host.readTextFile(`/proc/${pid}/cmdline`).catch(() => "")).includes(folder);
}

function folderOf(context: MlCommandContext): string {
  return join(dirname(context.profiles.path), "cloud");
}

function pidFileIn(folder: string): string {
  return join(folder, "svc-cloud.pid");
}

function accountOf({ baseUrl, keyId, key, organizationId = "" }: Profile): Account {
  return { baseUrl, keyId, key, organization: organizationId, allowInsecureCredentials: false };
}

/** The command line of svc-cloud: the executable beside this one, or the source beside this file. */
async function programBeside({ host }: MlCommandContext): Promise<Program> {
  if (!Deno.build.standalone) {
    return [Deno.execPath(), "run", "-A", fileURLToPath(new URL("../cloud/main.ts", import.meta.url))];
  }
  const name = Deno.build.os === "windows" ? "svc-cloud.exe" : "svc-cloud";
  const beside = join(dirname(Deno.execPath()), name);
  // The PATH may have it.
  return [await host.findFile(beside) ? beside : name];
}

/** A program, and the arguments before those of a command. */
type Program = readonly [path: string, ...args: string[]];

/** Creates the example, and a key to it. */
async function initialize(
  context: MlCommandContext,
  program: Program,
  folder: string,
): Promise<Profile> {
  const baseUrl = `http://localhost:${freePort()}`;
  const listen = baseUrl.slice("http://".length);
  const made = await run(program, ["init", "--example", "--json", "--data", folder, "--listen", listen]);
  if (made.code === 0) {
    context.note(`made a control plane with an example in ${folder}`);
    const example = made.value;
    const key = isObject(example.ownerKey) ? example.ownerKey : {};
    return profileOf(baseUrl, key, { id: example.organizationId, name: example.organizationName });
  }
  // The folder is from an earlier run, so it gets another key.
  const more = await run(program, [
    "key",
    "create",
    "--role",
    "owner",
    "--name",
    "svc-ml",
    "--json",
    "--data",
    folder,
  ]);
  if (more.code !== 0) {
    throw new SvcError("unknown", `cannot make a control plane in ${folder}: ${made.errors}`);
  }
  context.note(`found a control plane in ${folder} and made a new key to it`);
  return profileOf(baseUrl, more.value, { id: more.value.resourceId });
}

function profileOf(
  baseUrl: string,
  key: Record<string, unknown>,
  organization: { readonly id: unknown; readonly name?: unknown },
): Profile {
  const textOf = (value: unknown) => typeof value === "string" ? value : undefined;
  return {
    baseUrl,
    keyId: String(key.id),
    key: new Secret(String(key.key)),
    session: false,
    organizationId: textOf(organization.id),
    organizationName: textOf(organization.name),
    allowInsecureCreds: false,
    caFile: undefined,
  };
}

async function start(
  context: MlCommandContext,
  program: Program,
  folder: string,
  profile: Profile,
): Promise<void> {
  const listen = profile.baseUrl.slice("http://".length);
  const log = join(folder, "svc-cloud.log");
  const [command, ...args] = [
    ...program,
    "serve",
    // The models and pictures are the user's own.
    "--uploads-without-sandbox",
    "--demo",
    "--data",
    folder,
    "--listen",
    listen,
    "--log-file",
    log,
  ];
  const child = spawn(command, args);
  let ended: number | undefined;
  void child.status.then(({ code }) => ended = code);
  const { clock } = context;
  const endMs = clock.monotonicMs() + START_MS;
  for (;;) {
    const problem = await answers(context, profile);
    if (problem === undefined) break;
    if (ended !== undefined || clock.monotonicMs() > endMs) {
      const found = ended === undefined ? `does not answer: ${problem}` : `ended with exit code ${ended}`;
      throw new SvcError("unavailable", `svc-cloud ${found}; its log is ${log}`);
    }
    await clock.sleep(POLL_MS, context.signal);
  }
  child.unref();
  await context.host.writeFile(pidFileIn(folder), `${child.pid}\n`);
  context.note(
    `started svc-cloud at ${profile.baseUrl} as process ${child.pid}; stop it with: svc-ml embedded stop`,
  );
  context.note(`it keeps everything in ${folder} and writes its log to ${log}`);
  context.note(`its key is kept as profile "${EMBEDDED}" in ${context.profiles.path}`);
}

function spawn(command: string, args: readonly string[]): Deno.ChildProcess {
  try {
    const quiet = { stdin: "null", stdout: "null", stderr: "null" } as const;
    // Detached, so that Ctrl-C here does not reach it.
    return new Deno.Command(command, { args: [...args], ...quiet, detached: true }).spawn();
  } catch (cause) {
    throw missing(command, cause);
  }
}

function missing(command: string, cause: unknown): SvcError {
  const wanted = "put the executable svc-cloud beside svc-ml";
  return new SvcError("not_found", `cannot run ${command}: ${messageOf(cause)}; ${wanted}`, { cause });
}

/** Runs a command that prints JSON. */
async function run(program: Program, args: readonly string[]) {
  const [command, ...before] = program;
  const decoder = new TextDecoder();
  try {
    const { code, stdout, stderr } = await new Deno.Command(command, {
      args: [...before, ...args],
      stdin: "null",
    })
      .output();
    const value: unknown = code === 0 ? JSON.parse(decoder.decode(stdout)) : {};
    return { code, errors: decoder.decode(stderr).trim(), value: isObject(value) ? value : {} };
  } catch (cause) {
    throw missing(command, cause);
  }
}

/** `undefined` if the control plane accepts the key, else the reason. */
async function answers(
  context: MlCommandContext,
  { baseUrl, keyId, key }: Profile,
): Promise<string | undefined> {
  const channel = connectApp({ address: baseUrl, keyId, key, clock: context.clock });
  try {
    await client(AppService, channel).listOrganizations({}, { timeoutMs: ANSWER_MS, signal: context.signal });
    return undefined;
  } catch (error) {
    context.signal.throwIfAborted();
    return messageOf(error);
  } finally {
    channel.close();
  }
}

function freePort(): number {
  for (const port of [USUAL_PORT, 0]) {
    try {
      using listener = Deno.listen({ hostname: "127.0.0.1", port });
      return listener.addr.port;
    } catch {
      // The address belongs to another program.
    }
  }
  return USUAL_PORT;
}
