/**
 * Opens uploaded content in isolated processes: `svc-cloud` starts itself as `svc-cloud content-worker`.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf } from "../../../lib/base/error.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import type { Host } from "../../../lib/base/host.ts";
import type { DenoHost } from "../../../lib/base/host_deno.ts";
import { embeddedPackage, openNativeFolder } from "../../../lib/base/native/packed.ts";
import type { Right } from "../../../lib/base/native/permissions.ts";
import type { Logger } from "../../../lib/base/log/log.ts";
import {
  type ContentOptions,
  MEMORY_BYTES_MIN,
  type SharedNative,
} from "../../../lib/cloud/sandbox/content/process.ts";
import { serveContent } from "../../../lib/cloud/content/worker.ts";
import type { InferenceOptions } from "../../../lib/cloud/services/data/inference_service.ts";
import { NO_SANDBOX, type Sandbox } from "../../../lib/cloud/sandbox/sandbox.ts";
import { UsageError, type Values } from "../../flags.ts";
import type { INFERENCE_FLAGS } from "./flags.ts";

/** The internal command of `main.ts`; help does not list it. */
const CONTENT_WORKER = "content-worker";

/**
 * The rights of a content worker: it unpacks and loads native code, and has neither the network nor other programs,
 * also where no sandbox takes them from it.
 */
const CONTENT_RIGHTS: readonly Right[] = ["read", "write", "env", "ffi", "sys"];

const MIB = 1024 ** 2;
/** The ending of a lock's name, after that of its folder. */
const LOCK_SUFFIX = ".lock";

/** The isolation of content processes; `sandbox` is this computer's, or the reason why there is none. */
export function openInference(
  values: Values<typeof INFERENCE_FLAGS>,
  { host, clock, logger, native, workFolder }: {
    readonly host: Host;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly native?: SharedNative;
    readonly workFolder?: string;
  },
  sandbox: Sandbox | string,
): InferenceOptions {
  const memoryBytes = values.inferenceMemoryMib * MIB;
  if (memoryBytes < MEMORY_BYTES_MIN) {
    const wanted = `wanted ${MEMORY_BYTES_MIN / MIB} or more`;
    throw new UsageError(`--inference-memory-mib: found ${values.inferenceMemoryMib}, ${wanted}`);
  }
  if (values.inferenceSeconds < 1) {
    throw new UsageError(`--inference-seconds: found ${values.inferenceSeconds}, wanted 1 or more`);
  }
  const isOpen = values.uploadsWithoutSandbox;
  if (typeof sandbox !== "string") logger.info(`models and pictures are opened in ${sandbox.description}`);
  else if (isOpen) {
    logger.warn(
      `models and pictures are opened in separate processes, but without a sandbox: ${sandbox}. A bug in a ` +
        "decoder would let an attacker read everything that this user can read",
    );
  } else {
    logger.warn(
      `uploaded models, pictures and maps are not opened, because there is no sandbox: ${sandbox}. ` +
        "--uploads-without-sandbox would open them",
    );
  }
  const refusal = typeof sandbox === "string" && !isOpen
    ? `this control plane opens no models, pictures or maps, because it has no sandbox for them (${sandbox}); its ` +
      "operator may allow it (svc-cloud serve --uploads-without-sandbox)"
    : undefined;
  const content = contentOptions({
    host,
    clock,
    native,
    workFolder,
    memoryBytes,
    refusal,
    sandbox: typeof sandbox === "string" ? NO_SANDBOX : sandbox,
  });
  return { content, timeMs: values.inferenceSeconds * 1000 };
}

/**
 * Runs `work` with a new folder for the files of content processes, below the data folder because contents get further
 * names on the same disk only. Removes folders that killed control planes have left.
 */
export async function withWorkFolder<T>(
  data: string,
  host: Host,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const all = join(data, "work");
  await host.makeFolder(all, { mode: 0o700 });
  for (const name of await host.readFolder(all)) {
    if (name.endsWith(LOCK_SUFFIX)) await removeLeft(join(all, name), host);
  }

  const folder = join(all, crypto.randomUUID());
  const lock = folder + LOCK_SUFFIX;
  const leave = await host.lock(lock);
  try {
    await host.makeFolder(folder, { mode: 0o700 });
    return await work(folder);
  } finally {
    await host.removeTree(folder);
    leave?.();
    await host.remove(lock);
  }
}

/** Removes a folder whose lock nobody holds. */
async function removeLeft(lock: string, host: Host): Promise<void> {
  const leave = await host.lock(lock);
  if (!leave) return;
  try {
    await host.removeTree(lock.slice(0, -LOCK_SUFFIX.length));
  } finally {
    leave();
  }
  await host.remove(lock);
}

/** The native code of this executable for its content processes; `undefined` where each of them unpacks its own. */
export async function openSharedNative(logger: Logger): Promise<SharedNative | undefined> {
  const remark = (error: unknown) => {
    const wanted = "set SVC_HOME to a folder of this user, with 100 MB of room, for faster answers";
    logger.warn(`each query and model unpacks native code for itself: ${messageOf(error)}; ${wanted}`);
  };
  let hasFailed = false;
  try {
    const folder = await openNativeFolder();
    if (!folder) return undefined;
    return {
      path: folder.path,
      prepare: async (name) => {
        try {
          await folder.take(await embeddedPackage(name));
        } catch (error) {
          if (!hasFailed) remark(error);
          hasFailed = true;
        }
      },
    };
  } catch (error) {
    remark(error);
    return undefined;
  }
}

/** The command line that starts this program as a content worker. */
export function contentOptions(
  parts: Omit<ContentOptions, "program">,
): ContentOptions {
  const command = Deno.execPath();
  const env: Record<string, string> = { NO_COLOR: "1" };
  for (const name of ["LANG", "SYSTEMROOT"]) {
    const value = Deno.env.get(name);
    if (value !== undefined) env[name] = value;
  }
  if (Deno.build.standalone) {
    return { ...parts, program: { command, args: [CONTENT_WORKER], env, readable: [command] } };
  }
  const root = fileURLToPath(new URL("../../..", import.meta.url));
  const cache = denoFolder();
  const args = ["run", "-A", "--cached-only", "--config", `${root}deno.json`, `${root}cli/cloud/main.ts`];
  return {
    ...parts,
    program: {
      command,
      args: [...args, CONTENT_WORKER],
      env: { ...env, DENO_DIR: cache, DENO_NO_UPDATE_CHECK: "1" },
      readable: [command, root.replace(/[/\\]$/, ""), cache],
    },
  };
}

/** Works as a content worker until standard input ends. */
export async function workOnContent(host: Pick<DenoHost, "giveUpRights">): Promise<number> {
  host.giveUpRights(CONTENT_RIGHTS);
  await serveContent(Deno.stdin.readable, async (bytes) => {
    for (let at = 0; at < bytes.length;) at += await Deno.stdout.write(bytes.subarray(at));
  });
  return 0;
}

/** Deno's package folder, for a program that runs from source. */
export function denoFolder(): string {
  const [own, caches, home] = ["DENO_DIR", "XDG_CACHE_HOME", "HOME"].map((name) => Deno.env.get(name));
  return own ?? `${caches ?? `${home}/.cache`}/deno`;
}
