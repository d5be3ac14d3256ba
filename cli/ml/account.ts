/**
 * The commands on control planes and logins: `login` and `profiles`.
 */

import { resolve } from "node:path";
import { SvcError } from "../../lib/base/error.ts";
import { shownUrl } from "../../lib/base/log/shown_url.ts";
import { Secret } from "../../lib/base/secret.ts";
import { DEFAULT_PROFILE } from "../../lib/cloud_client/profile.ts";
import { type MlCommand, mlCommand } from "./command.ts";
import type { MlCommandContext } from "./command_context.ts";
import { localControlPlane } from "./embedded.ts";
import { onlyOf } from "../lookup.ts";

export const ACCOUNT_COMMANDS: readonly MlCommand[] = [
  mlCommand(
    "login",
    [],
    "Checks an API key and stores it as a profile, with the address of its control plane.",
    [{
      name: "api-key-id",
      type: "string",
      default: "",
      value: "ID",
      env: "SVC_API_KEY_ID",
      help:
        "The id of the API key. The key itself is taken from SVC_API_KEY, asked for, or read from standard input.",
    }],
    async (context, _, { apiKeyId }) => {
      const { values, profiles, host } = context;
      const { baseUrl: givenUrl, orgId, allowInsecureCreds, caFile } = values;
      const name = values.profile || DEFAULT_PROFILE;
      const baseUrl = await chosenUrl(context, givenUrl);
      const keyId = asked(context, "--api-key-id", apiKeyId, "Id of the API key: ");
      const given = host.env("SVC_API_KEY")?.trim() || await piped(context);
      const key = new Secret(asked(context, "SVC_API_KEY", given, "API key: ", true));
      const ca = caFile === "" ? undefined : await host.readTextFile(caFile);
      context.choose({
        baseUrl,
        keyId,
        key,
        organization: orgId,
        allowInsecureCredentials: allowInsecureCreds,
        ca,
      });
      const { app } = await context.services();
      const { organizations } = await app.listOrganizations({}, context.limits);
      const only = onlyOf(organizations)?.id;
      const organizationId = orgId === "" ? only : await context.organization();
      const organizationName = organizations.find(({ id }) => id === organizationId)?.name;
      await profiles.save(name, {
        baseUrl,
        keyId,
        key,
        session: false,
        organizationId,
        organizationName,
        allowInsecureCreds,
        caFile: caFile ? resolve(host.cwd(), caFile) : undefined,
      });
      const listed = organizations.map((one) => `${one.name} (${one.id})`).join(", ");
      context.print({ profile: name, baseUrl: shownUrl(baseUrl), keyId, organizationId, organizationName }, [
        `logged in to ${shownUrl(baseUrl)}: ${listed}`,
      ]);
      context.note(`kept as profile "${name}" in ${profiles.path}`);
      if (organizationId === undefined) context.note("tell with --org-id which organization is meant");
    },
  ),
  mlCommand("profiles", [], "Lists the stored profiles.", [], async (context) => {
    const { current, profiles } = await context.profiles.read();
    const all = Object.entries(profiles).map(([name, { baseUrl, keyId, ...one }]) => {
      const { organizationId = "", organizationName = "" } = one;
      const isCurrent = name === current;
      const shown = { name, baseUrl: shownUrl(baseUrl), keyId, organizationId, organizationName };
      return { ...shown, current: isCurrent };
    });
    context.list(() => ({ profiles: all }), {
      columns: [
        { heading: "NAME", cutTo: 12 },
        { heading: "STATE", isState: true },
        { heading: "BASE URL", cutTo: 20 },
        { heading: "KEY ID", cutTo: 9, rank: 1 },
        { heading: "ORGANIZATION", cutTo: 9, rank: 2 },
      ],
      rows: all.map((one) => [
        one.name,
        one.current ? "current" : "-",
        one.baseUrl,
        one.keyId,
        one.organizationName || one.organizationId || "-",
      ]),
      empty: "no profile is stored: svc-ml login stores one",
    });
  }),
  mlCommand("profiles use", ["PROFILE"], "Makes a profile the current one.", [], async (context, [name]) => {
    await context.profiles.use(name);
    context.print({ profile: name }, [name]);
  }),
  mlCommand("profiles delete", ["PROFILE"], "Deletes a profile and its key.", [], async (context, [name]) => {
    await context.profiles.remove(name);
    context.print({ profile: name }, [name]);
  }),
];

/** The address of the control plane: given, answered, or the one of this computer. */
async function chosenUrl(context: MlCommandContext, given: string): Promise<string> {
  if (given !== "") return given;
  const proposed = await localControlPlane(context);
  if (proposed === undefined) return asked(context, "--base-url", "", "Control plane (https://host:port): ");
  const { terminal, ask } = context.context;
  if (!terminal.input || !terminal.errors) {
    throw new SvcError("invalid_argument", `--base-url is missing; a control plane answers at ${proposed}`);
  }
  return ask(`Control plane (https://host:port) [${proposed}]: `)?.trim() || proposed;
}

/** The first line of standard input, if that is a file or another program. */
async function piped({ context }: MlCommandContext): Promise<string> {
  return context.terminal.input ? "" : (await context.firstLine())?.trim() ?? "";
}

/** The given value, or the person's answer. */
function asked(
  context: MlCommandContext,
  what: string,
  given: string,
  question: string,
  hidden = false,
): string {
  if (given !== "") return given;
  const { terminal, ask } = context.context;
  const answer = terminal.input && terminal.errors ? ask(question, { hidden })?.trim() : undefined;
  if (answer) return answer;
  throw new SvcError("invalid_argument", `${what} is missing, and there is no terminal to ask on`);
}
