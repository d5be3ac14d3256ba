/**
 * Which commands run from afar, and which of their words and flags name files of the caller.
 *
 * A command without a row does not run from afar. No command from afar opens a file of the host that the caller names.
 */

import { SUMS_FILE, SUMS_SIGNATURE_FILE } from "../../../lib/base/release/sums.ts";

/** A command that runs at the control plane. Places are words as the usage line shows them, or flags: `--config`. */
export interface RemoteRow {
  /** Files that the command reads. */
  readonly reads?: readonly string[];
  /** Of these, folders are packed first. */
  readonly packs?: readonly string[];
  /** Files that the command writes. */
  readonly writes?: readonly string[];
  /** With this flag the command also reads these files beside the first one. */
  readonly beside?: { readonly flag: string; readonly names: readonly string[] };
}

/** A command runs as its row says, at the caller's (`edit`), or, with the reason, on the host only. */
export type RemoteKind = RemoteRow | "edit" | { readonly onHost: string };

const OWN_KEYS = "it works with the control plane's own keys";
const ADMINISTRATORS = "only a person on the host says who is an administrator";
const HOST_FILES = "it reads and writes files of the host";

const PLAIN: RemoteRow = {};

export const REMOTE_ROWS: Readonly<Record<string, RemoteKind>> = {
  "serve": { onHost: "it is the control plane" },
  "init": { onHost: "it makes a control plane" },
  "org create": PLAIN,
  "org list": PLAIN,
  "org rename": PLAIN,
  "org delete": PLAIN,
  "org namespace": PLAIN,
  "location create": PLAIN,
  "location list": PLAIN,
  "location rename": PLAIN,
  "location delete": PLAIN,
  "machine create": PLAIN,
  "machine list": PLAIN,
  "machine rename": PLAIN,
  "machine move": PLAIN,
  "machine tag": PLAIN,
  "machine untag": PLAIN,
  "machine delete": PLAIN,
  "restart": PLAIN,
  "fleet": PLAIN,
  "hosts": PLAIN,
  "key create": PLAIN,
  "key list": PLAIN,
  "key grant": PLAIN,
  "key own": PLAIN,
  "key rotate": PLAIN,
  "key revoke": PLAIN,
  "account invite": PLAIN,
  "account reset": PLAIN,
  "account list": PLAIN,
  "account sessions": PLAIN,
  "account sign-out": PLAIN,
  "account remove": PLAIN,
  "administrator add": { onHost: ADMINISTRATORS },
  "administrator list": PLAIN,
  "administrator remove": { onHost: ADMINISTRATORS },
  "config show": PLAIN,
  "config set": { reads: ["FILE", "--expected"] },
  "config diff": { reads: ["FILE"] },
  "config edit": "edit",
  "config history": PLAIN,
  "config restore": PLAIN,
  "fragment list": PLAIN,
  "fragment show": PLAIN,
  "fragment set": { reads: ["FILE"] },
  "fragment delete": PLAIN,
  "fragment apply": PLAIN,
  "fragment drop": PLAIN,
  "rollout start": { reads: ["--config"] },
  "rollout status": PLAIN,
  "rollout list": PLAIN,
  "rollout pause": PLAIN,
  "rollout resume": PLAIN,
  "rollout abort": PLAIN,
  "logs": PLAIN,
  "audit": PLAIN,
  "package list": PLAIN,
  "package upload": { packs: ["PATH"] },
  "package delete": PLAIN,
  "package update": PLAIN,
  "package uses": PLAIN,
  "map start": { reads: ["--parameters"] },
  "map list": PLAIN,
  "map stop": PLAIN,
  "files move": { onHost: HOST_FILES },
  "database move": { onHost: HOST_FILES },
  "backup": { onHost: HOST_FILES },
  "restore": { onHost: HOST_FILES },
  "trigger list": PLAIN,
  "trigger test": PLAIN,
  "trigger deliveries": PLAIN,
  "trigger retry": PLAIN,
  "trigger secret": PLAIN,
  "usage": PLAIN,
  "retention": PLAIN,
  "data export": { writes: ["FILE"] },
  "release publish": {
    reads: ["FILE"],
    beside: { flag: "require-signature", names: [SUMS_FILE, SUMS_SIGNATURE_FILE] },
  },
  "release list": PLAIN,
  "release channel": PLAIN,
  "release delete": PLAIN,
  "release keys": PLAIN,
  "release rotate-key": { onHost: OWN_KEYS },
  "secret list": PLAIN,
  "secret rotate": { onHost: OWN_KEYS },
  "authority": PLAIN,
  "login": { onHost: "" },
  "logout": { onHost: "" },
  "profile list": { onHost: "" },
  "profile use": { onHost: "" },
  "profile remove": { onHost: "" },
};

/** Flags that only the host sets. */
export const HOST_FLAGS: ReadonlySet<string> = new Set(["limits"]);

/** The places of the words of a command, in their order: `NAME`, `VERSION`, `PATH`. */
export function wordNames(takes: readonly string[], count: number): string[] {
  const needed = takes.filter((one) => !one.startsWith("[")).length;
  const repeated = takes.find((one) => /\.\.\.\]?$/.test(one));
  let spare = count - needed;
  const places: string[] = [];
  for (const one of takes) {
    const name = one.replace(/^\[|\]$/g, "").replace("...", "");
    const isOptional = one.startsWith("[");
    if (one === repeated) {
      const times = Math.max(0, count - places.length);
      return [...places, ...Array.from({ length: times }, () => name)];
    }
    if (isOptional && spare <= 0) continue;
    if (isOptional) spare--;
    places.push(name);
  }
  return places;
}
