/**
 * The process of a command from afar: `svc-cloud` starts itself as `svc-cloud command-worker`.
 *
 * It reads the order from its standard input and runs the command as a person on the host would, in a folder of its
 * own. The order is what an administrator has sent: only what the table of commands knows is run (`rows.ts`), and a
 * place for a file gets one that came with the order, never a path. It ends when its standard input does.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { ByteReader } from "../../../lib/base/files/byte_reader.ts";
import type { DenoHost } from "../../../lib/base/host_deno.ts";
import type { CommandRun, RunValue } from "../../../lib/cloud/services/operations/command_service.ts";
import { runCommand } from "../../dispatch.ts";
import { EXIT } from "../../program.ts";
import { VERSION } from "../../version.ts";
import type { CloudCommand } from "../command_context.ts";
import { CLOUD_PROGRAM } from "../program.ts";
import { HOST_FLAGS, REMOTE_ROWS, type RemoteRow, wordNames } from "./rows.ts";
import { LENGTH_BYTES, type WorkerOrder } from "./worker_order.ts";

/** Runs the command of the order on standard input; returns its exit code. */
export async function workOnCommand(host: DenoHost): Promise<number> {
  const input = Deno.stdin.readable[Symbol.asyncIterator]();
  const reader = new ByteReader(
    { [Symbol.asyncIterator]: () => input },
    () => new Error("the order is cut off"),
  );
  const length = await reader.take(LENGTH_BYTES);
  const text = await reader.take(new DataView(length.buffer, length.byteOffset).getUint32(0));
  const { run, place }: WorkerOrder = JSON.parse(new TextDecoder().decode(text));
  void endWith(input);

  const { columns, coloured, who } = run;
  host.columns = () => columns || undefined;
  host.coloured = () => coloured;
  try {
    return await runCommand(CLOUD_PROGRAM, argumentsOf(run, place), { host, remote: { who } });
  } catch (error) {
    host.writeError(`svc-cloud ${run.command}: ${SvcError.from(error).message}\n`);
    return EXIT.usage;
  }
}

/** The control plane, or the call, has ended. */
async function endWith(input: AsyncIterator<Uint8Array>): Promise<never> {
  while (!(await input.next()).done);
  Deno.exit(EXIT.failed);
}

/** The command line that the order stands for. Throws for what does not run from afar. */
export function argumentsOf(run: CommandRun, place: WorkerOrder["place"]): string[] {
  const command = CLOUD_PROGRAM.commands.find((one) => one.words === run.command);
  const row = Object.hasOwn(REMOTE_ROWS, run.command) ? REMOTE_ROWS[run.command] : undefined;
  if (!command || row === undefined || row === "edit" || "onHost" in row) {
    throw refusal(command, row);
  }

  const places = wordNames(command.takes, run.words.length);
  const words = run.words.map((word, at) => valueIn(run, row, places[at], word));
  const { limits, ...shared } = place;
  const hasLimits = command.flags.some(({ name }) => HOST_FLAGS.has(name));
  return [
    ...command.words.split(" "),
    ...Object.entries(shared).map(([name, value]) => `--${name}=${value}`),
    ...hasLimits && limits !== "" ? [`--limits=${limits}`] : [],
    ...run.flags.map((flag) => `--${flag.name}=${flagIn(run, command, row, flag)}`),
    "--",
    ...words,
  ];
}

function refusal(command: CloudCommand | undefined, row: unknown): SvcError {
  if (!command) {
    const remedy = "svc-cloud here and there are different versions, or it is no command";
    return new SvcError(
      "unimplemented",
      `the control plane is svc-cloud ${VERSION} without this command: ${remedy}`,
    );
  }
  const reason = (row as { readonly onHost?: string } | undefined)?.onHost || "it runs at the caller's";
  return new SvcError("permission_denied", `does not run from afar: ${reason}`);
}

function flagIn(run: CommandRun, { flags }: CloudCommand, row: RemoteRow, flag: RunValue): string {
  if (!flags.some(({ name }) => name === flag.name) || HOST_FLAGS.has(flag.name)) {
    throw new SvcError("invalid_argument", `the control plane knows no flag --${flag.name} of this command`);
  }
  return valueIn(run, row, `--${flag.name}`, flag);
}

/** A text, or in a place for a file the path of one that came with the order. */
function valueIn({ files }: CommandRun, row: RemoteRow, place: string | undefined, value: RunValue): string {
  const isRead = [...row.reads ?? [], ...row.packs ?? []].includes(place ?? "");
  const isWritten = (row.writes ?? []).includes(place ?? "");
  if (!isRead && !isWritten) {
    if (value.text !== undefined) return value.text;
    throw new SvcError("invalid_argument", `${place ?? "a word"} takes no file`);
  }
  const file = value.file === undefined ? undefined : files[value.file];
  if (file && file.isResult === isWritten) return file.path;
  throw new SvcError("permission_denied", `${place} names no file of the caller`);
}
