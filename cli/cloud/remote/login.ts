/**
 * `login`, `logout` and the profiles: the control planes elsewhere that commands work on.
 */

import { resolve } from "node:path";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import { shownUrl } from "../../../lib/base/log/shown_url.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import type { Host } from "../../../lib/base/host.ts";
import { Secret } from "../../../lib/base/secret.ts";
import { requireSafeWay } from "../../../lib/cloud_client/app_channel.ts";
import { chosen, DEFAULT_PROFILE, type Profile } from "../../../lib/cloud_client/profile.ts";
import { askHidden, canAsk, firstLine } from "../../terminal/asking.ts";
import { type Flag, UsageError, type Values } from "../../flags.ts";
import { printListing, printResult, writeHint } from "../../table.ts";
import { openWayOutAtTerminal } from "../../way_out.ts";
import type { CloudCommand, CloudProgramContext } from "../command_context.ts";
import { signIn, signOut } from "./person_session.ts";
import { cloudProfiles, type NamedProfile } from "./profiles.ts";
import type { PROFILE_FLAG } from "../cloud_flags.ts";
import type { GivenWords } from "../../command.ts";

/** Loaded when a connection is needed. */
const SEND = new URL("./send.ts", import.meta.url).href;

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
    login,
  ),
  localCommand(
    "logout",
    ["[PROFILE]"],
    "Ends the session of a profile, and deletes the profile; by default the current one.",
    [JSON_FLAG],
    async (host, [given], { profile, json }) => {
      const name = await askName(host, given ?? profile);
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

async function login(
  host: Host,
  [address]: readonly [address: string],
  values: Values<typeof LOGIN_FLAGS> & Common,
): Promise<void> {
  const { email, apiKeyId, caFile, allowInsecureCreds, json } = values;
  if (email !== "" && apiKeyId !== "" && apiKeyId !== host.env("SVC_API_KEY_ID")?.trim()) {
    throw new UsageError("--email and --api-key-id: found both, wanted one of them");
  }
  requireSafeWay(address, allowInsecureCreds);
  await openWayOutAtTerminal(host, "svc-cloud");
  const ca = caFile === "" ? undefined : await host.readTextFile(caFile);
  const place = { address, ca };
  const baseUrl = address.trim();
  const common = { baseUrl, allowInsecureCreds, caFile: caFile ? resolve(host.cwd(), caFile) : undefined };
  const name = values.profile || DEFAULT_PROFILE;
  const who = email !== "" || apiKeyId !== "" ? { email, apiKeyId } : askedWho();
  let profile: Profile;
  if (who.email !== "") {
    const password = await askSecret(host, "SVC_CLOUD_PASSWORD", "Password: ");
    const key = await signIn(place, who.email, password);
    profile = { ...common, keyId: who.email, key, session: true, ...NO_ORGANIZATION };
  } else {
    const given = await askSecret(host, "SVC_API_KEY", "Key: ");
    // No key has blanks at its ends, but a file of variables may bring some.
    const key = new Secret(given.reveal().trim());
    profile = { ...common, keyId: who.apiKeyId, key, session: false, ...NO_ORGANIZATION };
  }

  // Only whoever may run commands has anything to do with a profile.
  await requireCommands(host, { name, profile });
  const profiles = cloudProfiles(host);
  await profiles.save(name, profile);
  printResult(host, json, { profile: name, baseUrl: shownUrl(baseUrl), who: profile.keyId }, [
    `logged in to ${shownUrl(baseUrl)} as ${profile.keyId}`,
  ]);
  writeHint(host, `kept as profile "${name}" in ${profiles.path}`);
}

const NO_ORGANIZATION = { organizationId: undefined, organizationName: undefined };

function askedWho(): { readonly email: string; readonly apiKeyId: string } {
  const answer = canAsk() ? prompt("E-mail address, or id of a key:")?.trim() : undefined;
  if (answer) return answer.includes("@") ? { email: answer, apiKeyId: "" } : { email: "", apiKeyId: answer };
  throw new UsageError("found neither --email nor --api-key-id, and there is no terminal to ask on");
}

async function askSecret(host: Host, variable: string, question: string): Promise<Secret> {
  const found = host.env(variable) ||
    (canAsk() ? askHidden(host, question) : (await firstLine(new SystemClock()))?.trim());
  if (found) return new Secret(found);
  throw new SvcError("invalid_argument", `${variable} is missing, and nobody has given a secret`);
}

/** Throws if the control plane runs no commands for the person of the profile. */
async function requireCommands(host: Host, named: NamedProfile): Promise<void> {
  const remarks: string[] = [];
  const message = {
    command: "administrator list",
    words: [],
    flags: [{ name: "json", value: { case: "text" as const, value: "true" } }],
    files: [],
  };
  const output = { output: () => {}, remarks: (text: string) => void remarks.push(text), end: () => {} };
  const { sendOrder }: typeof import("./send.ts") = await import(SEND);
  const code = await sendOrder({ host, ...named }, { message, files: [] }, output).catch(async (error) => {
    if (named.profile.session) await endProfileSession(host, named.profile).catch(() => {});
    throw error;
  });
  if (code !== 0) {
    throw new SvcError("unavailable", remarks.join("").trim() || `the control plane answers with ${code}`);
  }
}

async function askName(host: Host, given: string): Promise<string> {
  return given || (await cloudProfiles(host).read()).current;
}

/** A control plane that does not answer keeps nobody from deleting a profile. */
async function endSession(host: Host, name: string): Promise<void> {
  const file = cloudProfiles(host);
  const profile = chosen(await file.read(), name, file.path);
  if (!profile.session) return;
  await openWayOutAtTerminal(host, "svc-cloud");
  try {
    await endProfileSession(host, profile);
  } catch (error) {
    const remedy = "it lasts until it is ended there: svc-cloud account sign-out EMAIL";
    writeHint(host, `svc-cloud logout: the session is not ended (${chainOf(error)}); ${remedy}`);
  }
}

async function endProfileSession(host: Host, { baseUrl: address, key, caFile }: Profile): Promise<void> {
  await signOut({ address, ca: caFile ? await host.readTextFile(caFile) : undefined }, key);
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
