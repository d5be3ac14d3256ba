/**
 * ConfigurationService: the configuration file for the machine's page. Not published.
 *
 * Everybody who may call the machine sees the file, with its secrets hidden. Whoever changes it decides which programs run, so:
 * on a machine with keys, a caller with a key may; on an open machine, only a program of our own user on the
 * same computer; nobody on a machine in an untrusted environment, or one whose configuration comes from a control plane.
 */

import { ConfigurationService } from "../../../proto/gen/machine_config_pb.ts";
import type { LoopbackPeers } from "../../base/host.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Registry } from "../../resource/registry.ts";
import { type CallContext, isOnThisMachine, type Service, service } from "../../wire/rpc/service.ts";
import { machineSchema } from "../config/config.ts";
import type { ConfigEditor, LocatedProblem } from "./editor.ts";

const TEXT_CHARS_MAX = 2 * 1024 * 1024;

export interface ConfigurationServiceParts {
  readonly editor: ConfigEditor;
  readonly registry: Registry;
  readonly host: LoopbackPeers;
  /** Callers and configurations are untrusted. */
  readonly untrusted: boolean;
  /** The address of the control plane that the configuration comes from. */
  readonly managedBy?: string;
}

/** `guarded`: whether the port asks its callers for keys. */
export function configurationService(parts: ConfigurationServiceParts, guarded: boolean): Service {
  const { editor, registry, managedBy = "" } = parts;
  const mayChange = async (ctx: CallContext) => {
    const reason = await findRefusal(parts, guarded, ctx);
    if (reason) throw new SvcError("permission_denied", reason);
  };
  return service(ConfigurationService, {
    getConfiguration: async (_request, ctx) => ({
      ...await editor.show(),
      path: editor.path,
      readOnlyReason: await findRefusal(parts, guarded, ctx) ?? "",
      managedBy,
    }),
    getSchema: async () => ({ json: JSON.stringify(await machineSchema(registry)) }),
    checkConfiguration: async ({ text }, ctx) => {
      // Reading a large text takes time that other callers need.
      await mayChange(ctx);
      const { problems, isUsable } = await editor.check(checkedText(text));
      return { problems: problems.map(problemMessage), isUsable };
    },
    applyConfiguration: async ({ text, revision }, ctx) => {
      await mayChange(ctx);
      return { revision: await editor.apply(checkedText(text), revision) };
    },
    listVersions: async () => ({
      versions: (await editor.versions()).map(({ untilMs, ...one }) => ({
        ...one,
        untilMs: BigInt(untilMs),
      })),
    }),
    getVersion: async ({ id }) => ({ text: await editor.version(id) }),
    restoreVersion: async ({ id, revision }, ctx) => {
      await mayChange(ctx);
      return { revision: await editor.restore(id, revision) };
    },
  });
}

/** Why the caller may not change the file; `undefined` if it may. */
async function findRefusal(
  { host, untrusted, managedBy }: ConfigurationServiceParts,
  guarded: boolean,
  { peer }: CallContext,
): Promise<string | undefined> {
  if (managedBy) return `the configuration comes from ${managedBy}: change it there`;
  if (untrusted) return "svc-server runs with -untrusted-env: change the file on the machine";
  if (guarded) return undefined;

  const keys = "add API keys to the file (auth.handlers) and sign in, or change the file on the machine";
  const { remoteAddress = "", remotePort = 0, localAddress = "", localPort = 0 } = peer;
  if (peer.kind !== "grpc" || !isOnThisMachine(peer)) {
    return `this machine has no keys, so only a browser on the same computer may change its configuration: ${keys}`;
  }
  try {
    const [own, other] = [{ address: localAddress, port: localPort }, {
      address: remoteAddress,
      port: remotePort,
    }];
    await host.checkLoopback({ own, other, role: "server" });
    return undefined;
  } catch (error) {
    return `${messageOf(error)}; ${keys}`;
  }
}

function checkedText(text: string): string {
  if (text.length <= TEXT_CHARS_MAX) return text;
  throw new SvcError(
    "invalid_argument",
    `the text has ${text.length} characters, wanted at most ${TEXT_CHARS_MAX}`,
  );
}

function problemMessage({ path, message, severity, from, to }: LocatedProblem) {
  return { path, message, isWarning: severity === "warning", from, to };
}
