/**
 * The agent's control socket for people at the device; only the agent's own user can open it.
 *
 * A request is one line of JSON, and so is its answer. The socket also shows that an agent is at work: a second agent
 * in the same folder finds it and refuses to start.
 *
 * On Windows the socket is a named pipe, and a program of any user may create a pipe of any name before the agent does.
 * So at each start the agent invents a name and writes it to a file in its folder, which other users cannot enter:
 * nobody can take the name beforehand.
 *
 * The room owns what people at the device ask the agent: the socket, and the status that it gives.
 */

import { randomUUID } from "node:crypto";
import { connect, createServer, type Server, type Socket } from "node:net";
import { Buffer } from "node:buffer";
import { basename, dirname, join } from "node:path";
import type { LinkFiles, LockFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import { isObject, type Json } from "../../base/schema/schema.ts";
import type { BinaryName } from "../update/release.ts";
import type { AgentStatus } from "./status.ts";

/** The requests that people can make to an agent. */
export interface Controlled {
  readonly status: AgentStatus;
  /** Returns to the previous version. Throws if there is none. */
  rollback(name: BinaryName): Promise<void>;
  /** Ends the agent, like a signal. */
  stop(): void;
}

type ControlFiles = ReadFiles & WriteFiles & LockFiles & LinkFiles;
/** The files that a question needs. */
type AskFiles = ReadFiles & WriteFiles & LinkFiles;

/** The system's limit of a socket's path, in bytes; the smallest of all systems. */
const SOCKET_PATH_MAX = 103;

const ANSWER_MS = 10_000;
const PRESENT_MS = 3_000;
const LINE_CHARS_MAX = 256 * 1024;
const NAMES: readonly BinaryName[] = ["svc-agent", "svc-server"];

const PIPE_FILE = ".pipe";

/** The path of the socket; on Windows, of the file with the name of the pipe. */
export function socketOf(base: string, os: string): string {
  return join(base, "state", os === "windows" ? `agent${PIPE_FILE}` : "agent.sock");
}

/** The agent's own side of the socket. */
export interface Control {
  /**
   * Why requests are impossible, for instance on a full disk or a file system without sockets; the lock still holds.
   */
  readonly problem?: SvcError;
  close(): Promise<void>;
}

/**
 * Opens the socket. A locked file beside it keeps other agents away, whatever links or names they use for the folder.
 * Throws `already_exists` if another agent works in this folder.
 */
export async function openControl(
  files: ControlFiles,
  path: string,
  controlled: Controlled,
  clock: Clock,
): Promise<Control> {
  let unlock = () => {};
  try {
    await files.makeFolder(dirname(path));
    const at = join(await files.realPath(dirname(path)), basename(path));
    unlock = await takeLock(files, at);
    const close = at.endsWith(PIPE_FILE)
      ? await servePipe(files, at, controlled, clock)
      : await serveSocket(files, at, controlled, clock);
    return {
      close: async () => {
        await close();
        await files.remove(at);
        unlock();
      },
    };
  } catch (thrown) {
    const problem = SvcError.from(thrown);
    if (problem.code !== "already_exists") return { problem, close: () => Promise.resolve(unlock()) };
    unlock();
    throw problem;
  }
}

/**
 * Runs `work` with a path of the socket that is short enough for the system: for a long path, one through a link in a
 * temporary folder that nobody else can enter.
 */
async function atShortPath<T>(files: AskFiles, path: string, work: (path: string) => Promise<T>): Promise<T> {
  if (Buffer.byteLength(path) <= SOCKET_PATH_MAX || path.startsWith("\\\\")) return await work(path);
  const folder = await files.temporaryFolder("svc-", "sockets");
  try {
    await files.turnLink(join(folder, "d"), dirname(path));
    return await work(join(folder, "d", basename(path)));
  } finally {
    await files.removeTree(folder);
  }
}

async function takeLock(files: LockFiles, path: string): Promise<() => void> {
  // A file system without locks does not prevent the start.
  const unlock = await files.lock(`${path}.lock`).catch(() => () => {});
  if (unlock) return unlock;
  throw otherAgent(path, "it holds the lock of");
}

function otherAgent(path: string, why: string): SvcError {
  return new SvcError("already_exists", `another svc-agent works in this folder already: ${why} ${path}`);
}

/** Listens at the path. */
async function serveSocket(
  files: ControlFiles,
  path: string,
  controlled: Controlled,
  clock: Clock,
): Promise<() => Promise<void>> {
  if (await isAnswered(files, path, clock)) throw otherAgent(path, "it answers at");
  // A killed agent has left this socket behind.
  await files.remove(path);
  const close = await atShortPath(files, path, (short) => serve(short, controlled, clock));
  await files.setMode(path, 0o600);
  return close;
}

/** Listens at a pipe with a new name, and writes the name to the path. It replaces the name of a killed agent. */
async function servePipe(
  files: ControlFiles,
  path: string,
  controlled: Controlled,
  clock: Clock,
): Promise<() => Promise<void>> {
  const pipe = `\\\\.\\pipe\\svc-agent-${randomUUID()}`;
  const close = await serve(pipe, controlled, clock);
  try {
    await files.writeFile(path, pipe);
    return close;
  } catch (error) {
    await close();
    throw error;
  }
}

/** Answers requests; resolves with the function that ends this. */
async function serve(address: string, controlled: Controlled, clock: Clock): Promise<() => Promise<void>> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    void answer(socket, controlled, clock);
  });
  await listen(server, address);
  return async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
}

