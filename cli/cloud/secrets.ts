/**
 * Commands on the control plane's own keys: listing and replacing them.
 */

import { Authority } from "../../lib/cloud/store/secrets/authority.ts";
import { SECRET_KINDS, type SecretName, secretsNamed } from "../../lib/cloud/store/secrets/secret_kinds.ts";
import { Secrets } from "../../lib/cloud/store/secrets/secrets.ts";
import { shownMs } from "../table.ts";
import { type CloudCommand, cloudCommand } from "./command_context.ts";
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
    async ({ secrets, clock, list }) => {
      const opened = await Secrets.open(secrets);
      const keys = NAMES.flatMap((name) => opened.list(name).map((key) => ({ name, ...key })));
      const nowMs = clock.nowMs();
      const state = ({ from_ms, until_ms }: typeof keys[number]) => {
        if (until_ms === undefined) return from_ms > nowMs ? `signs from ${shownMs(from_ms)}` : "signs";
        return until_ms <= nowMs ? "gone" : `good until ${shownMs(until_ms)}`;
      };
      list("secrets", keys.map((key) => ({ ...key, state: state(key) })), {
        columns: [
          { heading: "NAME" },
          { heading: "ID", cutTo: 10 },
          { heading: "MADE (UTC)", rank: 1 },
          { heading: "STATE", cutTo: 12 },
        ],
        rows: keys.map((key) => [key.name, key.id, shownMs(key.made_ms), state(key)]),
        empty: "there is no key yet: svc-cloud serve makes them",
      });
    },
  ),
  cloudCommand(
    "secret rotate",
    ["token|authority|release|links"],
    "Makes a new key; the old key's signatures stay valid for their time.",
    [NOW],
    async ({ secrets, change, list }, [word], { now }) => {
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
      list("secrets", made, {
        columns: [{ heading: "NAME" }, { heading: "ID", cutTo: 10 }, { heading: "SIGNS FROM (UTC)" }],
        rows: made.map((key) => [key.name, key.id, shownMs(key.from_ms)]),
        empty: "",
      });
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
