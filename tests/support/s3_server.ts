/** An S3-compatible store of somebody else's on loopback, in a process of Node's. */

import { nodeFolder } from "../interop/programs.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { parseS3Address } from "../../lib/cloud/store/s3/s3_address.ts";
import { S3Client } from "../../lib/cloud/store/s3/s3_client.ts";

export interface S3Server {
  /** With the prefix `machines/one`. */
  readonly address: string;
  /** What names its credentials. */
  readonly env: Readonly<Record<string, string>>;
  client(): S3Client;
  /** Kills the server (SIGKILL). */
  kill(): Promise<void>;
  /** Starts a killed server again, on the same port and with the same objects. */
  start(): Promise<void>;
}

const BUCKET = "svc-contents";
const KEY = "S3RVER";

export async function withS3(run: (server: S3Server) => Promise<void>): Promise<void> {
  const programs = await nodeFolder();
  const folder = await Deno.makeTempDir({ prefix: "svc-s3-" });
  const begin = async (port: string) => {
    const child = new Deno.Command("node", {
      args: ["s3_server.mjs", folder, BUCKET, port],
      cwd: programs,
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const end = async () => {
      child.kill("SIGKILL");
      await reader.cancel();
      await child.status;
    };
    const { value } = await reader.read();
    if (value) return { port: value.trim(), end };
    await end();
    throw new Error("the S3 server did not start");
  };
  let running: Awaited<ReturnType<typeof begin>> | undefined;
  const kill = async () => {
    await running?.end();
    running = undefined;
  };
  try {
    const { port } = running = await begin("0");
    const address = `s3://${BUCKET}/machines/one?endpoint=http://127.0.0.1:${port}`;
    await run({
      address,
      env: { AWS_ACCESS_KEY_ID: KEY, AWS_SECRET_ACCESS_KEY: KEY },
      client: () =>
        new S3Client({
          address: parseS3Address(address, () => undefined),
          credentials: { accessKeyId: KEY, secretAccessKey: KEY },
          clock: new SystemClock(),
        }),
      kill,
      start: async () => void (running = await begin(port)),
    });
  } finally {
    await kill();
    await Deno.remove(folder, { recursive: true });
  }
}

/** The same with its credentials in this process's environment, where commands look for them. */
export function withS3Environment(run: (server: S3Server) => Promise<void>): Promise<void> {
  return withS3(async (server) => {
    const before = Object.keys(server.env).map((name) => [name, Deno.env.get(name)] as const);
    try {
      for (const [name, value] of Object.entries(server.env)) Deno.env.set(name, value);
      await run(server);
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) Deno.env.delete(name);
        else Deno.env.set(name, value);
      }
    }
  });
}
