/**
 * The agent's control socket for people at the device; only the agent's own user can open it.
 *
 * A request is one line of JSON, and so is its answer. The socket also shows that an agent is at work: a second agent
 * in the same folder finds it and refuses to start.
 */

import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import type { LockFiles, WriteFiles } from "../../base/files/files.ts";
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
  /** Ends the agent, as a signal does. */
  stop(): void;
}

const ANSWER_MS = 10_000;
const PRESENT_MS = 3_000;
const LINE_CHARS_MAX = 256 * 1024;
const NAMES: readonly BinaryName[] = ["svc-agent", "svc-server"];

/** The path of the socket; on Windows, of a named pipe. */
export function socketOf(base: string, os: string): string {
  if (os !== "windows") return join(base, "state", "agent.sock");
  return `\\\\.\\pipe\\svc-agent-${base.replaceAll(/[^\w]+/g, "_")}`;
}

/**
 * Opens the socket, beside which a locked file keeps other agents away. Throws `already_exists` if another agent works
 * in this folder, and another error if there can be no socket, for instance on a full disk.
 */
export async function openControl(
  files: WriteFiles & LockFiles,
  path: string,
  controlled: Controlled,
  clock: Clock,
): Promise<{ close(): Promise<void> }> {
  const isFile = !path.startsWith("\\\\");
  if (isFile) await files.makeFolder(dirname(path));
  const unlock = isFile ? await lockOf(files, path) : () => {};
  try {
    const server = await serve(files, path, isFile, controlled, clock);
    return {
      close: async () => {
        await server.close();
        unlock();
      },
    };
  } catch (error) {
    unlock();
    throw error;
  }
}

async function lockOf(files: LockFiles, path: string): Promise<() => void> {
  // A file system without locks is no reason not to work.
  const unlock = await files.lock(`${path}.lock`).catch(() => () => {});
  if (unlock) return unlock;
  throw otherAgent(path, "it holds the lock of");
}

function otherAgent(path: string, why: string): SvcError {
  return new SvcError("already_exists", `another svc-agent works in this folder already: ${why} ${path}`);
}

async function serve(
  files: WriteFiles,
  path: string,
  isFile: boolean,
  controlled: Controlled,
  clock: Clock,
): Promise<{ close(): Promise<void> }> {
  if (await isAnswered(path, clock)) throw otherAgent(path, "it answers at");
  // A killed agent has left this socket behind.
  if (isFile) await files.remove(path);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    void answer(socket, controlled, clock);
  });
  await listen(server, path);
  if (isFile) await files.setMode(path, 0o600);
  return {
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      if (isFile) await files.remove(path);
    },
  };
}

/** The status of the agent behind the socket. Throws `not_found` if no agent answers. */
export async function askStatus(path: string, clock: Clock): Promise<AgentStatus> {
  return await ask(path, { do: "status" }, clock) as unknown as AgentStatus;
}

/** Tells the agent to return to the previous version. Throws `not_found` if no agent answers. */
export async function askRollback(path: string, name: BinaryName, clock: Clock): Promise<void> {
  await ask(path, { do: "rollback", name }, clock);
}

/** Tells the agent to end; it confirms before it ends. Throws `not_found` if no agent answers. */
export async function askStop(path: string, clock: Clock): Promise<void> {
  await ask(path, { do: "stop" }, clock);
}

async function ask(path: string, request: Json, clock: Clock, withinMs = ANSWER_MS): Promise<Json> {
  const socket = connect(path);
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

function unreachable(path: string, cause: Error): SvcError {
  const { code } = cause as { code?: string };
  return code === "EACCES" || code === "EPERM"
    ? new SvcError("permission_denied", `only the user of the agent may ask it at ${path}: use sudo`, {
      cause,
    })
    : new SvcError("not_found", `no svc-agent answers at ${path}: ${messageOf(cause)}`, { cause });
}

/**
 * Whether an agent answers behind the socket. The children of a killed agent may have inherited its socket, which then
 * accepts connections and never answers.
 */
async function isAnswered(path: string, clock: Clock): Promise<boolean> {
  try {
    await ask(path, { do: "status" }, clock, PRESENT_MS);
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
