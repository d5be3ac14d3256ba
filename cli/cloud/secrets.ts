/**
 * Commands on the control plane's own keys: listing and replacing them.
 */

import { Authority } from "../../lib/cloud/store/authority.ts";
import { SECRET_KINDS, type SecretName, secretsNamed } from "../../lib/cloud/store/secret_kinds.ts";
import { Secrets } from "../../lib/cloud/store/secrets.ts";
import { table } from "../table.ts";
import { type CloudCommand, cloudCommand, timeOf } from "./desk.ts";
import { UsageError } from "../flags.ts";

const NAMES = Object.keys(SECRET_KINDS) as SecretName[];
const NOW = {
  name: "now",
  type: "bool",
  default: false,
  help: "Make the old key's signatures invalid: for a lost key, or a key in a stranger's hands.",
} as const;

export const SECRET_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "secret list",
    [],
    "Lists the control plane's own keys.",
    [],
    async ({ secrets, clock, print }) => {
      const opened = await Secrets.open(secrets);
      const keys = NAMES.flatMap((name) => opened.list(name).map((key) => ({ name, ...key })));
      const nowMs = clock.nowMs();
      const state = ({ from_ms, until_ms }: typeof keys[number]) =>
        until_ms !== undefined
          ? until_ms <= nowMs ? "gone" : `good until ${timeOf(until_ms)}`
          : from_ms > nowMs
          ? `signs from ${timeOf(from_ms)}`
          : "signs";
      print(keys, table(keys.map((key) => [key.name, key.id, `made ${timeOf(key.made_ms)}`, state(key)])));
    },
  ),
  cloudCommand(
    "secret rotate",
    ["token|authority|release|links"],
    "Makes a new key; the old key's signatures stay valid for their time.",
    [NOW],
    async ({ secrets, change, print }, [word], { now }) => {
      const names = secretsNamed(word);
      if (names.length === 0) {
        const wanted = [...new Set(Object.values(SECRET_KINDS).map((kind) => kind.word))].join(", ");
        throw new UsageError(`found secret "${word}", wanted one of ${wanted}`);
      }
      if (now) await Secrets.replace(secrets, names);
      const opened = await Secrets.open(secrets);
      if (!now) { for (const name of names) await opened.rotate(name); }
      const action = now ? "secret rotate --now" : "secret rotate";
      await change(action, { kind: "secret", id: word }, () => Promise.resolve());
      const made = names.map((name) => ({ name, ...opened.list(name).at(-1)! }));
      print(made, table(made.map((key) => [key.name, key.id, `signs from ${timeOf(key.from_ms)}`])));
    },
  ),
  cloudCommand(
    "authority",
    [],
    "Prints the certificate of the local authority (PEM); during a rotation, both.",
    [],
    async ({ secrets, store, clock, print }) => {
      const { certificate } = new Authority(await Secrets.open(secrets), store, clock);
      print({ certificate }, [certificate.trimEnd()]);
    },
  ),
];
