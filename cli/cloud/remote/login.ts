/**
 * `login`, `logout` and the profiles: the control planes elsewhere that commands work on.
 */

import { shownUrl } from "../../../lib/base/log/shown_url.ts";
import type { Host } from "../../../lib/base/host.ts";
import type { Flag, Values } from "../../flags.ts";
import { printListing, printResult } from "../../table.ts";
import type { CloudCommand, CloudProgramContext } from "../command_context.ts";
import { cloudProfiles } from "./profiles.ts";
import type { PROFILE_FLAG } from "../cloud_flags.ts";
import type { GivenWords } from "../../command.ts";

/** Loaded by what signs in or out: it has the connection. */
const SIGNING = new URL("./signing.ts", import.meta.url).href;

const JSON_FLAG = { name: "json", type: "bool", default: false, help: "Print one JSON value." } as const;

const LOGIN_FLAGS = [
  {
    name: "email",
    type: "string",
    default: "",
    value: "EMAIL",
    help:
      "Sign in with the account of this address. The password is taken from SVC_CLOUD_PASSWORD, asked for, or " +
      "read from standard input.",
  },
  {
    name: "api-key-id",
    type: "string",
    default: "",
    value: "ID",
    env: "SVC_API_KEY_ID",
    help:
      "Or with the key of this id, which is taken from SVC_API_KEY, asked for, or read from standard input.",
  },
  {
    name: "ca-file",
    type: "string",
    default: "",
    value: "FILE",
    help: "Trust this authority (a file of certificates, PEM), as /ca.pem of svc-cloud serve --tls has it.",
  },
  {
    name: "allow-insecure-creds",
    type: "bool",
    default: false,
    help: "The key may travel to other computers without TLS.",
  },
  JSON_FLAG,
] as const satisfies readonly Flag[];

type Common = Values<readonly [typeof JSON_FLAG, typeof PROFILE_FLAG]>;

/** A command on this computer alone. */
function localCommand<const T extends readonly string[], const F extends readonly Flag[]>(
  words: string,
  takes: T,
  summary: string,
  flags: F,
  run: (host: Host, words: GivenWords<T>, values: Values<F> & Common) => Promise<void>,
): CloudCommand {
  const atHost = ({ host }: CloudProgramContext, given: GivenWords<T>, values: Values<F> & Common) =>
    run(host, given, values);
  return { words, takes, summary, flags, run: atHost };
}

export const LOGIN_COMMANDS: readonly CloudCommand[] = [
  localCommand(
    "login",
    ["ADDRESS"],
    "Signs an administrator in to a control plane elsewhere, and stores it as a profile (--profile), on which commands " +
      "then work.",
    LOGIN_FLAGS,
    async (host, [address], values) => {
      const { logIn }: typeof import("./signing.ts") = await import(SIGNING);
      await logIn(host, address, values);
    },
  ),
  localCommand(
    "logout",
    ["[PROFILE]"],
    "Ends the session of a profile, and deletes the profile; by default the current one.",
    [JSON_FLAG],
    async (host, [given], { profile, json }) => {
      const name = await askName(host, given ?? profile);
      const { endSession }: typeof import("./signing.ts") = await import(SIGNING);
      await endSession(host, name);
      await cloudProfiles(host).remove(name);
      printResult(host, json, { profile: name }, [name]);
    },
  ),
  localCommand("profile list", [], "Lists the stored profiles.", [JSON_FLAG], listProfiles),
  localCommand(
    "profile use",
    ["PROFILE"],
    "Makes a profile the current one, which commands use where no other control plane is meant.",
    [JSON_FLAG],
    async (host, [name], { json }) => {
      await cloudProfiles(host).use(name);
      printResult(host, json, { profile: name }, [name]);
    },
  ),
  localCommand(
    "profile remove",
    ["PROFILE"],
    "Deletes a profile, as logout does, but asks nobody else: a session lasts until it is ended.",
    [JSON_FLAG],
    async (host, [name], { json }) => {
      await cloudProfiles(host).remove(name);
      printResult(host, json, { profile: name }, [name]);
    },
  ),
];

async function askName(host: Host, given: string): Promise<string> {
  return given || (await cloudProfiles(host).read()).current;
}

async function listProfiles(host: Host, _: readonly string[], { json }: Common): Promise<void> {
  const { current, profiles } = await cloudProfiles(host).read();
  const all = Object.entries(profiles).map(([name, { baseUrl, keyId, session }]) => ({
    name,
    current: name === current,
    baseUrl: shownUrl(baseUrl),
    who: keyId,
    kind: session ? "session" : "key",
  }));
  printListing(host, json, { profiles: all }, {
    columns: [
      { heading: "NAME", cutTo: 12 },
      { heading: "STATE", isState: true },
      { heading: "ADDRESS", cutTo: 20 },
      { heading: "WHO", cutTo: 12, rank: 1 },
    ],
    rows: all.map((one) => [one.name, one.current ? "current" : "-", one.baseUrl, one.who]),
    empty: "no profile is stored: svc-cloud login ADDRESS stores one",
  });
}