/** The status of the agent behind the socket. Throws `not_found` if no agent answers. */
export async function askStatus(files: AskFiles, path: string, clock: Clock): Promise<AgentStatus> {
  return await ask(files, path, { do: "status" }, clock) as unknown as AgentStatus;
}

/** Tells the agent to return to the previous version. Throws `not_found` if no agent answers. */
export async function askRollback(
  files: AskFiles,
  path: string,
  name: BinaryName,
  clock: Clock,
): Promise<void> {
  await ask(files, path, { do: "rollback", name }, clock);
}

/** Tells the agent to end; it confirms before it ends. Throws `not_found` if no agent answers. */
export async function askStop(files: AskFiles, path: string, clock: Clock): Promise<void> {
  await ask(files, path, { do: "stop" }, clock);
}

async function ask(
  files: AskFiles,
  path: string,
  request: Json,
  clock: Clock,
  withinMs = ANSWER_MS,
): Promise<Json> {
  return await atShortPath(files, await readAddress(files, path), async (address) => {
    return await askAt(address, path, request, clock, withinMs);
  });
}

async function askAt(
  address: string,
  path: string,
  request: Json,
  clock: Clock,
  withinMs: number,
): Promise<Json> {
  const socket = connect(address);
  const tooLate = `the agent did not answer within ${withinMs / 1000} s at ${path}`;
  const late = deadline(clock, withinMs, () => new SvcError("deadline_exceeded", tooLate));
  try {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    socket.once("connect", resolve).once("error", (cause) => reject(unreachable(path, cause)));
    await race(promise, late.signal);
    socket.write(`${JSON.stringify(request)}\n`);
    const line = await race(firstLine(socket), late.signal);
    const { value, error } = JSON.parse(line ?? "{}") as { value?: Json; error?: string };
    if (error !== undefined) throw new SvcError("failed_precondition", error);
    if (value === undefined) {
      throw new SvcError("unavailable", `the agent at ${path} ended before it answered`);
    }
    return value;
  } finally {
    late.done();
    socket.destroy();
  }
}

/** Where the agent listens. */
async function readAddress(files: ReadFiles, path: string): Promise<string> {
  if (!path.endsWith(PIPE_FILE)) return path;
  return await files.readTextFile(path).catch((cause) => {
    throw unreachable(path, cause);
  });
}

function unreachable(path: string, cause: Error): SvcError {
  const { code = "" } = cause as { code?: string };
  return ["EACCES", "EPERM", "permission_denied"].includes(code)
    ? new SvcError(
      "permission_denied",
      `only the user of the agent may ask it at ${path}: use ${
        path.endsWith(PIPE_FILE) ? "an administrator's terminal" : "sudo"
      }`,
      { cause },
    )
    : new SvcError(
      "not_found",
      `no svc-agent runs here, nothing answers at ${path}; "systemctl status svc-agent" says why if it is installed`,
      { cause },
    );
}

/**
 * Whether an agent answers behind the socket. The children of a killed agent may have inherited its socket, which then
 * accepts connections and never answers.
 */
async function isAnswered(files: AskFiles, path: string, clock: Clock): Promise<boolean> {
  try {
    await ask(files, path, { do: "status" }, clock, PRESENT_MS);
    return true;
  } catch (error) {
    return !["not_found", "deadline_exceeded"].includes(SvcError.from(error).code);
  }
}

async function answer(socket: Socket, controlled: Controlled, clock: Clock): Promise<void> {
  const late = clock.after(ANSWER_MS, () => socket.destroy());
  try {
    const line = await firstLine(socket);
    if (line === undefined) return;
    const reply = await replyTo(line, controlled).catch((error) => ({ error: chainOf(error) }));
    socket.end(`${JSON.stringify(reply)}\n`);
  } catch {
    // The client has gone.
  } finally {
    late();
  }
}

async function replyTo(line: string, controlled: Controlled): Promise<{ value: unknown }> {
  const request: unknown = JSON.parse(line);
  const { do: what, name } = isObject(request) ? request : {};
  if (what === "status") return { value: controlled.status };
  if (what === "stop") {
    controlled.stop();
    return { value: true };
  }
  const binary = NAMES.find((one) => one === name);
  if (what === "rollback" && binary) {
    await controlled.rollback(binary);
    return { value: true };
  }
  throw new SvcError(
    "invalid_argument",
    `found ${line}, wanted {"do": "status"}, {"do": "stop"} or {"do": "rollback", "name": …}`,
  );
}

/** The text before the first newline; `undefined` if the connection ends before it, or the line is too long. */
function firstLine(socket: Socket): Promise<string | undefined> {
  return new Promise((resolve) => {
    let text = "";
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => {
      text += chunk;
      const end = text.indexOf("\n");
      if (end >= 0) resolve(text.slice(0, end));
      else if (text.length > LINE_CHARS_MAX) resolve(undefined);
    });
    socket.once("close", () => resolve(undefined));
    socket.once("end", () => resolve(undefined));
  });
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      reject(new SvcError("unavailable", `cannot listen at ${path}: ${messageOf(cause)}`, { cause }));
    });
    server.listen(path, resolve);
  });
}
