/**
 * CommandService: runs commands of svc-cloud for administrators who are not on the host.
 *
 * Each command is a process of the control plane's own program, which works on the database like a command on the
 * host; this process only passes bytes on. The process of the command decides whether the command may run remotely,
 * and which of its words name files.
 *
 * The room owns the calls of operators: commands, logs, records, and backups.
 */

import type {
  CommandService,
  CommandValue,
  RunRequest,
  RunResponseSchema,
} from "../../../../proto/gen/commands_pb.ts";
import { SvcError } from "../../../base/error.ts";
import type { ReadFiles, WriteFiles } from "../../../base/files/files.ts";
import { endProcess, type PipedProcess } from "../../../base/process.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import type { CloudContext } from "../../access/context.ts";
import { CommandFiles } from "../../commands/command_files.ts";
import { CommandRuns } from "../../commands/command_runs.ts";
import { Joined } from "../../commands/joined.ts";
import { RequestReader } from "../../commands/request_reader.ts";

/** The order, as passed to the command's process. */
export interface CommandRun {
  readonly command: string;
  readonly words: readonly RunValue[];
  readonly flags: readonly RunValue[];
  /** The width of the caller's terminal; 0 without one. */
  readonly columns: number;
  readonly coloured: boolean;
  /** Paths in the command's folder. */
  readonly files: readonly { readonly path: string; readonly isResult: boolean }[];
  /** The administrator. */
  readonly who: string;
}

export interface RunValue {
  readonly name: string;
  readonly text?: string;
  /** The index of a file. */
  readonly file?: number;
}

/** Runs commands. */
export interface CommandHost {
  readonly host: ReadFiles & WriteFiles;
  /** Starts the process of a command in its folder; it reads the order from its standard input. */
  start(run: CommandRun, folder: string): Promise<PipedProcess>;
}

type Answer = MessageInitShape<typeof RunResponseSchema>;

const COMMAND = /^[a-z]{1,40}( [a-z-]{1,40}){0,2}$/;
/** Limit of the words and flags of one command; the line of a shell has fewer. */
const VALUES_MAX = 10_000;
const VALUE_CHARS_MAX = 100_000;
const COLUMNS_MAX = 10_000;
/** Time for a command to end after its caller has left. */
const END_MS = 5_000;

export function commandHandlers(
  cloud: Pick<CloudContext, "audit" | "clock" | "limits">,
  commands: CommandHost | undefined,
) {
  const runs = new CommandRuns(cloud.limits);
  return {
    async *run(requests, ctx) {
      if (!commands) throw new SvcError("unimplemented", "this control plane runs no commands from afar");
      using _place = runs.enter(ctx.entity!);
      yield* runCommand(cloud, commands, new RequestReader(requests, cloud.clock, ctx.signal), ctx);
    },
  } satisfies ServiceImpl<typeof CommandService>;
}

async function* runCommand(
  { audit, clock, limits }: Pick<CloudContext, "audit" | "clock" | "limits">,
  commands: CommandHost,
  requests: RequestReader,
  { entity, signal }: CallContext,
): AsyncGenerator<Answer> {
  const first = await requests.take();
  if (first?.case !== "order") throw new SvcError("invalid_argument", "the first message is no order");
  const order = checkedOrder(first.value);
  const actor = { who: entity!, action: "RunCommand" };
  await audit.change(actor, { kind: "command", id: order.command }, () => Promise.resolve());

  await using files = await CommandFiles.open(commands.host, order.files, limits.fileBytesPerCommand);
  await files.receive(requests);
  const { command, columns, coloured } = order;
  const values = { words: order.words.map(valueOf), flags: order.flags.map(valueOf) };
  const run = { command, ...values, columns, coloured, files: files.paths, who: entity! };
  const process = await commands.start(run, files.folder);
  const end = () => endProcess(process, clock, END_MS);
  const leave = () => void end().catch(() => {});
  signal.addEventListener("abort", leave, { once: true });
  try {
    signal.throwIfAborted();
    void obey(requests, process);
    yield* outputOf(process);
    const { code } = await process.exited;
    if (code === 0) yield* files.results();
    yield { part: { case: "exitCode", value: code } };
  } finally {
    signal.removeEventListener("abort", leave);
    await end();
  }
}

function checkedOrder(order: Extract<RunRequest["part"], { case: "order" }>["value"]) {
  const { command, words, flags, columns } = order;
  if (!COMMAND.test(command)) throw new SvcError("invalid_argument", "the order names no command");
  const values = [...words, ...flags];
  const isLong = values.some(({ name, value }) =>
    name.length > VALUE_CHARS_MAX || (value.case === "text" && value.value.length > VALUE_CHARS_MAX)
  );
  if (values.length > VALUES_MAX || isLong || columns > COLUMNS_MAX) {
    throw new SvcError("invalid_argument", `the order of ${command} is longer than any command line`);
  }
  return order;
}

function valueOf({ name, value }: CommandValue): RunValue {
  return value.case === "file" ? { name, file: value.value } : { name, text: value.value ?? "" };
}

/** Obeys the caller's messages while the command runs. The end of the requests has no meaning. */
async function obey(requests: RequestReader, process: PipedProcess): Promise<void> {
  try {
    for (let next = await requests.wait(); next; next = await requests.wait()) {
      if (next.case === "stop") process.signal("SIGTERM");
    }
  } catch {
    // The call has ended, and the command with it.
  }
}

async function* outputOf(process: PipedProcess): AsyncGenerator<Answer> {
  const joined = new Joined<Answer>();
  joined.add(process.output, (value) => ({ part: { case: "output", value } }));
  joined.add(process.stderr, (line) => ({ part: { case: "remarks", value: `${line}\n` } }));
  yield* joined.values();
}
